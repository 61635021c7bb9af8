"""Averaged predictions of a classifier, with a fixed number of bytes per sample.

Each sample keeps its `KEPT_CLASSES` most likely classes with their averaged probabilities. The rest
of the probability is spread evenly over all other classes. With up to `KEPT_CLASSES` classes,
nothing is lost.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

KEPT_CLASSES = 14
"""Number of classes kept per sample, 4 bytes each."""
MOST_CLASSES = torch.iinfo(torch.int16).max
"""Maximum number of classes, which are stored as 16-bit integers."""
MOMENTUM = 0.6
"""Momentum of the moving average. Predictions of five epochs ago have little weight."""


class TopPredictions(NamedTuple):
    """The most likely classes of some samples. Each class occurs at most once in a row."""

    classes: Tensor
    """Shape (rows, kept), int64."""
    mass: Tensor
    """Shape (rows, kept), float32: their probabilities. Their sum is at most 1."""

    def others(self, num_classes: int) -> Tensor:
        """Return the probability of each class that is not kept, shape (rows,)."""
        left = (1.0 - self.mass.sum(1)).clamp(min=0.0)
        return left / max(num_classes - self.classes.shape[1], 1)

    def of_class(self, wanted: Tensor, num_classes: int) -> Tensor:
        """Return the probabilities of some classes, shape (rows, wanted)."""
        same = wanted.unsqueeze(2) == self.classes.unsqueeze(1)
        found = (same * self.mass.unsqueeze(1)).sum(2)
        return torch.where(same.any(2), found, self.others(num_classes).unsqueeze(1))

    def dense(self, num_classes: int) -> Tensor:
        """Return the probabilities of all classes, shape (rows, num_classes)."""
        full = self.others(num_classes).unsqueeze(1).expand(-1, num_classes).contiguous()
        return full.scatter_(1, self.classes, self.mass)


def kept_classes(num_classes: int) -> int:
    """Return the number of classes kept per sample."""
    return min(num_classes, KEPT_CLASSES)


def top_predictions(logits: Tensor) -> TopPredictions:
    """Select the most likely classes, with the precision of the stored values.

    Args:
        logits: shape (rows, classes).
    """
    mass, classes = logits.float().softmax(1).topk(kept_classes(logits.shape[1]), dim=1)
    return TopPredictions(classes, mass.half().float())


def past_fraction(visits: Tensor) -> Tensor:
    """Return the weight of the past in a moving average that is corrected for its start at zero.

    Args:
        visits: shape (rows,), float: number of visits, including this one.
    """
    left = MOMENTUM ** visits.clamp(min=1.0)
    return (MOMENTUM - left) / (1.0 - left)


def average_predictions(
    old: TopPredictions, new: TopPredictions, visits: Tensor, num_classes: int
) -> TopPredictions:
    """Add a visit to averaged predictions.

    Args:
        old: the averages so far. Ignored where `visits` is 1.
        new: the predictions of this visit.
        visits: shape (rows,): number of visits, including this one.
        num_classes: number of all classes.
    """
    past = past_fraction(visits).unsqueeze(1)
    same = new.classes.unsqueeze(2) == old.classes.unsqueeze(1)
    known = same.any(2)
    new_of_old = (same * new.mass.unsqueeze(2)).sum(1)
    old_of_new = (same * old.mass.unsqueeze(1)).sum(2)
    if num_classes > old.classes.shape[1]:  # classes that are not kept share the rest equally
        new_of_old = torch.where(same.any(1), new_of_old, new.others(num_classes).unsqueeze(1))
        old_of_new = torch.where(known, old_of_new, old.others(num_classes).unsqueeze(1))
    of_old = past * old.mass + (1.0 - past) * new_of_old
    of_new = past * old_of_new + (1.0 - past) * new.mass
    # Each class counts once. The initial columns, which are all class 0, do not count.
    is_first = visits.unsqueeze(1) <= 1
    of_old = of_old.masked_fill(is_first, -1.0)
    of_new = of_new.masked_fill(known & ~is_first, -1.0)
    mass, place = torch.cat([of_old, of_new], 1).topk(old.classes.shape[1], dim=1)
    classes = torch.cat([old.classes, new.classes], 1).gather(1, place)
    return TopPredictions(classes, mass)
