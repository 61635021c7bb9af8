"""The result of an audit: verdicts, a report, a review, and corrected data."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import Verdicts

if TYPE_CHECKING:
    import pandas

    from discrimloss.auditing.directory import AuditDirectory
    from discrimloss.auditing.evidence.why import Evidence, Why
    from discrimloss.auditing.health.data_health import DataHealth
    from discrimloss.auditing.report.contents import ReportContents, ReportRun
    from discrimloss.auditing.review.session import ReviewSession
    from discrimloss.auditing.sources.base import AuditSource


class AuditResult:
    """The result of an audit. `discrimloss.audit` returns it, and `load` reads a finished audit.

    Args:
        verdicts: the verdicts, in the order of the samples, with ids, given labels and suggested
            labels.
        summary: the content of ``summary.json``.
        record: what was audited and how: the content of ``audit.json``.
        source: the audited source. If None, it is opened from `directory` when needed.
        directory: directory of the audit, or None if the audit is only in memory.
        runs: training runs that are kept in memory.
        health: problems of the data besides its labels. If None, read from `directory`.
        evidence: why samples are suspicious. If None, read from `directory`.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        summary: dict[str, Any],
        record: dict[str, Any],
        *,
        source: AuditSource | None = None,
        directory: Path | None = None,
        runs: Sequence[ReportRun] = (),
        health: DataHealth | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        self.verdicts = verdicts
        self.summary = summary
        self.directory = directory
        self._record = record
        self._given_source = source
        self._runs = tuple(runs)
        self._given_health, self._given_evidence = health, evidence

    @classmethod
    def load(cls, directory: str | Path, data: Any = None) -> AuditResult:
        """Read a finished audit from its directory.

        Args:
            directory: the ``out`` of the audit.
            data: the audited data, if it was in memory. Without it you can read the verdicts, but
                not review or apply them.

        Raises:
            DiscrimLossError: there is no finished audit, or the data differs from the audited data.
        """
        from discrimloss.auditing.directory import AuditDirectory

        audit = AuditDirectory(Path(directory))
        audit.require_finished()
        if data is None:
            return cls.read(audit)
        from discrimloss.auditing.sources.base import SourceOptions
        from discrimloss.auditing.sources.open_source import open_data

        return cls.read(audit, open_data(data, SourceOptions.saved(audit.settings()["source"])))

    @classmethod
    def read(cls, audit: AuditDirectory, source: AuditSource | None = None) -> AuditResult:
        """Read a finished audit. If a source is given, check that it is the audited one."""
        if source is not None:
            audit.require_unchanged(source)
        record, summary, verdicts = audit.settings(), audit.summary(), audit.verdicts()
        if "fingerprint_version" not in record:  # version 0.1 wrote verdicts without notes
            from discrimloss.auditing.outputs import left_out_notes

            left_out = left_out_notes(summary.get("left_out_why", {}), "sample")
            verdicts = replace(verdicts, notes=(*left_out, *summary.get("notes", ())))
            summary["notes"] = list(verdicts.notes)
        return cls(verdicts, summary, record, source=source, directory=audit.path)

    # -- what was found ---------------------------------------------------------------------------

    @property
    def noise_rate(self) -> float | None:
        """Estimated fraction of wrong labels, or None if it cannot be estimated."""
        return self.verdicts.noise_rate

    @property
    def noise_interval(self) -> tuple[float, float] | None:
        """Interval that contains the fraction of wrong labels with a probability of about 90 %."""
        return self.verdicts.noise_interval

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about how the data was read, and about limits of the verdicts."""
        return self.verdicts.notes

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of all classes. Empty for regression."""
        return tuple(self._record.get("class_names", ()))

    @cached_property
    def health(self) -> DataHealth:
        """Problems of the data besides its labels, with the affected samples.

        Raises:
            DiscrimLossError: the audit is of an older version, which did not find such problems.
        """
        from discrimloss.auditing.directory import AuditDirectory

        found = self._given_health
        if found is None and self.directory is not None:
            found = AuditDirectory(self.directory).health()
        if found is None:
            raise DiscrimLossError(
                "this audit did not check the health of the data: audit the data again"
            )
        return found

    @cached_property
    def evidence(self) -> Evidence:
        """Why samples are suspicious, by their position in `verdicts`. See `why`."""
        from discrimloss.auditing.directory import AuditDirectory
        from discrimloss.auditing.evidence.why import Evidence

        if self._given_evidence is not None:
            return self._given_evidence
        return Evidence() if self.directory is None else AuditDirectory(self.directory).evidence()

    def why(self, id: Any) -> Why:
        """Return why a sample was flagged: similar samples, words or columns, and the confidence.

        Args:
            id: the sample's id, as in the column ``id``. A number is converted to text.

        Raises:
            KeyError: there is no sample with this id.
        """
        from discrimloss.auditing.evidence.why import Why
        from discrimloss.judging.verdicts import LABELS

        verdicts = self.verdicts
        assert verdicts.ids is not None
        if str(id) not in self._position_of_id:
            raise KeyError(f"there is no sample with the id {id!r} in this audit")
        index = self._position_of_id[str(id)]
        found = self.evidence.why(index, verdicts.ids, verdicts.given_label)
        if found is not None:
            return found
        verdict = LABELS[verdicts.code[index]]
        return Why(str(id), (f"This sample is not suspicious: its verdict is {verdict}.",))

    @cached_property
    def _position_of_id(self) -> dict[str, int]:
        return {str(name): place for place, name in enumerate(self.verdicts.ids or ())}

    @cached_property
    def source(self) -> AuditSource:
        """The audited source.

        Raises:
            SourceError: the source cannot be opened, or has changed since the audit.
        """
        from discrimloss.auditing.directory import AuditDirectory

        if self._given_source is not None:
            return self._given_source
        assert self.directory is not None
        return AuditDirectory(self.directory).source()

    def __len__(self) -> int:
        return len(self.verdicts)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the verdicts as a data frame, most suspicious first.

        Its index is the position in `verdicts`, which does not count rows that were left out. The
        column ``id`` identifies the row in the data. The column ``why`` explains why a sample is
        suspicious.
        """
        from discrimloss.auditing.outputs import as_texts

        why = as_texts(self.evidence.sentences(len(self)))
        frame = self.verdicts.to_pandas().assign(why=why)
        worst_first: pandas.DataFrame = frame.iloc[self.verdicts.order]
        return worst_first

    # -- report -----------------------------------------------------------------------------------

    def report(self, path: str | Path = "report.html") -> Path:
        """Write a report of the audit: a single HTML file that needs no network.

        Args:
            path: the file. An existing file is replaced.

        Returns:
            The path.
        """
        from discrimloss.auditing.report.page import write_report

        path = Path(path)
        write_report(self.report_contents(), path)
        return path

    def report_contents(self, gallery: bool = True) -> ReportContents:
        """Return the contents of the report.

        Args:
            gallery: whether to show samples. If the source cannot be opened, the report says so.
        """
        from discrimloss.auditing.directory import CACHE, AuditDirectory
        from discrimloss.auditing.report.read_audit import audit_contents
        from discrimloss.auditing.report.read_run import read_run
        from discrimloss.auditing.sources.base import SourceError

        source, note = None, ""
        if gallery:
            try:
                source = self.source
            except SourceError as error:
                note = f"Samples are not shown: {error}."
        runs = self._runs
        if self.directory is not None and not runs:
            runs = tuple(read_run(run) for run in AuditDirectory(self.directory).runs())
        path = str(self._record["source"]["path"])
        return audit_contents(
            self.verdicts,
            self.summary,
            runs,
            source,
            path=path,
            note=note,
            health=self.health if "health" in self.summary else None,
            evidence=self.evidence,
            directory=self.directory,
            cache=None if self.directory is None else self.directory / CACHE,
            review_address=self._review_address(),
        )

    def _review_address(self) -> str:
        """Return the address of the running review page without its token, or an empty string."""
        from discrimloss.auditing.review.usual_port import review_address

        can_be_opened = self.directory is not None and self._record["source"]["path"]
        return review_address(self.directory) if self.directory and can_be_opened else ""

    # -- review -----------------------------------------------------------------------------------

    def review(
        self, port: int | None = None, *, host: str = "127.0.0.1", open_browser: bool = True
    ) -> None:
        """Serve a page for reviewing the suspicious samples, until Ctrl-C.

        Each decision is saved at once, in the directory of the audit. An audit without a directory
        saves decisions in a temporary directory, which lasts as long as this object. `apply` uses
        the decisions.

        Args:
            port: port to listen on. By default, that of the last review, or any free port.
            host: address to listen on. By default, only this machine can open the page.
                ``"0.0.0.0"`` allows other machines; the address then contains a token.
            open_browser: whether to open the page in a browser.

        Raises:
            DiscrimLossError: the source has changed, or another process reviews this audit.
        """
        from discrimloss.auditing.review.serving import serve_review

        serve_review(self.review_session(), port, open_browser, host)

    def review_session(self) -> ReviewSession:
        """Open the review without serving its page. The caller closes it.

        Raises:
            DiscrimLossError: the source has changed, or another process reviews this audit.
        """
        from discrimloss.auditing.reviewing import review_session

        return review_session(self)

    @cached_property
    def review_place(self) -> Path:
        """Return the directory with the decisions."""
        if self.directory is not None:
            return self.directory
        place = tempfile.mkdtemp(prefix="discrimloss-review-")
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        return Path(place)

    # -- apply ------------------------------------------------------------------------------------

    def apply(
        self,
        path: str | Path | None = None,
        *,
        accept_suggestions: float | None = None,
        drop_incorrect: bool = False,
        overwrite: bool = False,
    ) -> Any:
        """Correct the data with the decisions of the review and, if requested, automatic changes.

        The audited data itself is never changed.

        Args:
            path: where to write. With the ending of the source's file, such as ``fixed.csv``, it is
                a file. Otherwise it is a new directory for the data and ``changes.csv``. By
                default, data in memory is returned, and other data is written to ``corrected`` in
                the directory of the audit.
            accept_suggestions: a probability. Samples that were not reviewed get their suggested
                label if their ``p_incorrect`` is at least this.
            drop_incorrect: whether to drop samples that are called incorrect and were not reviewed.
            overwrite: whether to replace an earlier result.

        Returns:
            If the data was in memory and `path` is None: the corrected data, of the audited type.
            Otherwise a description of the written data, `discrimloss.auditing.apply.Applied`.

        Raises:
            DiscrimLossError: there are no decisions, the source has changed, or the result cannot
                be written. In this case nothing is written.
        """
        from discrimloss.auditing.apply import Automatic
        from discrimloss.auditing.corrected import corrected_data

        automatic = Automatic(accept_suggestions, drop_incorrect)
        return corrected_data(self, None if path is None else Path(path), automatic, overwrite)

    @property
    def decision_log(self) -> Path | None:
        """Return the file with the decisions of the review, or None if there was no review."""
        from discrimloss.auditing.review.decision_log import DECISIONS

        if self.directory is None and "review_place" not in self.__dict__:
            return None
        return self.review_place / DECISIONS

    # -- save -------------------------------------------------------------------------------------

    def save(self, directory: str | Path) -> Path:
        """Write the files of this audit and its decisions to a new directory.

        `load`, ``discrimloss review`` and ``discrimloss apply`` can read it.

        Returns:
            The path of the directory.
        """
        from discrimloss.auditing.directory import REPORT, AuditDirectory
        from discrimloss.auditing.outputs import write_outputs
        from discrimloss.auditing.review.decisions import read_decisions

        audit = AuditDirectory(Path(directory))
        with audit.opened({"asked": self._record["source"]}):
            audit.write_settings(self._record)
            health = self.health if "health" in self.summary else None
            write_outputs(audit, self.source, self.verdicts, health, self.evidence)
            log = self.decision_log
            if log is not None and log.is_file():
                _, length = read_decisions(log)  # raises an error if damaged
                (audit / log.name).write_bytes(log.read_bytes()[:length])
            self.report(audit / REPORT)
            audit.finish(self.summary)  # last: it marks the audit as finished
        return audit.path

    # -- display ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        from discrimloss.auditing.shown import result_text

        return result_text(self)

    def _repr_html_(self) -> str:
        from discrimloss.auditing.shown import result_html

        return result_html(self)
