"""Which process owns which sample, for tables too large for every process to hold."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discrimloss.state.processes import Gathered, Processes


class Placement(NamedTuple):
    """Where the samples of a batch are in the table of this process."""

    rows: Tensor
    """Rows of the table."""
    positions: Tensor | None
    """Which rows of the batch they belong to; None for all of them, in order."""

    def take(self, values: Tensor) -> Tensor:
        """Those of a whole batch's values that belong to samples which are here."""
        return values if self.positions is None else values.index_select(0, self.positions)


class Shards:
    """Sample ``i`` is row ``i // count`` of process ``i % count``; with one process, row ``i``.

    Dealing them out like cards keeps the shards even and lets the table grow in place.
    """

    def __init__(self, processes: Processes, *, sharded: bool) -> None:
        self.processes = processes
        self.sharded = sharded
        self.count = processes.count if sharded else 1
        self.rank = processes.rank if sharded else 0

    @property
    def several(self) -> bool:
        """Whether this process holds less than the whole table."""
        return self.count > 1

    def length(self, num_samples: int) -> int:
        """How many rows this process holds."""
        return len(range(self.rank, num_samples, self.count))

    def require_same_processes(self) -> None:
        """Raise if the table was divided among another number of processes than there are."""
        if self.sharded and self.count != self.processes.count:
            raise RuntimeError(
                f"this DiscrimLoss was sharded among {self.count} processes, and there are "
                f"{self.processes.count}: build it after torch.distributed.init_process_group"
            )

    def place(self, index: Tensor) -> Placement:
        """Where the samples with these indices are, as far as they are here."""
        if not self.several:
            return Placement(index, None)
        positions = (index % self.count == self.rank).nonzero().flatten()
        return Placement(index.index_select(0, positions) // self.count, positions)

    def whole_batch(self, values: Tensor, place: Placement, size: int) -> Tensor:
        """Values of the own rows of a batch, completed by those that the other processes own."""
        if place.positions is None:
            return values
        everyones = values.new_zeros(size).index_copy_(0, place.positions, values)
        return self.processes.total(everyones)  # all others bring 0: exact

    def own_answers(
        self, value: Tensor, slope: Tensor, place: Placement, batch: Gathered
    ) -> tuple[Tensor, Tensor]:
        """Both, for this process's rows of the batch, from whichever process knows them.

        Args:
            value: shape (rows of the batch whose samples are here,).
            slope: of the same shape.
            place: where those samples are.
            batch: the batch of all processes.
        """
        if place.positions is None:
            return value[batch.own], slope[batch.own]
        ends = torch.tensor(batch.numbers).cumsum(0).to(place.positions.device)
        asker = torch.bucketize(place.positions, ends, right=True)
        to_each = torch.bincount(asker, minlength=self.count).tolist()
        owner = batch.index[batch.own] % self.count
        from_each = torch.bincount(owner, minlength=self.count).tolist()
        answers = torch.stack([value, slope], dim=1)
        received = self.processes.exchange(answers, to_each, from_each)
        order = owner.argsort(stable=True)
        own_value, own_slope = torch.empty_like(received).index_copy_(0, order, received).unbind(1)
        return own_value, own_slope

    def total(self, values: Tensor) -> Tensor:
        """Sum over the shards."""
        return self.processes.total(values) if self.several else values

    def largest(self, values: Tensor) -> Tensor:
        """Maximum over the shards."""
        return self.processes.largest(values) if self.several else values

    def whole_column(self, column: Tensor, num_samples: int) -> Tensor:
        """A column of the table with the rows of all processes, on the CPU. All must ask."""
        if not self.several:
            return column
        longest = len(range(0, num_samples, self.count))
        padded = torch.cat([column, column.new_zeros(longest - len(column))])
        parts = self.processes.all_gather(padded).cpu()
        return parts.t().reshape(-1)[:num_samples].contiguous()

    def own_part(self, column: Tensor) -> Tensor:
        """The rows of this process, of a whole column."""
        return column[self.rank :: self.count] if self.several else column


WHOLE_TABLE = Shards(Processes(), sharded=False)
"""Every process holds all of it."""
