"""A histogram of all samples' average losses, and the cut that splits it best.

Whole-table questions are answered from a few thousand integer counts, so they cost one pass over
the table whatever its size, and the answer does not depend on the order in which a device adds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from discrimloss.state.shards import WHOLE_TABLE, Shards

BINS = 4096


@dataclass(frozen=True)
class LossHistogram:
    """Counts over bins that are narrow near the smallest loss and widen into the tail.

    Bins are equal in ``asinh((loss - low) / scale)`` with ``scale`` the mean above ``low``: linear
    among the ordinary losses, logarithmic in the tail, so one absurd loss cannot squeeze all the
    others into a single bin.
    """

    counts: Tensor
    """Shape (bins,), float64, on the CPU."""
    low: float
    scale: float
    width: float
    """Width of a bin after the transformation."""

    @property
    def centers(self) -> Tensor:
        """The loss in the middle of each bin."""
        return self._loss_at(torch.arange(len(self.counts), dtype=torch.float64) + 0.5)

    def edge(self, position: int) -> float:
        """The loss between bin ``position - 1`` and bin ``position``."""
        return float(self._loss_at(torch.tensor(float(position), dtype=torch.float64)))

    def _loss_at(self, position: Tensor) -> Tensor:
        return self.low + self.scale * torch.sinh(position * self.width)


def finite_range(
    chunks: Iterable[Tensor], shards: Shards, start: float = -math.inf
) -> tuple[float, float]:
    """Smallest and largest finite value of all chunks, widened to hold `start` if it is finite."""
    extremes = torch.full((2,), start, dtype=torch.float64)  # of the negated values, and the values
    for chunk in chunks:
        chunk = chunk[chunk.isfinite()]
        if chunk.numel():
            found = torch.stack([-chunk.min(), chunk.max()])
            extremes = torch.maximum(extremes, found.double().cpu())
    negated, high = shards.largest(extremes).tolist()
    return -negated, high


def loss_histogram(
    chunks: Iterable[Tensor], shards: Shards = WHOLE_TABLE, bins: int = BINS
) -> LossHistogram | None:
    """Count the finite values of all chunks; None where there is nothing to split.

    The finite values are held while they are counted: four bytes a sample, for that long. Where
    the samples are divided among processes, all of them must ask, and all get the same answer.
    """
    chunks = [chunk[chunk.isfinite()] for chunk in chunks]
    chunks = [chunk for chunk in chunks if chunk.numel()]
    low, high = finite_range(chunks, shards)
    if high < low:  # no values at all
        return None
    sums = torch.zeros(2, dtype=torch.float64)
    for chunk in chunks:
        sums[0] += chunk.numel()
        sums[1] += (chunk.double() - low).sum().cpu()
    number, above_low = shards.total(sums).tolist()
    scale = above_low / number
    if not (high > low and scale > 0):
        return None
    width = math.asinh((high - low) / scale) / bins
    counts = torch.zeros(bins, dtype=torch.int64)
    for chunk in chunks:
        position = torch.asinh((chunk - low) / scale) / width
        counts += torch.bincount(position.long().clamp_(0, bins - 1), minlength=bins).cpu()
    return LossHistogram(shards.total(counts).double(), low, scale, width)


def best_split(histogram: LossHistogram) -> float:
    """The loss that cuts the samples into the two groups of largest between-group variance."""
    variance = _between_group_variance(histogram)
    # Bins between two groups may be empty, and every cut among them is equally good: the middle
    # one leaves the same room on both sides.
    best = (variance >= variance.max() * (1 - 1e-12)).nonzero().flatten()
    return histogram.edge(int(best[len(best) // 2]) + 1)


def separability(histogram: LossHistogram) -> float:
    """Share of the variance that lies between the two groups of the best split, from 0 to 1.

    Two points give 1, a uniform distribution 0.75, a normal one 0.64.
    """
    centers, number = histogram.centers, histogram.counts.sum()
    mean = (histogram.counts * centers).sum() / number
    total = (histogram.counts * (centers - mean).square()).sum() / number
    return float(_between_group_variance(histogram).max() / total)


def _between_group_variance(histogram: LossHistogram) -> Tensor:
    """For a cut after each bin but the last; -1 where one side is empty."""
    centers = histogram.centers
    number, total = histogram.counts.cumsum(0), (histogram.counts * centers).cumsum(0)
    below, above = number[:-1], number[-1] - number[:-1]
    valid = (below > 0) & (above > 0)
    mean_below = total[:-1] / below.clamp(min=1)
    mean_above = (total[-1] - total[:-1]) / above.clamp(min=1)
    variance = below * above * (mean_below - mean_above).square() / number[-1].square()
    return torch.where(valid, variance, -1.0)
