"""How good judgements of labels are, where the truth is known."""

from __future__ import annotations

from torch import Tensor

BINS = 15


def calibration_error(probability: Tensor, is_wrong: Tensor) -> float:
    """Mean distance of what was said from what came true, in bins of equal width."""
    probability, came_true = probability.double(), is_wrong.double()
    place = (probability * BINS).long().clamp(max=BINS - 1)
    error = 0.0
    for number in place.unique():
        chosen = place == number
        gap = probability[chosen].mean() - came_true[chosen].mean()
        error += float(gap.abs() * chosen.double().mean())
    return error


def f1_score(is_called: Tensor, is_wrong: Tensor) -> float:
    """Of the labels that were called wrong."""
    hits = float((is_called & is_wrong).sum())
    return 2 * hits / max(float(is_called.sum() + is_wrong.sum()), 1.0)
