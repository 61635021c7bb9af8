"""The directory of an audit: reads and writes its files, and checks if an audit may start there."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from discrimloss.auditing.evidence.why import Evidence
from discrimloss.auditing.health.data_health import DataHealth
from discrimloss.auditing.review.decision_log import DECISIONS
from discrimloss.auditing.review.saved_record import SavedRecord
from discrimloss.auditing.sources.base import (
    FINGERPRINT_VERSION,
    AuditSource,
    SourceError,
    SourceOptions,
)
from discrimloss.auditing.sources.open_source import open_source
from discrimloss.errors import DiscrimLossError
from discrimloss.files.atomic_write import atomic_write
from discrimloss.files.checksums import CHECKSUMS, require_intact, write_checksums
from discrimloss.files.locks import exclusive_lock
from discrimloss.judging.verdicts import Verdicts
from discrimloss.training.run_directory import CONFIG, LOCK, why_unusable

AUDIT = "audit.json"
SUMMARY = "summary.json"
VERDICTS = "verdicts.parquet"
VERDICTS_CSV = "verdicts.csv"
CLEANED = "cleaned.csv"
LEFT_OUT = "left_out.csv"
HEALTH = "health.csv"
EVIDENCE = "evidence.parquet"
REPORT = "report.html"
RUNS = "runs"
CACHE = "cache"
CORRECTED = "corrected"
CHANGES = "changes.csv"
REQUIRED = {AUDIT: ("source", "fingerprint")}
"""Keys that a JSON file must have, by the name of the file."""


class AuditDirectory:
    """The directory with the files of an audit. Every file is complete or absent."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def holds_audit(self) -> bool:
        """Return whether an audit has begun in this directory."""
        return (self / AUDIT).is_file()

    @property
    def is_finished(self) -> bool:
        """Return whether the directory has a finished audit."""
        return self.holds_audit and (self / SUMMARY).is_file()

    def require_finished(self) -> None:
        """Raise a `DiscrimLossError` unless the directory has a finished audit."""
        if not self.path.is_dir():
            raise DiscrimLossError(
                f"there is no directory {self.path}: give the --out directory of an audit"
            )
        if not self.holds_audit:
            raise DiscrimLossError(
                f"{self.path} holds no audit: give the --out directory of `discrimloss audit`"
            )
        if not self.is_finished:
            raise DiscrimLossError(
                f"the audit in {self.path} is not finished: continue it, "
                "`discrimloss audit … --resume`"
            )
        require_intact(self.path, "restore the file, or audit again")

    # -- reading ----------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return what was audited and how: ``source`` (options), ``fingerprint`` and more."""
        return self._read_json(AUDIT)

    def summary(self) -> dict[str, Any]:
        """Return the summary of a finished audit."""
        return self._read_json(SUMMARY)

    def source(self) -> AuditSource:
        """Open the audited source.

        Raises:
            SourceError: the source was in memory, cannot be opened, or has changed.
        """
        options = SourceOptions.saved(self.settings()["source"])
        if not options.path:
            raise SourceError(
                f"the audit in {self.path} is of data in memory: pass the data, "
                "AuditResult.load(directory, data)"
            )
        return self.require_unchanged(open_source(options, self / CACHE))

    def require_unchanged(self, source: AuditSource) -> AuditSource:
        """Return the source, or raise a `SourceError` if it is not the audited one."""
        settings = self.settings()
        if settings.get("fingerprint_version") == FINGERPRINT_VERSION:
            is_unchanged = source.fingerprint() == settings["fingerprint"]
        else:
            is_unchanged = _is_about(self.verdicts(), source)
        if not is_unchanged:
            raise SourceError(
                f"{source.options.path or 'the data'} has changed since it was audited: audit it "
                "again, or restore the audited version"
            )
        return source

    def verdicts(self) -> Verdicts:
        """Return the verdicts on all samples, in the order of the source."""
        path = self / VERDICTS
        try:
            return Verdicts.from_parquet(path)
        except Exception as error:  # pyarrow and pandas raise many types for a damaged file
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise DiscrimLossError(f"cannot read {path} ({reason}): audit it again") from error

    def health(self) -> DataHealth | None:
        """Return problems of the data besides its labels; None for audits of earlier versions."""
        entries = self.summary().get("health")
        path = self / HEALTH
        if entries is None or not path.is_file():
            return None
        return DataHealth.read(entries, path.read_text(encoding="utf-8"))

    def evidence(self) -> Evidence:
        """Return why samples are suspicious. Empty for audits of earlier versions."""
        path = self / EVIDENCE
        return Evidence.from_parquet(path) if path.is_file() else Evidence()

    def runs(self) -> list[Path]:
        """Return the directories of the training runs, in order."""
        folder = self / RUNS
        found = [run.parent for run in folder.glob(f"*/{CONFIG}")] if folder.is_dir() else []
        return sorted(found, key=lambda run: [int(n) for n in re.findall(r"\d+", run.name)])

    def _read_json(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DiscrimLossError(
                f"cannot read {self / name} ({error}): restore the file, or audit again"
            ) from error
        if not isinstance(content, dict) or not set(REQUIRED.get(name, ())) <= set(content):
            raise DiscrimLossError(
                f"{self / name} is damaged or was not written by an audit: restore the file, or "
                "audit again"
            )
        return dict(content)

    # -- writing ----------------------------------------------------------------------------------

    def write(self, name: str, text: str) -> None:
        """Write a file atomically."""
        with atomic_write(self / name) as unfinished:
            unfinished.write_bytes(text.encode())

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file atomically."""
        self.write(name, _as_json(content))

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the checksums, and then the summary, which marks the audit as finished."""
        text = _as_json(summary)
        write_checksums(self.path, (AUDIT, VERDICTS, HEALTH, EVIDENCE), {SUMMARY: text})
        self.write(SUMMARY, text)

    def write_settings(self, settings: dict[str, Any]) -> None:
        """Write what is audited and how; raise an error if the source changed since the start."""
        saved = self.settings() if self.holds_audit else settings
        if saved.get("fingerprint_version") != settings.get("fingerprint_version"):
            raise DiscrimLossError(
                f"the audit in {self.path} began with another version of discrimloss, so it cannot "
                "be resumed: start over with --overwrite, or choose another directory"
            )
        if saved["fingerprint"] != settings["fingerprint"]:
            raise SourceError(
                f"{settings['source']['path'] or 'the data'} has changed since the audit began: "
                "start over with --overwrite, or restore the earlier version"
            )
        self.write_json(AUDIT, settings)

    @contextmanager
    def opened(
        self, settings: dict[str, Any], resume: bool = False, overwrite: bool = False
    ) -> Iterator[None]:
        """Lock the directory while the block writes an audit.

        Args:
            settings: the requested settings: ``asked`` (options of the source) and how to train.
            resume: whether to resume a stopped audit.
            overwrite: whether to replace an earlier audit.

        Raises:
            DiscrimLossError: an audit cannot start or resume in this directory.
        """
        self._check(settings, resume, overwrite)
        is_new, held_audit = not self.path.exists(), self.holds_audit
        refusal = f"another audit is using {self.path}: wait for it, or choose another directory"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(self / LOCK, refusal):
                self._check(settings, resume, overwrite)  # again: another audit may have finished
                yield
        except BaseException as error:
            # After a failure before the first run, remove files that would block the next audit.
            # After Ctrl-C or a full disk, keep them: --resume uses the features computed so far.
            may_resume = not isinstance(error, Exception) or isinstance(error, OSError)
            has_failed = not may_resume and not (self / RUNS).exists()
            if is_new and (has_failed or not self.holds_audit):
                shutil.rmtree(self.path, ignore_errors=True)
            elif has_failed and not held_audit:
                (self / AUDIT).unlink(missing_ok=True)
            raise

    def _check(self, settings: dict[str, Any], resume: bool, overwrite: bool) -> None:
        if objection := why_unusable(self.path):
            raise DiscrimLossError(objection)
        source = settings["asked"]["path"]
        if Path(source or "-").is_dir() and self.path.absolute().is_relative_to(source):
            raise DiscrimLossError(f"{self.path} is in the audited folder: choose another path")
        if not self.path.exists():
            return
        if not self.holds_audit:
            if any(entry.name not in (LOCK, CACHE, RUNS) for entry in self.path.iterdir()):
                raise DiscrimLossError(
                    f"{self.path} holds other files: choose a new or an empty directory"
                )
        elif resume:
            self._require_same(settings)
        elif overwrite:
            self._refuse_to_lose_decisions()
        elif self.is_finished:
            raise DiscrimLossError(
                f"{self.path} holds a finished audit: "
                "pass --overwrite to replace it, or choose another directory"
            )
        else:
            raise DiscrimLossError(
                f"{self.path} holds an unfinished audit: pass --resume to continue "
                "it, or --overwrite to start over"
            )

    def _require_same(self, wanted: dict[str, Any]) -> None:
        saved = self.settings()
        changed = [
            f"{name} was {saved.get(name)!r}, now {wanted[name]!r}"
            for name in wanted
            if saved.get(name) != wanted[name]
        ]
        if changed:
            raise DiscrimLossError(
                f"cannot resume with other settings ({', '.join(changed)}): "
                "pass the same ones, or choose another directory"
            )

    def _refuse_to_lose_decisions(self) -> None:
        decisions = self / DECISIONS
        if decisions.is_file() and decisions.stat().st_size:
            raise DiscrimLossError(
                f"{self.path} holds decisions of a review, which --overwrite would delete: "
                f"move {decisions} to another place first, or choose another directory"
            )

    def clear(self) -> None:
        """Remove the files of an earlier audit. Cached features and other files are kept."""
        # Remove the summary first and the settings last. If this is interrupted, the remaining
        # files look like an unfinished audit.
        outputs = (SUMMARY, VERDICTS, VERDICTS_CSV, CLEANED, LEFT_OUT, HEALTH, EVIDENCE, REPORT)
        for folder in (RUNS, CORRECTED):
            shutil.rmtree(self / folder, ignore_errors=True)
        saved = SavedRecord(self / DECISIONS).path.name
        for name in (*outputs, CHECKSUMS, CHANGES, DECISIONS, saved, AUDIT):
            (self / name).unlink(missing_ok=True)


def _as_json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _is_about(verdicts: Verdicts, source: AuditSource) -> bool:
    """Return whether verdicts have the ids and labels of a source, in the same order."""
    if verdicts.ids is None or list(map(str, verdicts.ids)) != list(source.ids):
        return False
    target = source.target.numpy()
    if source.is_regression:
        given = np.asarray(verdicts.given_label)
        is_number = given.dtype.kind in "iuf"
        return is_number and np.array_equal(given.astype(target.dtype), target)
    names = np.array(source.class_names, dtype=object)[target]
    return verdicts.given_label is not None and names.tolist() == verdicts.given_label.tolist()
