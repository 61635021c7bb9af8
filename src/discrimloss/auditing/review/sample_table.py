"""The samples of an audit as columns, and which of them a person wants to see."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.directory import COLUMNS, VERDICTS, AuditDirectory
from discrimloss.auditing.review.decisions import DECIDED, SKIP, Event, summary_of
from discrimloss.auditing.sources.base import AuditSource, Label, SourceError
from discrimloss.judging.verdicts import LABELS

if TYPE_CHECKING:
    import pandas

OPEN, IS_DECIDED, IS_SKIPPED = range(3)
STATES = ("open", "decided", "skipped")
NUMBER_OF_CHOICES = 10  # as many as there are keys with digits
NO_LABEL = -1


@dataclass(frozen=True)
class Filter:
    """Which samples to see. None: all of them."""

    verdict: str | None = None
    given: Label | None = None
    state: str | None = None


class SampleTable:
    """Everything but the samples themselves, sorted with the worst first.

    A sample's place in this order is its rank; its ``index`` is its place in the source.

    Args:
        verdicts: the table of the audit.
        source: what was audited.
    """

    def __init__(self, verdicts: pandas.DataFrame, source: AuditSource) -> None:
        self.index = _indices(verdicts, len(source))
        self.rank_of = np.empty_like(self.index)
        self.rank_of[self.index] = np.arange(len(self.index))
        self.ids = source.ids
        self.is_regression = source.is_regression
        self.class_names = source.class_names
        self.verdict = _codes(verdicts["verdict"].tolist(), LABELS)
        self.p_incorrect = verdicts["p_incorrect"].to_numpy(np.float64, na_value=np.nan)
        self.average_loss = verdicts["average_loss"].to_numpy(np.float64, na_value=np.nan)
        self.weight = verdicts["weight"].to_numpy(np.float64, na_value=np.nan)
        self.given = self._label_column(verdicts["given_label"])
        self.suggested = self._label_column(verdicts["suggested_label"])
        self.state = np.full(len(self.index), OPEN, np.int8)
        self._choices: dict[int, list[int]] = {}

    def _label_column(self, labels: pandas.Series[Any]) -> npt.NDArray[Any]:
        if self.is_regression:
            numbers: npt.NDArray[np.float64] = labels.to_numpy(np.float64, na_value=np.nan)
            return numbers
        missing = labels.isna().to_numpy()
        names = [
            "" if is_missing else str(label)
            for label, is_missing in zip(labels, missing, strict=True)
        ]
        return _codes(names, self.class_names, missing)

    def __len__(self) -> int:
        return len(self.index)

    def label(self, column: npt.NDArray[Any], rank: int) -> Label | None:
        """The label at a rank as people say it; None: there is none."""
        if self.is_regression:
            return _number(column[rank])
        return None if column[rank] == NO_LABEL else self.class_names[column[rank]]

    def set_state(self, index: int, event: Event | None) -> None:
        """Note what was decided on a sample."""
        action = None if event is None else event.action
        state = IS_DECIDED if action in DECIDED else IS_SKIPPED if action == SKIP else OPEN
        self.state[self.rank_of[index]] = state

    def ranks(self, wanted: Filter) -> npt.NDArray[np.intp]:
        """The ranks of the samples that pass a filter, in order."""
        passes = self._passes(Filter(wanted.verdict, wanted.given))
        if wanted.state is not None:
            passes &= self.state == STATES.index(wanted.state)
        return np.flatnonzero(passes)

    def _passes(self, wanted: Filter) -> npt.NDArray[np.bool_]:
        passes = np.ones(len(self), bool)
        if wanted.verdict is not None:
            passes &= self.verdict == LABELS.index(wanted.verdict)
        if wanted.given is not None:
            passes &= self.given == self.code_of(wanted.given)
        return passes

    def code_of(self, label: Label) -> int | float:
        """How the columns hold a label; a class that is not there is in no row."""
        if self.is_regression:
            return float(label)
        return self.class_names.index(str(label)) if label in self.class_names else NO_LABEL - 1

    def state_counts(self, wanted: Filter) -> dict[str, int]:
        """How many samples of a verdict and a class are open, decided and skipped."""
        counts = np.bincount(self.state[self._passes(wanted)], minlength=len(STATES))
        return {state: int(count) for state, count in zip(STATES, counts, strict=True)}

    def class_counts(self, verdict: str | None) -> list[int]:
        """How many samples of a verdict each given class has."""
        if self.is_regression:
            return []
        given = self.given[self._passes(Filter(verdict))]
        counts = np.bincount(given[given != NO_LABEL], minlength=len(self.class_names))
        return [int(count) for count in counts]

    def choices(self, rank: int) -> list[str]:
        """The classes a sample most likely belongs to, without the given one.

        First what is suggested, then what is suggested for other samples of the given class, then
        what is suggested at all, then the rest in their order.
        """
        if self.is_regression:
            return []
        given, suggested = int(self.given[rank]), int(self.suggested[rank])
        if given not in self._choices:
            self._choices[given] = self._likely_instead_of(given)
        first = [] if suggested in (NO_LABEL, given) else [suggested]
        rest = [code for code in self._choices[given] if code != suggested]
        return [self.class_names[code] for code in (first + rest)[:NUMBER_OF_CHOICES]]

    def _likely_instead_of(self, given: int) -> list[int]:
        weight = np.nan_to_num(self.p_incorrect)
        number = len(self.class_names)
        is_known = self.suggested != NO_LABEL
        here = is_known & (self.given == given)
        of_class = np.bincount(self.suggested[here], weight[here], minlength=number)
        of_all = np.bincount(self.suggested[is_known], weight[is_known], minlength=number)
        order = np.lexsort((np.arange(number), -of_all, -of_class))
        return [int(code) for code in order if code != given][: NUMBER_OF_CHOICES + 1]

    def row(self, rank: int, event: Event | None) -> dict[str, Any]:
        """What is known of a sample, as JSON has it."""
        index = int(self.index[rank])
        return {
            "index": index,
            "rank": rank,
            "id": self.ids[index],
            "given": self.label(self.given, rank),
            "suggested": self.label(self.suggested, rank),
            "verdict": LABELS[self.verdict[rank]],
            "p_incorrect": _number(self.p_incorrect[rank]),
            "average_loss": _number(self.average_loss[rank]),
            "weight": _number(self.weight[rank]),
            "state": STATES[self.state[rank]],
            "decision": summary_of(event),
        }


def _indices(verdicts: pandas.DataFrame, number: int) -> npt.NDArray[np.int64]:
    index: npt.NDArray[np.int64] = verdicts["index"].to_numpy(np.int64)
    if not np.array_equal(np.sort(index), np.arange(number)):
        raise SourceError(
            f"the verdicts of this audit are not those of the {number} samples of its source: "
            "audit it again"
        )
    return index


def _codes(
    names: list[str], known: Iterable[str], missing: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.int64]:
    position = {name: code for code, name in enumerate(known)}
    if missing is not None and missing.any():
        position.setdefault("", NO_LABEL)
    try:
        codes = np.fromiter((position[name] for name in names), np.int64, len(names))
    except KeyError as error:
        raise SourceError(
            f"the verdicts of this audit hold {error}, which its source does not know: "
            "audit it again"
        ) from error
    if missing is not None:
        codes[missing] = NO_LABEL
    return codes


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def read_samples(directory: AuditDirectory, source: AuditSource) -> SampleTable:
    """The verdicts of an audit, checked against its source."""
    path = directory / VERDICTS
    try:
        verdicts = directory.verdicts()
    except (OSError, ValueError) as error:
        raise SourceError(f"cannot read {path} ({error}): audit it again") from error
    missing = [column for column in COLUMNS if column not in verdicts.columns]
    if missing:
        raise SourceError(f"{path} has no column {missing[0]}: audit it again")
    return SampleTable(verdicts, source)
