"""Histograms of the average losses of all samples, and the thresholds that split them in two.

A histogram of a few thousand bins is enough for statistics of the whole table. It costs one pass
over the table. The counts are integers, so the order in which a device adds them does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from discrimloss.functional import of_group, sum_by_group
from discrimloss.state.exchange import WHOLE_TABLE, Shards

BINS = 4096
MOST_BINS = 1 << 22  # in all groups together, but at least FEWEST_BINS in each
FEWEST_BINS = 64

# Separability up to which losses form one cluster, and from which they form two. A uniform
# distribution has 0.75.
ONE_CLUSTER, TWO_CLUSTERS = 0.75, 0.85
# Smallest bounded split for one and for two clusters, as a multiple of the loss scale.
FLOOR_OF_ONE_CLUSTER, FLOOR_OF_TWO_CLUSTERS = 1.0, 0.5


@dataclass(frozen=True)
class LossHistogram:
    """Counts of losses for each group of samples, in bins that widen with the loss.

    Bins are equal in ``asinh((loss - low) / scale)``, with ``scale`` the mean above ``low``. That
    is linear among ordinary losses and logarithmic in the tail, so a single huge loss cannot
    squeeze all others into one bin. All fields are float64 and on the CPU.
    """

    counts: Tensor
    """Shape (groups, bins)."""
    low: Tensor
    """Shape (groups,). The smallest loss."""
    scale: Tensor
    """Shape (groups,). The mean loss above `low`."""
    width: Tensor
    """Shape (groups,). Width of a bin after the transformation. NaN if all losses are equal."""

    @property
    def centers(self) -> Tensor:
        """The loss in the middle of each bin, shape (groups, bins)."""
        return self._losses_at(torch.arange(self.counts.shape[1], dtype=torch.float64) + 0.5)

    def edges(self, position: Tensor) -> Tensor:
        """Return the lower end of the bin at `position`, one for each group."""
        return self._losses_at(position.double().unsqueeze(1)).squeeze(1)

    def _losses_at(self, position: Tensor) -> Tensor:
        low, scale, width = (term.unsqueeze(1) for term in (self.low, self.scale, self.width))
        return low + scale * torch.sinh(position * width)


def finite_range(
    chunks: Iterable[Tensor], shards: Shards, start: float = -math.inf
) -> tuple[float, float]:
    """Return the smallest and the largest finite value in `chunks` and `start`."""
    finite = ((chunk[chunk.isfinite()], None) for chunk in chunks)
    low, high = _extremes(finite, 1, shards, start)
    return float(low), float(high)


def _extremes(
    chunks: Iterable[tuple[Tensor, Tensor | None]],
    groups: int,
    shards: Shards,
    start: float = -math.inf,
) -> tuple[Tensor, Tensor]:
    extremes = torch.full((2, groups), start, dtype=torch.float64)  # of -loss and loss
    for losses, group in chunks:
        if not losses.numel():
            continue
        if group is None:
            found = torch.stack([-losses.min(), losses.max()]).unsqueeze(1)
        else:
            unset = losses.new_full((groups,), -math.inf)
            found = torch.stack(
                [unset.scatter_reduce(0, group, side, "amax") for side in (-losses, losses)]
            )
        extremes = torch.maximum(extremes, found.double().cpu())
    negated, high = shards.largest(extremes)
    return -negated, high


def loss_histogram(
    chunks: Iterable[Tensor],
    shards: Shards = WHOLE_TABLE,
    group_chunks: Iterable[Tensor] | None = None,
    groups: int = 1,
) -> LossHistogram:
    """Count the finite losses of each group.

    The finite losses are kept in memory during the count: four bytes per sample.

    Args:
        chunks: losses, shape (rows,) each.
        shards: how the samples are divided among processes. All processes must call this function,
            and all get the same result.
        group_chunks: the group of each loss, int64, in the same chunks; None for one group.
        groups: number of groups.
    """
    held = _finite(chunks, group_chunks)
    low, high = _extremes(held, groups, shards)
    sums = torch.zeros(2, groups, dtype=torch.float64)
    for losses, group in held:
        above_low = losses.double() - of_group(low.to(losses.device), group)
        sums[0] += (
            losses.numel() if group is None else torch.bincount(group, minlength=groups).cpu()
        )
        sums[1] += sum_by_group(above_low, group, groups).cpu()
    number, above = shards.total(sums)
    scale = above / number
    bins = max(FEWEST_BINS, min(BINS, MOST_BINS // groups))
    can_split = (high > low) & (scale > 0)
    ratio = torch.where(can_split, (high - low) / scale, torch.nan)
    width = torch.tensor([math.asinh(each) for each in ratio.tolist()], dtype=torch.float64) / bins
    counts = torch.zeros(groups * bins, dtype=torch.int64)
    for losses, group in held:
        at, per, step = (of_group(term.to(losses), group) for term in (low, scale, width))
        position = (torch.asinh((losses - at) / per) / step).long().clamp_(0, bins - 1)
        if group is not None:
            position += bins * group
        counts += torch.bincount(position, minlength=groups * bins).cpu()
    counts = shards.total(counts).reshape(groups, bins).double()
    return LossHistogram(counts, low, scale, width)


def _finite(
    chunks: Iterable[Tensor], group_chunks: Iterable[Tensor] | None
) -> list[tuple[Tensor, Tensor | None]]:
    if group_chunks is None:
        return [(chunk[chunk.isfinite()], None) for chunk in chunks]
    held: list[tuple[Tensor, Tensor | None]] = []
    for chunk, group in zip(chunks, group_chunks, strict=True):
        finite = chunk.isfinite()
        held.append((chunk[finite], group[finite]))
    return held


def best_split(histogram: LossHistogram) -> Tensor:
    """Return the loss that splits each group in two with the largest between-class variance.

    Shape (groups,). NaN for a group whose losses are all equal, or that has none.
    """
    variance = _between_class_variance(histogram)
    # Bins between two clusters may be empty, and every cut among them is equally good. The middle
    # cut leaves the same distance to both clusters.
    is_best = variance >= variance.amax(1, keepdim=True) * (1 - 1e-12)
    middle = is_best.sum(1, keepdim=True) // 2 + 1
    position = (is_best.cumsum(1) == middle).int().argmax(1)
    return histogram.edges(position + 1)


def separability(histogram: LossHistogram) -> Tensor:
    """Return the fraction of each group's variance that is between the two sides of the best split.

    Shape (groups,), from 0 to 1. Two points give 1, a uniform distribution 0.75, a normal one 0.64.
    """
    centers, number = histogram.centers, histogram.counts.sum(1)
    mean = (histogram.counts * centers).sum(1) / number
    squares = (centers - mean.unsqueeze(1)).square()
    total = (histogram.counts * squares).sum(1) / number
    return _between_class_variance(histogram).amax(1) / total


def _between_class_variance(histogram: LossHistogram) -> Tensor:
    """Return the variance for a cut after each bin, or -1 if one side is empty."""
    centers = histogram.centers
    number, total = histogram.counts.cumsum(1), (histogram.counts * centers).cumsum(1)
    all_number, all_total = number[:, -1:], total[:, -1:]
    below, above = number[:, :-1], all_number - number[:, :-1]
    valid = (below > 0) & (above > 0)
    mean_below = total[:, :-1] / below.clamp(min=1)
    mean_above = (all_total - total[:, :-1]) / above.clamp(min=1)
    variance = below * above * (mean_below - mean_above).square() / all_number.square()
    return torch.where(valid, variance, -1.0)


def squash(losses: Tensor, scale: float | Tensor) -> Tensor:
    """Map losses to (-1, 1) by ``l / (|l| + s)``. Large losses then do not dominate a variance."""
    return losses / (losses.abs() + scale)


def unsquash(squashed: Tensor, scale: float | Tensor) -> Tensor:
    """The inverse of `squash`."""
    return scale * squashed / (1.0 - squashed.abs())


def split_thresholds(
    averages: Iterable[Tensor],
    group_chunks: Iterable[Tensor] | None = None,
    groups: int = 1,
    shards: Shards = WHOLE_TABLE,
) -> Tensor:
    """Return the best split of each group's losses, shape (groups,). NaN if there is none.

    Args:
        averages: average losses, in chunks.
        group_chunks: the group of each, in the same chunks; None for one group.
        groups: number of groups.
        shards: how the samples are divided among processes.
    """
    return best_split(loss_histogram(averages, shards, group_chunks, groups))


def bounded_split_thresholds(
    averages: Iterable[Tensor],
    loss_scale: Tensor,
    group_chunks: Iterable[Tensor] | None = None,
    shards: Shards = WHOLE_TABLE,
) -> Tensor:
    """Return the best split of each group's losses squashed into (-1, 1).

    A long tail cannot dominate such a split. As long as the losses form a single cluster, a split
    only cuts off samples that are not learned yet, so the result is at least the loss scale. If
    they form two clusters, it is at least half of the loss scale. In between, the bound is
    interpolated.

    Args:
        averages: average losses, in chunks.
        loss_scale: shape (groups,).
        group_chunks: the group of each average, in the same chunks; None for one group.
        shards: how the samples are divided among processes.

    Returns:
        Shape (groups,); NaN if there is nothing to split.
    """
    groups = len(loss_scale)
    if group_chunks is None:
        squashed = (squash(chunk, loss_scale) for chunk in averages)
        histogram = loss_histogram(squashed, shards)
    else:
        group_chunks = list(group_chunks)
        squashed = (
            squash(chunk, of_group(loss_scale, group))
            for chunk, group in zip(averages, group_chunks, strict=True)
        )
        histogram = loss_histogram(squashed, shards, group_chunks, groups)
    scale = loss_scale.cpu()
    cut = unsquash(best_split(histogram).float(), scale).double()
    certainty = (separability(histogram) - ONE_CLUSTER) / (TWO_CLUSTERS - ONE_CLUSTER)
    drop = certainty.clamp(0.0, 1.0) * (FLOOR_OF_TWO_CLUSTERS - FLOOR_OF_ONE_CLUSTER)
    floor = (FLOOR_OF_ONE_CLUSTER + drop) * scale.double()
    return torch.maximum(cut, floor)
