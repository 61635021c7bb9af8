"""The samples of an audit in the order in which a reviewer sees them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.review.decisions import DECIDED, SKIP, Event
from discrimloss.auditing.sources.base import AuditSource, Label
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import LABELS, Verdicts

OPEN, IS_DECIDED, IS_SKIPPED = range(3)
STATES = ("open", "decided", "skipped")
NUMBER_OF_CHOICES = 10  # as many as there are digit keys
NO_LABEL = -1


@dataclass(frozen=True)
class Filter:
    """Which samples to show; None matches all of them."""

    verdict: str | None = None
    given: Label | None = None
    state: str | None = None


class ReviewQueue:
    """Verdicts in the order of review, worst first, and the state of each sample.

    The position of a sample in this order is its rank; its index is its position in the source.

    Args:
        verdicts: of the audit.
        source: what was audited.

    Raises:
        DiscrimLossError: the verdicts do not belong to the source.
    """

    def __init__(self, verdicts: Verdicts, source: AuditSource) -> None:
        if len(verdicts) != len(source):
            raise DiscrimLossError(
                f"the verdicts of this audit are not those of the {len(source)} samples of its "
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
        self._choices: dict[int, list[int]] = {}

    def _label_column(self, labels: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """Labels by rank: positions in `class_names`, or regression targets."""
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
        """The ranks of the samples that pass a filter, in order."""
        passes = self._passes(wanted.verdict, wanted.given)
        if wanted.state is not None:
            passes &= self.state == STATES.index(wanted.state)
        return np.flatnonzero(passes)

    def _passes(self, verdict: str | None, given: Label | None = None) -> npt.NDArray[np.bool_]:
        passes = np.ones(len(self), bool)
        if verdict is not None:
            passes &= self._code == LABELS.index(verdict)
        if given is not None:
            passes &= self._given == self._coded(given)
        return passes

    def _coded(self, label: Label) -> int | float:
        """How the columns hold a label; an unknown class is in no row."""
        if self.is_regression:
            return float(label)
        return self.class_names.index(str(label)) if label in self.class_names else NO_LABEL - 1

    def state_counts(self, verdict: str | None, given: Label | None = None) -> dict[str, int]:
        """How many samples of a verdict and a class are open, decided and skipped."""
        counts = np.bincount(self.state[self._passes(verdict, given)], minlength=len(STATES))
        return {state: int(count) for state, count in zip(STATES, counts, strict=True)}

    def class_counts(self, verdict: str | None) -> list[int]:
        """How many samples of a verdict each given class has."""
        if self.is_regression:
            return []
        given = self._given[self._passes(verdict)]
        counts = np.bincount(given[given != NO_LABEL], minlength=len(self.class_names))
        return [int(count) for count in counts]

    def choices(self, rank: int) -> list[str]:
        """The classes that a sample most likely belongs to, without the given one.

        First the suggested class, then classes that are suggested for other samples of the given
        class, then classes that are suggested anywhere, then the rest in their order.
        """
        if self.is_regression:
            return []
        given, suggested = int(self._given[rank]), int(self._suggested[rank])
        if given not in self._choices:
            self._choices[given] = self._likely_instead_of(given)
        first = [] if suggested in (NO_LABEL, given) else [suggested]
        rest = [code for code in self._choices[given] if code != suggested]
        return [self.class_names[code] for code in (first + rest)[:NUMBER_OF_CHOICES]]

    def _likely_instead_of(self, given: int) -> list[int]:
        weight = np.nan_to_num(self.verdicts.p_incorrect[self.index])
        number = len(self.class_names)
        is_known = self._suggested != NO_LABEL
        here = is_known & (self._given == given)
        of_class = np.bincount(self._suggested[here], weight[here], minlength=number)
        of_all = np.bincount(self._suggested[is_known], weight[is_known], minlength=number)
        order = np.lexsort((np.arange(number), -of_all, -of_class))
        return [int(code) for code in order if code != given][: NUMBER_OF_CHOICES + 1]

    def row(self, rank: int, event: Event | None) -> dict[str, Any]:
        """A sample as JSON holds it.

        Args:
            rank: of the sample.
            event: the decision that counts for it.
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

    def _label(self, value: Any) -> Label | None:
        if self.is_regression:
            return float(value) if math.isfinite(value) else None
        return None if value == NO_LABEL else self.class_names[int(value)]


def decision_row(event: Event | None) -> dict[str, Any] | None:
    """A decision as the page gets it."""
    if event is None:
        return None
    return {
        "event": event.event,
        "tab": event.tab,
        "action": event.action,
        "label": event.label,
        "time": event.time,
    }


def _finite(column: npt.NDArray[np.float32] | None, index: int) -> float | None:
    if column is None or not math.isfinite(column[index]):
        return None
    return float(column[index])
