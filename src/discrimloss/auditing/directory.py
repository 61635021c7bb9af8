"""The directory of an audit: what is in it, and how it is opened again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.sources.base import AuditSource, SourceError, SourceOptions
from discrimloss.auditing.sources.open_source import open_source
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas

AUDIT = "audit.json"
SUMMARY = "summary.json"
VERDICTS = "verdicts.parquet"
VERDICTS_CSV = "verdicts.csv"
CLEANED = "cleaned.csv"
LEFT_OUT = "left_out.csv"
REPORT = "report.html"
RUNS = "runs"
CACHE = "cache"
DECISIONS = "decisions.jsonl"
CORRECTED = "corrected"
CHANGES = "changes.csv"

COLUMNS = (
    "id",
    "given_label",
    "suggested_label",
    "verdict",
    "p_incorrect",
    "label_score",
    "average_loss",
    "weight",
    "index",
)
"""Of the verdicts, which are sorted with the worst first. ``index`` is the position in the source's
`ids`. Labels are names of classes, or numbers in a regression."""


class AuditDirectory:
    """Where an audit keeps what it makes. Every file is complete or not there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def holds_audit(self) -> bool:
        """Whether an audit began here."""
        return (self / AUDIT).is_file()

    @property
    def is_finished(self) -> bool:
        """Whether an audit ended here."""
        return self.holds_audit and (self / SUMMARY).is_file()

    def require_finished(self) -> None:
        """Raise a `SourceError` unless an audit ended here."""
        if not self.path.is_dir():
            raise SourceError(f"there is no directory {self.path}: name one that an audit wrote")
        if not self.holds_audit:
            raise SourceError(
                f"{self.path} holds no audit: name the --out directory of `discrimloss audit`"
            )
        if not self.is_finished:
            raise SourceError(
                f"the audit in {self.path} is not finished: go on with it, "
                "`discrimloss audit … --resume`"
            )

    def settings(self) -> dict[str, Any]:
        """What was audited and how: ``source`` (options), ``fingerprint`` and more."""
        return self._read_json(AUDIT)

    def summary(self) -> dict[str, Any]:
        """The figures of a finished audit."""
        return self._read_json(SUMMARY)

    def source(self) -> AuditSource:
        """The audited source, opened again, or a `SourceError` if it is another one by now."""
        settings = self.settings()
        source = open_source(SourceOptions(**settings["source"]), self / CACHE)
        if source.fingerprint() != settings["fingerprint"]:
            raise SourceError(
                f"{source.options.path} has changed since it was audited: audit it again, "
                "or put it back as it was"
            )
        return source

    def verdicts(self) -> pandas.DataFrame:
        """One row per sample, worst first, with `COLUMNS`."""
        frame: pandas.DataFrame = import_pandas().read_parquet(self / VERDICTS)
        return frame

    def write(self, name: str, text: str) -> None:
        """Write a file, all of it or nothing."""
        with atomic_write(self / name) as unfinished:
            unfinished.write_text(text, encoding="utf-8")

    def _read_json(self, name: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot read {self / name}: {error}") from error
        return content
