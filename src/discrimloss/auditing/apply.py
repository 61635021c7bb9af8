"""Applies decisions to the data, and logs every change."""

from __future__ import annotations

import csv
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from discrimloss.auditing.directory import CHANGES
from discrimloss.auditing.outputs import of_emptied_classes, plain_label
from discrimloss.auditing.review.decisions import (
    DROP,
    KEEP,
    RELABEL,
    SKIP,
    Decisions,
    regression_label,
)
from discrimloss.auditing.sources.base import AuditSource, Corrections, Label
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import INCORRECT, LABELS, Verdicts

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
    "reviewer",
    "disagreement",
)


@dataclass(frozen=True)
class Change:
    """A change of one sample, and the reason for it."""

    index: int
    change: str
    """`RELABELLED`, `DROPPED`, or `KEPT` if the reviewer confirmed the label."""
    after: Label | None
    decided_by: str
    decided_at: str
    reviewer: str = ""
    """Name of the reviewer, if there are several."""
    disagreement: str = ""
    """The decision of each reviewer, if they disagree. The last decision is applied."""


@dataclass(frozen=True)
class Applied:
    """A description of the corrected data that was written."""

    written: tuple[Path, ...]
    """Files or folders."""
    relabelled: int
    dropped: int
    kept: int
    undecided: int
    """Number of labels that are called incorrect but unchanged, because nobody decided on them."""
    note: str | None
    """Notes on the corrected data."""
    disagreements: int = 0
    """Number of samples on which reviewers disagree."""
    log: Path | None = None
    """The file with all changes, or None if the data was written to a single file."""


@dataclass(frozen=True)
class Automatic:
    """Automatic changes to samples that were not reviewed.

    A skipped sample counts as reviewed and does not change.
    """

    accept_from: float | None = None
    """Accept the suggested label if ``p_incorrect`` is at least this."""
    drop_incorrect: bool = False
    """Whether to drop samples that are called incorrect."""

    def __post_init__(self) -> None:
        if self.accept_from is not None and not 0 <= self.accept_from <= 1:
            raise ValueError(
                f"accept_suggestions must be a probability from 0 to 1, not {self.accept_from}"
            )

    @property
    def does_something(self) -> bool:
        """Return whether any automatic changes are requested."""
        return self.accept_from is not None or self.drop_incorrect


def find_changes(
    verdicts: Verdicts, decisions: Decisions, automatic: Automatic, is_regression: bool
) -> list[Change]:
    """Return all changes: those of reviewers, then the automatic ones.

    Raises:
        DiscrimLossError: every sample would be dropped, or a decision has no valid label.
    """
    changes = _reviewed(decisions, verdicts, is_regression)
    unreviewed = _automatic(automatic, verdicts, set(decisions.all_current()))
    changes += unreviewed if is_regression else _without_emptying(unreviewed, changes, verdicts)
    if sum(change.change == DROPPED for change in changes) == len(verdicts):
        raise DiscrimLossError("these decisions drop every sample: keep at least one")
    return changes


def corrections_of(changes: list[Change]) -> Corrections:
    """Return the changes in the form that a source applies."""
    labels = {
        change.index: change.after
        for change in changes
        if change.change == RELABELLED and change.after is not None
    }
    return Corrections(labels, frozenset(c.index for c in changes if c.change == DROPPED))


def write_directory(
    source: AuditSource,
    verdicts: Verdicts,
    changes: list[Change],
    place: Path,
    audit: Path | None = None,
    *,
    overwrite: bool = False,
) -> Applied:
    """Write the corrected source and a log of the changes to a directory.

    Args:
        source: the audited source.
        verdicts: the verdicts of the audit.
        changes: the changes, from `find_changes`.
        place: a new directory.
        audit: the directory of the audit, which must not be replaced.
        overwrite: whether to replace an earlier result.

    Raises:
        DiscrimLossError: the result cannot be written. In this case nothing is written.
    """
    _check_place(place, source, audit, overwrite)
    with _staged(place) as staging:
        corrections = corrections_of(changes)
        written = source.write_corrected(corrections, staging)
        if (staging / CHANGES).exists():
            raise DiscrimLossError(f"the source contains a file {CHANGES}: rename it")
        _write_log(staging / CHANGES, changes, verdicts, source, corrections)
        relative = [path.relative_to(staging) for path in written]
    paths = tuple(place / path for path in relative)
    return _applied(source, verdicts, changes, paths, place / CHANGES)


def write_file(
    source: AuditSource,
    verdicts: Verdicts,
    changes: list[Change],
    path: Path,
    *,
    overwrite: bool = False,
) -> Applied:
    """Write the corrected source to a single file or folder.

    Raises:
        DiscrimLossError: the result cannot be written. In this case nothing is written.
    """
    if source.options.path and path.resolve() == Path(source.options.path).resolve():
        raise DiscrimLossError(f"{path} is the source itself: choose another file")
    if path.exists() and not overwrite:
        raise DiscrimLossError(f"{path} exists: pass overwrite=True to replace it")
    with _writing(path):
        written = source.save_corrected(corrections_of(changes), path)
    return _applied(source, verdicts, changes, (written,), None)


def _applied(
    source: AuditSource,
    verdicts: Verdicts,
    changes: list[Change],
    written: tuple[Path, ...],
    log: Path | None,
) -> Applied:
    counts = Counter(change.change for change in changes)
    settled = {change.index for change in changes}
    incorrect = np.flatnonzero(verdicts.code == INCORRECT).tolist()
    return Applied(
        written,
        counts[RELABELLED],
        counts[DROPPED],
        counts[KEPT],
        sum(index not in settled for index in incorrect),
        source.note_on_corrected(),
        sum(bool(change.disagreement) for change in changes),
        log,
    )


