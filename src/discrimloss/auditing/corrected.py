"""Returns the corrected data of an audit, or writes it to a file or a directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.apply import (
    Automatic,
    corrections_of,
    find_changes,
    write_directory,
    write_file,
)
from discrimloss.auditing.directory import CORRECTED
from discrimloss.auditing.review.decisions import Decisions, read_decisions, require_same_samples
from discrimloss.errors import DiscrimLossError

if TYPE_CHECKING:
    from discrimloss.auditing.result import AuditResult
    from discrimloss.auditing.sources.base import AuditSource


def corrected_data(
    result: AuditResult, path: Path | None, automatic: Automatic, overwrite: bool
) -> Any:
    """Correct the data of an audit. See `AuditResult.apply`.

    Args:
        result: the audit.
        path: where to write. By default, data in memory is returned, and other data is written to
            the directory of the audit.
        automatic: changes to samples without a decision.
        overwrite: whether to replace an earlier result.
    """
    source, decisions = result.source, Decisions()
    if (log := result.decision_log) is not None:
        decisions, _ = read_decisions(log)
        require_same_samples(decisions, source.ids, log)
    changes = find_changes(result.verdicts, decisions, automatic, source.is_regression)
    if not changes and not automatic.does_something:
        raise DiscrimLossError(_nothing_decided(result.directory))
    if path is None and not source.options.path:
        return source.corrected(corrections_of(changes))
    if path is None:
        if result.directory is None:
            raise DiscrimLossError(
                f"name a place for the corrected data of {source.options.path}: "
                "result.apply('PATH')"
            )
        path = result.directory / CORRECTED
    if _is_file_name(path, source):
        return write_file(source, result.verdicts, changes, path, overwrite=overwrite)
    return write_directory(
        source, result.verdicts, changes, path, result.directory, overwrite=overwrite
    )


def _is_file_name(path: Path, source: AuditSource) -> bool:
    """Return whether a path has the suffix of the source's file.

    For data in memory, any suffix counts.
    """
    audited = source.options.path
    if not path.suffix or not audited:
        return bool(path.suffix)
    return path.suffix.lower() == Path(source.store.file_name or audited).suffix.lower()


def _nothing_decided(directory: Path | None) -> str:
    if directory is None:
        return (
            "there are no decisions to apply: review the samples with result.review(), or accept "
            "suggestions with result.apply(accept_suggestions=0.9)"
        )
    return (
        f"there are no decisions in {directory}: review it with `discrimloss review "
        f"{directory}`, or accept suggestions with --accept-suggestions 0.9"
    )
