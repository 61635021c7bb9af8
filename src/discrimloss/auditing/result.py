"""What an audit found, as an object: verdicts, a report, a review, corrected data."""

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
    """What an audit found. `discrimloss.audit` returns it, `load` opens a finished audit again.

    Args:
        verdicts: in the order of the samples, with ids, given and suggested labels.
        summary: as ``summary.json`` has it.
        record: what was audited and how, as ``audit.json`` has it.
        source: what was audited; None opens it from `directory` when it is needed.
        directory: of the audit; None if it is kept in memory.
        runs: training runs that are kept in memory.
        health: what is wrong with the data besides its labels; None reads it from `directory`.
        evidence: why samples are suspicious; None reads it from `directory`.
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
        """Open the directory of a finished audit again.

        Args:
            directory: the ``out`` of the audit.
            data: what was audited, if it was data in memory. Without it the verdicts can be read,
                but not reviewed or applied.

        Raises:
            DiscrimLossError: there is no finished audit, or the data is not what was audited.
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
        """Read a finished audit, of this source if it is given."""
        if source is not None:
            audit.require_unchanged(source)
        record, summary, verdicts = audit.settings(), audit.summary(), audit.verdicts()
        if "fingerprint_version" not in record:  # of 0.1: verdicts have no notes of their own
            from discrimloss.auditing.outputs import left_out_notes

            left_out = left_out_notes(summary.get("left_out_why", {}), "sample")
            verdicts = replace(verdicts, notes=(*left_out, *summary.get("notes", ())))
            summary["notes"] = list(verdicts.notes)
        return cls(verdicts, summary, record, source=source, directory=audit.path)

    # -- what was found ---------------------------------------------------------------------------

    @property
    def noise_rate(self) -> float | None:
        """Estimated fraction of wrong labels; None where it cannot be estimated."""
        return self.verdicts.noise_rate

    @property
    def noise_interval(self) -> tuple[float, float] | None:
        """Where the fraction of wrong labels probably lies."""
        return self.verdicts.noise_interval

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about how the data was read and what limits the verdicts."""
        return self.verdicts.notes

    @property
    def class_names(self) -> tuple[str, ...]:
        """All classes; empty for a regression."""
        return tuple(self._record.get("class_names", ()))

    @cached_property
    def health(self) -> DataHealth:
        """What is wrong with the data besides its labels, with the samples behind each problem.

        Raises:
            DiscrimLossError: the audit is of a version that did not look for it.
        """
        from discrimloss.auditing.directory import AuditDirectory

        found = self._given_health
        if found is None and self.directory is not None:
            found = AuditDirectory(self.directory).health()
        if found is None:
            raise DiscrimLossError(
                "this audit did not look at the health of the data: audit it again"
            )
        return found

    @cached_property
    def evidence(self) -> Evidence:
        """Why samples are suspicious, by their position in `verdicts`; see `why`."""
        from discrimloss.auditing.directory import AuditDirectory
        from discrimloss.auditing.evidence.why import Evidence

        if self._given_evidence is not None:
            return self._given_evidence
        return Evidence() if self.directory is None else AuditDirectory(self.directory).evidence()

    def why(self, id: Any) -> Why:
        """Why a sample was flagged: similar samples, words or columns, and how sure that is.

        Args:
            id: of the sample, as in the column ``id``; a number stands for its text.

        Raises:
            KeyError: there is no such sample.
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
        """What was audited.

        Raises:
            SourceError: it cannot be opened, or has changed since the audit.
        """
        from discrimloss.auditing.directory import AuditDirectory

        if self._given_source is not None:
            return self._given_source
        assert self.directory is not None
        return AuditDirectory(self.directory).source()

    def __len__(self) -> int:
        return len(self.verdicts)

    def to_pandas(self) -> pandas.DataFrame:
        """The verdicts as a data frame, worst first.

        Its index is the position in `verdicts`, where rows that were left out do not count. The
        column ``id`` names the row of the data. The column ``why`` says why a sample is suspicious.
        """
        from discrimloss.auditing.outputs import as_texts

        why = as_texts(self.evidence.sentences(len(self)))
        frame = self.verdicts.to_pandas().assign(why=why)
        worst_first: pandas.DataFrame = frame.iloc[self.verdicts.order]
        return worst_first

    # -- report -----------------------------------------------------------------------------------

    def report(self, path: str | Path = "report.html") -> Path:
        """Write a page about the audit: one file that opens without a network.

        Args:
            path: the file; an existing one is replaced.

        Returns:
            The path.
        """
        from discrimloss.auditing.report.page import write_report

        path = Path(path)
        write_report(self.report_contents(), path)
        return path

    def report_contents(self, gallery: bool = True) -> ReportContents:
        """What the report shows.

        Args:
            gallery: whether to show samples; if the source cannot be opened, the report says so.
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
        """Where the review page is while it is served, without its token; empty if nowhere."""
        from discrimloss.auditing.review.usual_port import review_address

        can_be_opened = self.directory is not None and self._record["source"]["path"]
        return review_address(self.directory) if self.directory and can_be_opened else ""

    # -- review -----------------------------------------------------------------------------------

    def review(
        self, port: int | None = None, *, host: str = "127.0.0.1", open_browser: bool = True
    ) -> None:
        """Serve a page to go through the suspicious samples, until Ctrl-C.

        Decisions are saved at once: in the directory of the audit or, without one, in a temporary
        directory that lasts as long as this object. `apply` uses them.

        Args:
            port: where to listen on this machine; None takes that of the last time, or any.
            host: the address to listen at. By default only this machine reaches the page;
                ``"0.0.0.0"`` lets other machines in, with the token that is in the address.
            open_browser: whether to open the page in a browser.

        Raises:
            DiscrimLossError: the source has changed, or another process reviews this audit.
        """
        from discrimloss.auditing.review.serving import serve_review

        serve_review(self.review_session(), port, open_browser, host)

    def review_session(self) -> ReviewSession:
        """The review without its page; close it at the end.

        Raises:
            DiscrimLossError: the source has changed, or another process reviews this audit.
        """
        from discrimloss.auditing.reviewing import review_session

        return review_session(self)

    @cached_property
    def review_place(self) -> Path:
        """The directory that decisions are kept in."""
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
        """Correct the data: all decisions of the review and, if requested, automatic changes.

        The audited data itself is never changed.

        Args:
            path: where to write. A name that ends like the source's file, such as ``fixed.csv``, is
                a file; any other name is a new directory that gets the data and ``changes.csv``.
                By default data in memory is returned, and other data goes to ``corrected`` in the
                directory of the audit.
            accept_suggestions: a probability: also accept the suggested label of samples that were
                not reviewed where ``p_incorrect`` is at least this.
            drop_incorrect: whether to drop samples that are called incorrect and not reviewed.
            overwrite: whether an earlier result may be replaced.

        Returns:
            Corrected data of the type that was audited if it was in memory and `path` is None;
            otherwise what was written, as `discrimloss.auditing.apply.Applied`.

        Raises:
            DiscrimLossError: nothing is decided, the source has changed, or the result cannot be
                written. Then nothing is.
        """
        from discrimloss.auditing.apply import Automatic
        from discrimloss.auditing.corrected import corrected_data

        automatic = Automatic(accept_suggestions, drop_incorrect)
        return corrected_data(self, None if path is None else Path(path), automatic, overwrite)

    @property
    def decision_log(self) -> Path | None:
        """The file with the decisions of the review; None where there was no review."""
        from discrimloss.auditing.review.decision_log import DECISIONS

        if self.directory is None and "review_place" not in self.__dict__:
            return None
        return self.review_place / DECISIONS

    # -- save -------------------------------------------------------------------------------------

    def save(self, directory: str | Path) -> Path:
        """Write the files of this audit, with the decisions on it, to a new directory.

        `load` and the commands ``discrimloss review`` and ``discrimloss apply`` open it again.

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
                _, length = read_decisions(log)  # refuses a damaged one
                (audit / log.name).write_bytes(log.read_bytes()[:length])
            self.report(audit / REPORT)
            audit.finish(self.summary)  # last: it marks the audit as finished
        return audit.path

    # -- shown ------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        from discrimloss.auditing.shown import result_text

        return result_text(self)

    def _repr_html_(self) -> str:
        from discrimloss.auditing.shown import result_html

        return result_html(self)
