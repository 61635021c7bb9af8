"""Labels about which an audit can say nothing, and the note about them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from discrimloss.judging.optimization import bisect_root

FEWEST_OF_CLASS = 10
"""In a class with fewer labels, an audit cannot tell which are wrong."""
LARGEST_KEPT = -1e-6
"""The highest score of a label in such a class: just below the verdict incorrect."""
TYPICAL_NOISE = 0.1
"""Fraction of wrong labels that is assumed where the predictions say nothing about it."""
MOST_NAMED = 5


def is_judgeable(target: Tensor, num_classes: int) -> Tensor:
    """Which labels belong to a class that is large enough: shape (samples,), bool."""
    return (torch.bincount(target, minlength=num_classes) >= FEWEST_OF_CLASS)[target]


def limited_score(score: Tensor, judged: Tensor) -> Tensor:
    """Scores with which no label that cannot be judged is called incorrect.

    Args:
        score: log-odds of being wrong, shape (samples,).
        judged: which labels can be judged.
    """
    return torch.where(judged, score, score.clamp(max=LARGEST_KEPT))


def with_mean_probability(score: Tensor, rate: float) -> Tensor:
    """Scores in the same order whose probabilities have this mean.

    >>> shifted = with_mean_probability(torch.tensor([3.0, 1.0, 0.0]), 0.25)
    >>> round(float(shifted.sigmoid().mean()), 4)
    0.25

    Args:
        score: log-odds of being wrong, shape (samples,).
        rate: between 0 and 1.
    """
    exact = score.double()
    reach = float(exact.abs().max()) + 20.0
    offset = bisect_root(
        rate, lambda shift: float((exact + shift - reach).sigmoid().mean()), 2.0 * reach
    )
    return (exact + offset - reach).float()


def score_without_evidence(score: Tensor) -> Tensor:
    """Scores where the fraction of wrong labels is unknown: at most the typical one is assumed."""
    if float(score.double().sigmoid().mean()) <= TYPICAL_NOISE:
        return score
    return with_mean_probability(score, TYPICAL_NOISE)


def notes_on_small_classes(target: Tensor, class_names: Sequence[str]) -> list[str]:
    """Name the classes that are too small to be judged, in one sentence at most."""
    counts = torch.bincount(target, minlength=len(class_names)).tolist()
    small = [
        f"{name!r} ({count})"
        for name, count in zip(class_names, counts, strict=True)
        if 0 < count < FEWEST_OF_CLASS
    ]
    if not small:
        return []
    what = "Class" if len(small) == 1 else "Classes"
    return [
        (
            f"{what} too small to be judged: {first_names(small)}. At least {FEWEST_OF_CLASS} "
            "samples are needed, so none of their labels is called incorrect."
        )
    ]


def first_names(names: Sequence[str]) -> str:
    """The first names in a line, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