def _reviewed(decisions: Decisions, verdicts: Verdicts, is_regression: bool) -> list[Change]:
    changes = []
    for index, event in decisions.all_current().items():
        given = label = plain_label(verdicts.given_label, index)
        if event.action == RELABEL:
            label = _label(event.label, is_regression)
        who = (event.time, event.reviewer or "", _disagreement(decisions, index))
        if event.action == DROP:
            changes.append(Change(index, DROPPED, None, BY_REVIEW, *who))
        elif event.action == KEEP or (event.action == RELABEL and label == given):
            changes.append(Change(index, KEPT, given, BY_REVIEW, *who))
        elif event.action != SKIP:
            changes.append(Change(index, RELABELLED, label, BY_REVIEW, *who))
    return changes


def _disagreement(decisions: Decisions, index: int) -> str:
    if not decisions.disagrees(index):
        return ""
    return "; ".join(
        f"{name or 'no name'}: {event.action}" + ("" if event.label is None else f" {event.label}")
        for name, event in decisions.opinions(index).items()
    )


def _label(label: Label | None, is_regression: bool) -> Label:
    if not is_regression:
        return str(label)
    try:
        return regression_label(label)
    except ValueError as error:
        raise DiscrimLossError(
            f"the decisions contain the label {label!r}, but labels must be numbers"
        ) from error


def _automatic(automatic: Automatic, verdicts: Verdicts, reviewed: set[int]) -> list[Change]:
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    changes: list[Change] = []
    if automatic.accept_from is not None:
        is_sure = np.nan_to_num(verdicts.p_incorrect, nan=-1.0) >= automatic.accept_from
        for index in np.flatnonzero(is_sure).tolist():
            label = plain_label(verdicts.suggested_label, index)
            is_other = label is not None and label != plain_label(verdicts.given_label, index)
            if is_other and index not in reviewed:
                changes.append(Change(index, RELABELLED, label, BY_SUGGESTION, now))
    if automatic.drop_incorrect:
        taken = reviewed | {change.index for change in changes}
        incorrect = np.flatnonzero(verdicts.code == INCORRECT).tolist()
        changes += [
            Change(index, DROPPED, None, BY_VERDICT, now)
            for index in incorrect
            if index not in taken
        ]
    return changes


def _without_emptying(
    automatic: list[Change], reviewed: list[Change], verdicts: Verdicts
) -> list[Change]:
    """Return the automatic changes, except those that would leave a class without samples."""
    is_lost = np.zeros(len(verdicts), dtype=np.bool_)
    is_lost[[change.index for change in automatic]] = True
    is_lost[[change.index for change in reviewed if change.change != KEPT]] = True
    if verdicts.given_label is None:
        return automatic
    arriving = [str(change.after) for change in (*automatic, *reviewed) if change.after is not None]
    is_emptied = of_emptied_classes(verdicts.given_label, is_lost, arriving)
    return [change for change in automatic if not is_emptied[change.index]]


def _write_log(
    path: Path,
    changes: list[Change],
    verdicts: Verdicts,
    source: AuditSource,
    corrections: Corrections,
) -> None:
    """Write all changes, in the order of the source."""
    new_ids = source.corrected_ids(corrections)
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(CHANGE_COLUMNS)
        for change in sorted(changes, key=lambda change: change.index):
            index, name = change.index, source.ids[change.index]
            p = float(verdicts.p_incorrect[index])
            writer.writerow(
                [
                    name,
                    index,
                    change.change,
                    plain_label(verdicts.given_label, index),
                    change.after,
                    change.decided_by,
                    change.decided_at,
                    LABELS[verdicts.code[index]],
                    None if p != p else p,
                    "" if change.change == DROPPED else new_ids.get(index, name),
                    change.reviewer,
                    change.disagreement,
                ]
            )


@contextmanager
def _staged(place: Path) -> Iterator[Path]:
    """Yield a temporary directory, which becomes `place` if the block succeeds."""
    staging = place.with_name(f".{place.name}.unfinished-{uuid.uuid4().hex}")
    try:
        with _writing(place):
            staging.mkdir()
            yield staging
            _move(staging, place)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        about = f" of {error.filename}" if error.filename else ""
        raise DiscrimLossError(
            f"cannot write {place} ({reason}{about}): nothing was written; make room, or "
            "choose another path"
        ) from error


def _move(staging: Path, place: Path) -> None:
    """Move `staging` to `place`. Remove an earlier result only after the move succeeds."""
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


def _check_place(place: Path, source: AuditSource, audit: Path | None, overwrite: bool) -> None:
    target = place.resolve()
    if audit is not None and target == audit.resolve():
        raise DiscrimLossError(f"{place} is the audit itself: choose another path")
    if source.options.path:
        origin = Path(source.options.path).resolve()
        if target.is_relative_to(origin) or origin.is_relative_to(target):
            raise DiscrimLossError(f"{place} contains the source: choose another path")
    if not place.parent.is_dir():
        raise DiscrimLossError(f"there is no directory {place.parent}: create it first")
    if not place.exists():
        return
    if not place.is_dir():
        raise DiscrimLossError(f"{place} is not a directory: choose another path")
    if not any(place.iterdir()):
        return
    if not (place / CHANGES).is_file():
        raise DiscrimLossError(
            f"{place} holds files other than an earlier result: choose another path"
        )
    if not overwrite:
        raise DiscrimLossError(
            f"{place} holds an earlier result: pass --overwrite (overwrite=True) to replace it"
        )
