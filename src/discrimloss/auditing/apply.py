"""From what was decided to corrected data, with a log of every change."""

from __future__ import annotations

import csv
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from discrimloss.auditing.directory import CHANGES, CORRECTED, DECISIONS, AuditDirectory
from discrimloss.auditing.review.decisions import (
    DROP,
    KEEP,
    RELABEL,
    SKIP,
    Decisions,
    number_label,
    read_decisions,
    require_same_samples,
)
from discrimloss.auditing.review.sample_table import OPEN, Filter, SampleTable, read_samples
from discrimloss.auditing.sources.base import AuditSource, Corrections, Label, SourceError

RELABELLED, DROPPED, KEPT = "relabelled", "dropped", "kept"
BY_REVIEW, BY_SUGGESTION, BY_VERDICT = "review", "accepted suggestion", "dropped as incorrect"
CHANGE_COLUMNS = (
    "id",
    "index",
    "change",
    "label_before",
    "label_after",
    "decided_by",
    "decided_at",
    "verdict",
    "p_incorrect",
    "id_after",
)


@dataclass(frozen=True)
class Change:
    """What becomes of one sample, and why."""

    index: int
    change: str
    """`RELABELLED`, `DROPPED`, or `KEPT`: looked at and found right."""
    after: Label | None
    decided_by: str
    decided_at: str


@dataclass(frozen=True)
class Applied:
    """What was written."""

    directory: Path
    written: tuple[Path, ...]
    """Files or folders below `directory`."""
    relabelled: int
    dropped: int
    kept: int
    undecided: int
    """Labels that are called incorrect and stay as they are, for nobody decided."""
    note: str | None
    """What a person should know of the result."""

    @property
    def log(self) -> Path:
        """The list of all changes."""
        return self.directory / CHANGES


@dataclass(frozen=True)
class Automatic:
    """What is done to samples that no person looked at.

    A sample that was skipped was looked at: it stays as it is.
    """

    accept_from: float | None = None
    """Take the suggested label where ``p_incorrect`` is at least this."""
    drop_incorrect: bool = False
    """Drop what is still called incorrect."""

    @property
    def does_something(self) -> bool:
        """Whether anything is done without a person."""
        return self.accept_from is not None or self.drop_incorrect


def apply_decisions(
    audit: AuditDirectory,
    out: Path | None = None,
    automatic: Automatic | None = None,
    *,
    overwrite: bool = False,
) -> Applied:
    """Write the source of an audit once more, with all that was decided.

    Args:
        audit: a finished one.
        out: a new directory; by default ``corrected`` in that of the audit.
        automatic: what is done without a person; by default nothing.
        overwrite: whether an earlier result may be replaced.

    Raises:
        SourceError: nothing was decided, or the result cannot be written. Then nothing is.
    """
    automatic = automatic or Automatic()
    audit.require_finished()
    source = audit.source()
    table = read_samples(audit, source)
    decisions, _ = read_decisions(audit / DECISIONS)
    require_same_samples(decisions, source.ids, audit / DECISIONS)
    changes = _reviewed(decisions, table, audit / DECISIONS)
    if not changes and not automatic.does_something:
        raise SourceError(
            f"nothing is decided in {audit.path}: review it first, `discrimloss review "
            f"{audit.path}`, or take suggestions with --accept-suggestions 0.9"
        )
    changes += _automatic(automatic, table)
    if sum(change.change == DROPPED for change in changes) == len(table):
        raise SourceError("these decisions drop every sample: keep at least one")
    place = audit / CORRECTED if out is None else out
    with _staged(place, source, audit, overwrite) as staging:
        corrections = _corrections(changes)
        written = source.write_corrected(corrections, staging)
        if (staging / CHANGES).exists():
            raise SourceError(f"the source itself holds a {CHANGES}: give it another name")
        _write_log(staging / CHANGES, changes, table, source.corrected_ids(corrections))
        relative = [path.relative_to(staging) for path in written]
    counts = Counter(change.change for change in changes)
    settled = {change.index for change in changes}
    incorrect = table.index[table.ranks(Filter("incorrect"))]
    return Applied(
        place,
        tuple(place / path for path in relative),
        counts[RELABELLED],
        counts[DROPPED],
        counts[KEPT],
        sum(int(index) not in settled for index in incorrect),
        source.note_on_corrected(),
    )


