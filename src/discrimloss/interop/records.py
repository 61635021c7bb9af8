"""One sample as other tools see it: its verdict, its label, what a model would say, its name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.judging.per_sample import one_per_sample
from discrimloss.judging.verdicts import LABELS, UNSEEN, Verdicts

Label = str | float
"""The name of a class, or a number to regress on."""


@dataclass(frozen=True)
class SampleRecord:
    """What is known of one sample. Nothing in it is NaN: what is not known is None."""

    index: int
    name: str | None
    """Its own name, where the samples have names."""
    verdict: str
    p_incorrect: float | None
    weight: float | None
    average_loss: float | None
    given_label: Label
    predicted_label: Label | None
    predicted_score: float | None
    """How sure the model is of `predicted_label`."""

    def facts(self) -> dict[str, Any]:
        """What the verdict says, under the names that every file uses."""
        facts = {
            "sample_index": self.index,
            "sample_id": self.name,
            "verdict": self.verdict,
            "p_incorrect": self.p_incorrect,
            "weight": self.weight,
            "average_loss": self.average_loss,
        }
        if self.name is None:
            del facts["sample_id"]
        return facts


def sample_records(
    verdicts: Verdicts,
    given_label: Any,
    *,
    predicted_label: Any | None = None,
    predicted_score: Any | None = None,
    class_names: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    limit: int | None = None,
) -> list[SampleRecord]:
    """Records of all samples, worst first; who was never seen comes last.

    Args:
        verdicts: of all samples.
        given_label: the labels trained on, one per sample. Floating-point numbers mean regression;
            everything else is a class: its name, or its position in `class_names`.
        predicted_label: what a model says of each sample, like `given_label`.
        predicted_score: how sure the model is, one number per sample.
        class_names: names of the classes, by position.
        ids: names of the samples; by default those the verdicts carry, if any.
        limit: how many records at most.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit must not be negative, but is {limit}")
    number = len(verdicts)
    rows = _worst_first(verdicts, limit)
    given = _labels_of_rows(given_label, rows, number, class_names, "given_label")
    predicted: list[Label] | list[None] = [None] * len(rows)
    if predicted_label is not None:
        predicted = _labels_of_rows(predicted_label, rows, number, class_names, "predicted_label")
        if are_numbers(predicted_label, class_names) != are_numbers(given_label, class_names):
            raise ValueError(
                "given_label and predicted_label must both be classes, or both be "
                "floating-point numbers"
            )
    scores: list[float | None] = [None] * len(rows)
    if predicted_score is not None:
        every_score = one_per_sample(predicted_score, number, "predicted_score")
        scores = [_number_or_none(every_score[row]) for row in rows]
    ids = verdicts.ids if ids is None else ids
    if ids is not None and len(ids) != number:
        raise ValueError(f"there are {len(ids)} ids for {number} samples")
    return [
        SampleRecord(
            index=row,
            name=None if ids is None else str(ids[row]),
            verdict=LABELS[verdicts.code[row]],
            p_incorrect=_number_or_none(verdicts.p_incorrect[row]),
            weight=_entry(verdicts.weight, row),
            average_loss=_entry(verdicts.average_loss, row),
            given_label=given[place],
            predicted_label=predicted[place],
            predicted_score=scores[place],
        )
        for place, row in enumerate(rows)
    ]


def are_numbers(labels: Any, class_names: Sequence[str] | None) -> bool:
    """Whether labels are numbers to regress on: floating-point, and no positions of classes."""
    return class_names is None and one_per_sample(labels, len(labels), "labels").dtype.kind == "f"


def readable_labels(
    labels: npt.NDArray[Any], class_names: Sequence[str] | None, name: str
) -> list[Label]:
    """Names of classes, or numbers where the labels are numbers.

    Args:
        labels: any number of them.
        class_names: names of the classes by position; without them a position is its own name.
        name: of the argument, for errors.
    """
    if labels.dtype.kind == "O" and any(label is None for label in labels):
        raise ValueError(f"{name} must hold a label for each sample, but holds None")
    if are_numbers(labels, class_names):
        if not np.isfinite(labels).all():
            raise ValueError(f"{name} must hold finite numbers")
        return [float(label) for label in labels]
    if class_names is None:
        return [str(label) for label in labels]
    if labels.dtype.kind not in "iub":
        known = set(class_names)
        readable: list[Label] = [str(label) for label in labels]
        unknown = next((label for label in readable if label not in known), None)
        if unknown is not None:
            raise ValueError(f"{name} holds {unknown!r}, which is not in class_names")
        return readable
    if len(labels) and not (labels.min() >= 0 and labels.max() < len(class_names)):
        raise ValueError(
            f"{name} must hold positions in class_names, from 0 to {len(class_names) - 1}, "
            f"but reaches from {labels.min()} to {labels.max()}"
        )
    return [str(class_names[int(label)]) for label in labels]


def names_of_classes(class_names: Sequence[str] | None, *columns: Any) -> list[str]:
    """All classes: those given, or else those that occur in the columns of labels, sorted."""
    if class_names is not None:
        names = [str(name) for name in class_names]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"class_names holds {repeated!r} more than once")
        return names
    occurring = {
        str(label)
        for column in columns
        if column is not None
        for label in set(one_per_sample(column, len(column), "labels").tolist())
    }
    # Positions that are their own names are sorted as numbers: 2 comes before 10.
    return sorted(
        occurring, key=lambda name: (0, int(name), name) if name.isdecimal() else (1, 0, name)
    )


def label_of_choice(choice: str, class_names: Sequence[str] | None, where: str) -> str | int:
    """A corrected class as it is in the labels: its position where classes have names."""
    if class_names is None:
        return choice
    if choice not in class_names:
        raise ValueError(f"{where} is labelled {choice!r}, which is not in class_names")
    return list(class_names).index(choice)


def _labels_of_rows(
    labels: Any,
    rows: Sequence[int],
    num_samples: int,
    class_names: Sequence[str] | None,
    name: str,
) -> list[Label]:
    every = one_per_sample(labels, num_samples, name)
    return readable_labels(every[np.asarray(rows, dtype=np.intp)], class_names, name)


def _worst_first(verdicts: Verdicts, limit: int | None) -> list[int]:
    number = len(verdicts) if limit is None else limit
    seen = verdicts.most_suspicious(number)
    unseen: npt.NDArray[np.intp] = np.flatnonzero(verdicts.code == UNSEEN)[: number - len(seen)]
    return [int(index) for index in (*seen, *unseen)]


def _entry(column: npt.NDArray[np.float32] | None, row: int) -> float | None:
    return None if column is None else _number_or_none(column[row])


def _number_or_none(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
