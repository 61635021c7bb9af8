"""Merges the rows of a batch into visits: several rows of one sample are one visit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from discrimloss.state.exchange import Batch

LARGEST_LOSS = 1e15  # losses are clipped to this, so that sums of squares stay finite
LAST_IN_ORDER = torch.iinfo(torch.int32).max  # above the bits of every finite loss


def can_look_at(values: Tensor) -> bool:
    """Return whether the host can read values without waiting, to skip unnecessary work."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def all_on_host(values: Tensor) -> bool:
    """Return whether all values are True, if they can be read without waiting. Else False."""
    return can_look_at(values) and bool(values.all())


class Visits:
    """A batch as visits to samples: several rows of one sample are one visit.

    There are two layouts. `mean_loss` and `counts` are aligned with the rows of the batch, and rows
    of one sample have equal values. `means` and `present` have every sample once.
    """

    all_count = False
    """Whether all rows are certainly different samples with finite losses: nothing is masked."""

    mean_loss: Tensor
    """Shape (rows,). Mean of the finite losses of the row's sample in this batch. 0 if none."""
    counts: Tensor
    """Shape (rows,), bool. Whether the row's sample has a finite loss in this batch."""
    means: Tensor
    """Shape (rows,). The mean loss of each sample, once per sample. 0 in all other places."""
    present: Tensor
    """Shape (rows,), bool. Which places of `means` hold a sample with a finite loss."""
    order: Tensor
    """Shape (rows,), int64. The row of the batch that each place of `means` belongs to."""
    first: Tensor
    """Shape (rows,), int64. One row of the row's sample, with a finite loss if possible. All rows
    of a sample have the same one, in any order of the rows."""

    @property
    def number(self) -> Tensor:
        """Scalar, int64. Number of samples with a finite loss."""
        return self.present.sum()

    def of_counted(self, batch: Batch, new: Tensor, old: Tensor) -> Tensor:
        """Return values of the local rows of a batch: `new` if the row counts, else `old`."""
        return new if self.all_count else torch.where(batch.local(self.counts), new, old)

    def of_first(self, values: Tensor) -> Tensor:
        """Return, for each row, the value of the row `first` of its sample."""
        return values if self.all_count else values.index_select(0, self.first)


class _DistinctVisits(Visits):
    """The usual batch: each row is a different sample with a finite loss.

    It is equal to the result of `_merged_visits`, but computes only the used values.
    """

    all_count = True

    def __init__(self, losses: Tensor, index: Tensor) -> None:
        self.mean_loss, self._index = losses, index

    def __getattr__(self, name: str) -> Tensor:
        if name == "order":
            value = self._index.argsort()
        elif name == "means":
            value = self.mean_loss.index_select(0, self.order)
        elif name in ("counts", "present"):
            value = torch.ones_like(self.mean_loss, dtype=torch.bool)
        elif name == "first":
            value = torch.arange(len(self._index), device=self._index.device)
        else:
            raise AttributeError(name)
        setattr(self, name, value)
        return value


def group_visits(
    losses: Tensor, index: Tensor, tie_break: Callable[[], Tensor | None] | None = None
) -> Visits:
    """Merge rows of the same sample into one visit, without a data-dependent shape.

    Args:
        losses: shape (rows,).
        index: shape (rows,), int64.
        tie_break: returns values of shape (rows,), int64, that order rows of one sample with equal
            losses. Needed if such rows differ in other data.
    """
    if can_look_at(losses) and losses.shape[0] > 0:
        lowest, highest = losses.aminmax()  # NaN if one of them is
        if float(lowest) >= -LARGEST_LOSS and float(highest) <= LARGEST_LOSS:
            samples = index.tolist()
            if len(set(samples)) == len(samples):
                return _DistinctVisits(losses, index)
    return _merged_visits(losses, index, None if tie_break is None else tie_break())


def _merged_visits(losses: Tensor, index: Tensor, tie_break: Tensor | None) -> Visits:
    """Merge the rows of any batch. See `group_visits`.

    Rows are first sorted by sample and loss, so that sums are bit-identical for any order of the
    rows.
    """
    # One sort instead of two: the index in the upper half of the key, the bits of the loss in the
    # lower half. The bits do not order losses by size, but the order is deterministic.
    is_finite = (losses - losses) == 0
    bits = torch.where(is_finite, losses.float().view(torch.int32), LAST_IN_ORDER)
    key = (index << 32) + bits
    if tie_break is None:
        order = key.argsort()
    else:
        by_tie = tie_break.argsort()
        order = by_tie.index_select(0, key.index_select(0, by_tie).argsort(stable=True))
    sorted_index, sorted_losses = index.index_select(0, order), losses.index_select(0, order)
    place = torch.searchsorted(sorted_index, index)  # first row of the same sample
    sorted_place = place.index_select(0, order)

    finite = is_finite.index_select(0, order)
    zeros = torch.zeros_like(losses)
    usable = torch.where(finite, sorted_losses, zeros).clamp(-LARGEST_LOSS, LARGEST_LOSS)
    total = zeros.index_add(0, sorted_place, usable)
    count = zeros.index_add(0, sorted_place, finite.to(losses.dtype))
    visits = Visits()
    visits.means = total / count.clamp(min=1)  # 0 in the places that are no sample's first row
    visits.present = count > 0
    visits.mean_loss = visits.means.index_select(0, place)
    visits.counts = visits.present.index_select(0, place)
    visits.order = order
    visits.first = order.index_select(0, place)
    return visits


def mean_of_same(rows: Tensor, index: Tensor) -> Tensor:
    """Replace each row by the mean of the rows of the same sample."""
    same = (index[:, None] == index).to(rows.dtype)
    return same @ rows / same.sum(1, keepdim=True)
