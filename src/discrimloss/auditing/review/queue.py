"""The samples of an audit in the order in which a reviewer sees them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.health.data_health import DataHealth
from discrimloss.auditing.review.decisions import DECIDED, SKIP, Event
from discrimloss.auditing.sources.base import AuditSource, Label
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import LABELS, Verdicts

OPEN, IS_DECIDED, IS_SKIPPED = range(3)
STATES = ("open", "decided", "skipped")
DIGIT_KEYS = "1234567890"
NUMBER_OF_CHOICES = len(DIGIT_KEYS)
NO_LABEL = -1


@dataclass(frozen=True)
class Filter:
    """A filter of samples. None matches all."""

    verdict: str | None = None
    given: Label | None = None
    state: str | None = None
    problem: str | None = None
    """A problem of the data besides its labels."""


class ReviewQueue:
    """Verdicts in the order of review, worst first, and the state of each sample.

    The rank of a sample is its position in this order. Its index is its position in the source.

    Args:
        verdicts: verdicts of the audit.
        source: the audited source.
        health: problems of the data besides its labels.

    Raises:
        DiscrimLossError: the verdicts do not belong to the source.
    """

    def __init__(
        self, verdicts: Verdicts, source: AuditSource, health: DataHealth | None = None
    ) -> None:
        if len(verdicts) != len(source):
            raise DiscrimLossError(
                f"the verdicts of this audit do not belong to the {len(source)} samples of its "
                "source: audit it again"
            )
        self.verdicts = verdicts
        self.ids = source.ids
        self.is_regression = source.is_regression
        self.class_names = source.class_names
        self.index = verdicts.order
        self.rank_of = np.empty_like(self.index)
        self.rank_of[self.index] = np.arange(len(self.index))
        self._code = verdicts.code[self.index]
        self._given = self._label_column(verdicts.given_label)
        self._suggested = self._label_column(verdicts.suggested_label)
        self.state = np.full(len(self.index), OPEN, np.int8)
        self.disagrees = np.zeros(len(self.index), bool)
        """Whether reviewers disagree, by rank."""
        self._choices: dict[int, list[int]] = {}
        self.health = health or DataHealth()
        self._of_problem: dict[str, npt.NDArray[np.bool_]] = {}
        """The affected ranks, by problem."""
        for entry in self.health:
            is_behind = np.zeros(len(self.index), bool)
            is_behind[self.rank_of[entry.row_index()]] = True
            self._of_problem[entry.problem] = is_behind

    def _label_column(self, labels: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """Return labels by rank: positions in `class_names`, or regression targets."""
        if labels is None:
            missing = math.nan if self.is_regression else NO_LABEL
            return np.full(len(self), missing)
        if self.is_regression:
            return np.asarray(labels, dtype=np.float64)[self.index]
        position: dict[Any, int] = {name: code for code, name in enumerate(self.class_names)}
        position[None] = NO_LABEL
        try:
            codes = [position[None if label != label else label] for label in labels.tolist()]
        except KeyError as error:
            raise DiscrimLossError(
                f"the verdicts of this audit hold {error}, which its source does not know: "
                "audit it again"
            ) from error
        return np.array(codes, dtype=np.int64)[self.index]

    def __len__(self) -> int:
        return len(self.index)

    def set_state(self, index: int, event: Event | None) -> None:
        """Record the decision on a sample."""
        action = None if event is None else event.action
        state = IS_DECIDED if action in DECIDED else IS_SKIPPED if action == SKIP else OPEN
        self.state[self.rank_of[index]] = state

    def ranks(self, wanted: Filter) -> npt.NDArray[np.intp]:
        """Return the ranks of the samples that pass a filter, in order."""
        passes = self._passes(wanted.verdict, wanted.given, wanted.problem)
        if wanted.state is not None:
            passes &= self.state == STATES.index(wanted.state)
        return np.flatnonzero(passes)

    def _passes(
        self, verdict: str | None, given: Label | None = None, problem: str | None = None
    ) -> npt.NDArray[np.bool_]:
        passes = np.ones(len(self), bool)
        if verdict is not None:
            passes &= self._code == LABELS.index(verdict)
        if given is not None:
            passes &= self._given == self._coded(given)
        if problem is not None:
            passes &= self._of_problem[problem]
        return passes

    def _coded(self, label: Label) -> int | float:
        """Return the value of a label in the columns. That of an unknown class is in no row."""
        if self.is_regression:
            return float(label)
        return self.class_names.index(str(label)) if label in self.class_names else NO_LABEL - 1

    def state_counts(
        self, verdict: str | None, given: Label | None = None, problem: str | None = None
    ) -> dict[str, int]:
        """Count the open, decided and skipped samples of a verdict, a class and a problem."""
        passes = self._passes(verdict, given, problem)
        counts = np.bincount(self.state[passes], minlength=len(STATES))
        return {state: int(count) for state, count in zip(STATES, counts, strict=True)}

    def problem_counts(self) -> list[dict[str, Any]]:
        """Return the problems of the data, each with its number of samples."""
        return [
            {"problem": entry.problem, "title": entry.title, "samples": int(count)}
            for entry in self.health
            if (count := self._of_problem[entry.problem].sum())
        ]

    def class_counts(self, verdict: str | None) -> list[int]:
        """Count the samples of a verdict in each given class."""
        if self.is_regression:
            return []
        given = self._given[self._passes(verdict)]
        counts = np.bincount(given[given != NO_LABEL], minlength=len(self.class_names))
        return [int(count) for count in counts]

    def label_codes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return given and suggested classes by rank: positions in `class_names`, -1 if unknown."""
        return self._given.astype(np.int64), self._suggested.astype(np.int64)

    def choices(self, rank: int) -> Sequence[str | None]:
        """Return the classes of the digit keys 1 to 9 and 0; None for a key without a class.

        Up to ten classes have a key each, which is the same for every sample. With more classes,
        the keys are for the classes that most often replace the given class. The keys are then the
        same for all samples of a given class. If all classes are digits, each has its own key.
        """
        if self.is_regression:
            return []
        if set(self.class_names) <= set(DIGIT_KEYS):
            return [key if key in self.class_names else None for key in DIGIT_KEYS]
        if len(self.class_names) <= NUMBER_OF_CHOICES:
            return list(self.class_names)
        given = int(self._given[rank])
        if given not in self._choices:
            self._choices[given] = self._likely_instead_of(given)
        return [self.class_names[code] for code in self._choices[given]]

    def _likely_instead_of(self, given: int) -> list[int]:
        """Return the classes most often suggested for the given class, then for any class.

        Each suggestion counts with its label-error probability.
        """
        weight = np.nan_to_num(self.verdicts.p_incorrect[self.index])
        number = len(self.class_names)
        is_known = self._suggested != NO_LABEL
        here = is_known & (self._given == given)
        of_class = np.bincount(self._suggested[here], weight[here], minlength=number)
        of_all = np.bincount(self._suggested[is_known], weight[is_known], minlength=number)
        order = np.lexsort((np.arange(number), -of_all, -of_class))
        return [int(code) for code in order if code != given][:NUMBER_OF_CHOICES]

    def row(self, rank: int, event: Event | None) -> dict[str, Any]:
        """Return a sample as values for JSON.

        Args:
            rank: rank of the sample.
            event: the decision that determines its state.
        """
        index = int(self.index[rank])
        verdicts = self.verdicts
        return {
            "index": index,
            "rank": rank,
            "id": self.ids[index],
            "given": self._label(self._given[rank]),
            "suggested": self._label(self._suggested[rank]),
            "verdict": LABELS[self._code[rank]],
            "p_incorrect": _finite(verdicts.p_incorrect, index),
            "average_loss": _finite(verdicts.average_loss, index),
            "weight": _finite(verdicts.weight, index),
            "state": STATES[self.state[rank]],
            "decision": decision_row(event),
        }

    def given_label(self, index: int) -> Label | None:
        """Return the label of a sample in the data."""
        return self._label(self._given[self.rank_of[index]])

    def _label(self, value: Any) -> Label | None:
        if self.is_regression:
            return float(value) if math.isfinite(value) else None
        return None if value == NO_LABEL else self.class_names[int(value)]


def decision_row(event: Event | None) -> dict[str, Any] | None:
    """Return a decision as values for the page."""
    if event is None:
        return None
    return {
        "event": event.event,
        "tab": event.tab,
        "action": event.action,
        "label": event.label,
        "time": event.time,
        "reviewer": event.reviewer,
    }


def _finite(column: npt.NDArray[np.float32] | None, index: int) -> float | None:
    if column is None or not math.isfinite(column[index]):
        return None
    return float(column[index])
