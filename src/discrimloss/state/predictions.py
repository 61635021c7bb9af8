"""Averaged predictions of a classifier, at a fixed number of bytes per sample.

A sample keeps its `KEPT_CLASSES` likeliest classes with their averaged probabilities. What is left
is spread evenly over all other classes. With up to `KEPT_CLASSES` classes nothing is lost.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

KEPT_CLASSES = 14
"""Classes that a sample keeps: 4 bytes each."""
MOST_CLASSES = torch.iinfo(torch.int16).max
"""Classes are stored as 16-bit integers."""
MOMENTUM = 0.6
"""Momentum of the moving average: it forgets predictions of five epochs ago."""


class TopPredictions(NamedTuple):
    """The likeliest classes of some samples, each class at most once in a row."""

    classes: Tensor
    """Shape (rows, kept), int64."""
    mass: Tensor
    """Shape (rows, kept), float32: their probabilities. Together at most 1."""

    def others(self, num_classes: int) -> Tensor:
        """Shape (rows,): the probability of each class that is not kept."""
        left = (1.0 - self.mass.sum(1)).clamp(min=0.0)
        return left / max(num_classes - self.classes.shape[1], 1)

    def of_class(self, wanted: Tensor, num_classes: int) -> Tensor:
        """Shape (rows, wanted): the probabilities of some classes, shape (rows, wanted)."""
        same = wanted.unsqueeze(2) == self.classes.unsqueeze(1)
        found = (same * self.mass.unsqueeze(1)).sum(2)
        return torch.where(same.any(2), found, self.others(num_classes).unsqueeze(1))

    def dense(self, num_classes: int) -> Tensor:
        """Shape (rows, num_classes): the probabilities of all classes."""
        full = self.others(num_classes).unsqueeze(1).expand(-1, num_classes).contiguous()
        return full.scatter_(1, self.classes, self.mass)


def kept_classes(num_classes: int) -> int:
    """How many classes a sample keeps."""
    return min(num_classes, KEPT_CLASSES)


def top_predictions(logits: Tensor) -> TopPredictions:
    """Select the likeliest classes, in the precision in which they are stored.

    Args:
        logits: shape (rows, classes).
    """
    mass, classes = logits.float().softmax(1).topk(kept_classes(logits.shape[1]), dim=1)
    return TopPredictions(classes, mass.half().float())


def past_fraction(visits: Tensor) -> Tensor:
    """Weight of the past in a moving average that is corrected for its start at zero.

    Args:
        visits: shape (rows,), float: number of visits, this one included.
    """
    left = MOMENTUM ** visits.clamp(min=1.0)
    return (MOMENTUM - left) / (1.0 - left)


def average_predictions(
    old: TopPredictions, new: TopPredictions, visits: Tensor, num_classes: int
) -> TopPredictions:
    """Add a visit to averaged predictions.

    Args:
        old: the averages so far; ignored where `visits` is 1.
        new: the predictions of this visit.
        visits: shape (rows,): number of visits, this one included.
        num_classes: number of all classes.
    """
    past = past_fraction(visits).unsqueeze(1)
    same = new.classes.unsqueeze(2) == old.classes.unsqueeze(1)
    known = same.any(2)
    new_of_old = (same * new.mass.unsqueeze(2)).sum(1)
    old_of_new = (same * old.mass.unsqueeze(1)).sum(2)
    if (
        num_classes > old.classes.shape[1]
    ):  # a class that is not kept gets an equal part of the rest
        new_of_old = torch.where(same.any(1), new_of_old, new.others(num_classes).unsqueeze(1))
        old_of_new = torch.where(known, old_of_new, old.others(num_classes).unsqueeze(1))
    of_old = past * old.mass + (1.0 - past) * new_of_old
    of_new = past * old_of_new + (1.0 - past) * new.mass
    # A class counts once, and the columns of the start, which all name class 0, not at all.
    is_first = visits.unsqueeze(1) <= 1
    of_old = of_old.masked_fill(is_first, -1.0)
    of_new = of_new.masked_fill(known & ~is_first, -1.0)
    mass, place = torch.cat([of_old, of_new], 1).topk(old.classes.shape[1], dim=1)
    classes = torch.cat([old.classes, new.classes], 1).gather(1, place)
    return TopPredictions(classes, mass)