def _reviewed(decisions: Decisions, table: SampleTable, path: Path) -> list[Change]:
    """What people decided; marks in `table` what they looked at."""
    changes = []
    for index, event in decisions.all_current().items():
        table.set_state(index, event)
        given = table.label(table.given, int(table.rank_of[index]))
        label = given
        if event.action == RELABEL:
            label = _label(event.label, table, path)
        if event.action == DROP:
            changes.append(Change(index, DROPPED, None, BY_REVIEW, event.time))
        elif event.action == KEEP or (event.action == RELABEL and label == given):
            changes.append(Change(index, KEPT, given, BY_REVIEW, event.time))
        elif event.action != SKIP:
            changes.append(Change(index, RELABELLED, label, BY_REVIEW, event.time))
    return changes


def _label(label: Label | None, table: SampleTable, path: Path) -> Label:
    if not table.is_regression:
        return str(label)
    try:
        return number_label(label)
    except ValueError as error:
        raise SourceError(f"{path} has the label {label!r}: it must be a number") from error


def _automatic(automatic: Automatic, table: SampleTable) -> list[Change]:
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    changes = []
    if automatic.accept_from is not None:
        is_sure = np.nan_to_num(table.p_incorrect, nan=-1.0) >= automatic.accept_from
        for rank in np.flatnonzero(is_sure & (table.state == OPEN)):
            label = table.label(table.suggested, int(rank))
            if label is not None and label != table.label(table.given, int(rank)):
                changes.append(
                    Change(int(table.index[rank]), RELABELLED, label, BY_SUGGESTION, now)
                )
    if automatic.drop_incorrect:
        taken = {change.index for change in changes}
        ranks = table.ranks(Filter("incorrect", state="open"))
        left = [int(index) for index in table.index[ranks] if int(index) not in taken]
        changes += [Change(index, DROPPED, None, BY_VERDICT, now) for index in left]
    return changes


def _corrections(changes: list[Change]) -> Corrections:
    return Corrections(
        {
            change.index: change.after
            for change in changes
            if change.change == RELABELLED and change.after is not None
        },
        frozenset(change.index for change in changes if change.change == DROPPED),
    )


def _write_log(
    path: Path, changes: list[Change], table: SampleTable, new_ids: Mapping[int, str]
) -> None:
    """Every change, in the order of the source."""
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(CHANGE_COLUMNS)
        for change in sorted(changes, key=lambda change: change.index):
            row = table.row(int(table.rank_of[change.index]), None)
            writer.writerow(
                [
                    row["id"],
                    change.index,
                    change.change,
                    row["given"],
                    change.after,
                    change.decided_by,
                    change.decided_at,
                    row["verdict"],
                    row["p_incorrect"],
                    "" if change.change == DROPPED else new_ids.get(change.index, row["id"]),
                ]
            )


@contextmanager
def _staged(
    place: Path, source: AuditSource, audit: AuditDirectory, overwrite: bool
) -> Iterator[Path]:
    """A directory to write into, which becomes `place` if the block ends well."""
    _check_place(place, source, audit, overwrite)
    staging = place.with_name(f".{place.name}.unfinished-{uuid.uuid4().hex}")
    try:
        staging.mkdir()
        yield staging
        _move(staging, place)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        about = f" of {error.filename}" if error.filename else ""
        raise SourceError(
            f"cannot write {place} ({reason}{about}): nothing was written; make room, or name "
            "another place with --out"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _move(staging: Path, place: Path) -> None:
    """Put a directory in its place. What was there stays until this has worked."""
    if not place.exists():
        staging.rename(place)
        return
    earlier = staging.with_name(staging.name + "-earlier")
    place.rename(earlier)
    try:
        staging.rename(place)
    except BaseException:
        earlier.rename(place)
        raise
    shutil.rmtree(earlier, ignore_errors=True)


def _check_place(place: Path, source: AuditSource, audit: AuditDirectory, overwrite: bool) -> None:
    target = place.resolve()
    origin = Path(source.options.path).resolve()
    if target == audit.path.resolve():
        raise SourceError(f"{place} is the audit itself: name another place with --out")
    if target.is_relative_to(origin) or origin.is_relative_to(target):
        raise SourceError(f"{place} is where the source is: name another place with --out")
    if not place.parent.is_dir():
        raise SourceError(f"there is no directory {place.parent}: make it first")
    if not place.exists():
        return
    if not place.is_dir():
        raise SourceError(f"{place} is not a directory: name another place with --out")
    if not any(place.iterdir()):
        return
    if not (place / CHANGES).is_file():
        raise SourceError(
            f"{place} holds other things than an earlier result: name another place with --out"
        )
    if not overwrite:
        raise SourceError(f"{place} holds an earlier result: --overwrite replaces it")
