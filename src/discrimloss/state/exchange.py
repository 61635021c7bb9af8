"""A batch on its way to the table: gathered from all processes, and assigned to table rows.

With a sharded table each process keeps only some of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from discrimloss.state.batch_checks import checked_index
from discrimloss.state.processes import Processes


@dataclass
class Batch:
    """The rows of all processes in one step, in order of rank, and where their state is."""

    losses: Tensor
    """Shape (rows,), float32, detached, on the device of the table."""
    index: Tensor
    """Shape (rows,), int64, checked: the sample of each row."""
    sizes: list[int]
    """How many rows each process contributed."""
    own: slice
    """The rows of this process."""
    table_rows: Tensor
    """Rows of this process's table that belong to samples of the batch."""
    positions: Tensor | None
    """Which row of the batch each of `table_rows` belongs to; None if to all, in order."""
    extra: Tensor | None = None
    """Shape (rows, words), int32: what else each row carries."""

    def local(self, values: Tensor) -> Tensor:
        """Select the values of those rows of the batch whose samples are in this table."""
        return values if self.positions is None else values.index_select(0, self.positions)


class Shards:
    """How the rows of a table are divided among processes.

    Sample ``i`` is row ``i // count`` of process ``i % count``; with one shard, row ``i``. So the
    shards have the same size within one row, and the table can grow in place.

    Args:
        processes: the processes that share the table.
        sharded: whether each keeps only its own rows, or all of them keep the whole table.
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
        """Number of rows that this process holds."""
        return len(range(self.rank, num_samples, self.count))

    def collect(
        self,
        losses: Tensor,
        index: Tensor,
        num_samples: int,
        device: torch.device,
        agreement: Callable[[], tuple[int, int]],
        extra: Tensor | None = None,
    ) -> Batch:
        """Bring the rows of all processes together on the device of the table.

        Args:
            losses: shape (batch,), of this process, in any precision and on any device.
            index: shape (batch,), int64.
            num_samples: size of the whole table.
            device: where the table is.
            agreement: returns the epoch and a fingerprint of 32 bits, which must be equal in all
                processes; called only if there are several.
            extra: shape (batch, words), int32: what else each row carries.

        Raises:
            IndexError: if an index lies outside the table.
            RuntimeError: if the number of processes has changed since the table was sharded.
        """
        losses, processes = losses.detach(), self.processes.count
        if self.sharded and self.count != processes:
            raise RuntimeError(
                f"this DiscrimLoss was sharded among {self.count} processes, and there are "
                f"{processes}: build it after torch.distributed.init_process_group"
            )
        sizes, own = [len(losses)], slice(None)
        if processes > 1:
            epoch, fingerprint = agreement()
            given = index.to(device)
            losses, index, extra, sizes = self.processes.gather_batch(
                losses, index, epoch, num_samples, fingerprint, extra
            )
            checked_index(given, num_samples)  # first, so that an error names a row of this process
            start = sum(sizes[: self.processes.rank])
            own = slice(start, start + len(given))
        index = table_rows = checked_index(index.to(device), num_samples)
        positions = None
        if self.count > 1:
            positions = (index % self.count == self.rank).nonzero().flatten()
            table_rows = index.index_select(0, positions) // self.count
        losses = losses.to(device, torch.float32)
        extra = None if extra is None else extra.to(device)
        return Batch(losses, index, sizes, own, table_rows, positions, extra)

    def complete(self, batch: Batch, values: Tensor) -> Tensor:
        """Extend values of the local rows of a batch to all of its rows."""
        if batch.positions is None:
            return values
        everyones = values.new_zeros(len(batch.losses)).index_copy_(0, batch.positions, values)
        return self.processes.total(everyones)  # exact: every row is zero in all processes but one

    def send_back(self, batch: Batch, *values: Tensor) -> tuple[Tensor, ...]:
        """Give every process the values of its own rows, from the process that computed them.

        Args:
            batch: the batch of all processes.
            values: one value for each local row, from each of several computations.
        """
        if batch.positions is None:
            if len(batch.sizes) == 1:
                return values
            return tuple(value[batch.own] for value in values)
        ends = torch.tensor(batch.sizes).cumsum(0).to(batch.positions.device)
        owner_of_row = torch.bucketize(batch.positions, ends, right=True)
        to_each = torch.bincount(owner_of_row, minlength=self.count).tolist()
        holder = batch.index[batch.own] % self.count
        from_each = torch.bincount(holder, minlength=self.count).tolist()
        received = self.processes.exchange(torch.stack(values, dim=1), to_each, from_each)
        order = holder.argsort(stable=True)
        return torch.empty_like(received).index_copy_(0, order, received).unbind(1)

    def total(self, values: Tensor) -> Tensor:
        """Sum over the shards."""
        return self.processes.total(values) if self.several else values

    def largest(self, values: Tensor) -> Tensor:
        """Maximum over the shards."""
        return self.processes.largest(values) if self.several else values

    def whole_column(self, column: Tensor, num_samples: int) -> Tensor:
        """Return a column with the rows of all shards, on the CPU. All processes must call it."""
        if not self.several:
            return column
        longest = len(range(0, num_samples, self.count))
        padding = column.new_zeros(longest - len(column), *column.shape[1:])
        shards = self.processes.all_gather(torch.cat([column, padding])).cpu()
        return shards.transpose(0, 1).flatten(0, 1)[:num_samples].contiguous()

    def own_part(self, column: Tensor) -> Tensor:
        """Select this process's rows of a whole column."""
        return column[self.rank :: self.count] if self.several else column


WHOLE_TABLE = Shards(Processes(), sharded=False)
"""Every process holds the whole table."""
