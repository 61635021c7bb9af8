"""Gathers a batch from all processes, and assigns it to rows of the table.

With a sharded table, each process has only some of the rows.
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
    """The rows of all processes in one step, in order of rank, and the positions of their state."""

    losses: Tensor
    """The losses, shape (rows,), float32, detached, on the device of the table."""
    index: Tensor
    """Shape (rows,), int64, checked: the sample of each row."""
    sizes: list[int]
    """Number of rows from each process."""
    own: slice
    """The rows of this process."""
    table_rows: Tensor
    """Rows of this process's table that belong to samples of the batch."""
    positions: Tensor | None
    """The row of the batch for each of `table_rows`. None if they are all rows, in order."""
    extra: Tensor | None = None
    """Shape (rows, words), int32: further data of each row."""

    def local(self, values: Tensor) -> Tensor:
        """Return the values of the batch rows whose samples are in this table."""
        return values if self.positions is None else values.index_select(0, self.positions)


class Shards:
    """The division of a table's rows among processes.

    Sample ``i`` is row ``i // count`` of process ``i % count``. With one shard, it is row ``i``.
    The sizes of the shards therefore differ by at most one row, and the table can grow in place.

    Args:
        processes: the processes that share the table.
        sharded: whether each process keeps only its own rows. Otherwise all keep the whole table.
    """

    def __init__(self, processes: Processes, *, sharded: bool) -> None:
        self.processes = processes
        self.sharded = sharded
        self.count = processes.count if sharded else 1
        self.rank = processes.rank if sharded else 0

    @property
    def several(self) -> bool:
        """Whether this process has only a part of the table."""
        return self.count > 1

    def length(self, num_samples: int) -> int:
        """Number of rows of this process."""
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
        """Gather the rows of all processes on the device of the table.

        Args:
            losses: shape (batch,): losses of this process, in any precision and on any device.
            index: shape (batch,), int64.
            num_samples: size of the whole table.
            device: device of the table.
            agreement: returns the epoch and a 32-bit fingerprint, which must be equal in all
                processes. It is called only if there are several processes.
            extra: shape (batch, words), int32: further data of each row.

        Raises:
            IndexError: if an index is outside the table.
            RuntimeError: if the number of processes has changed since the table was sharded.
        """
        losses, processes = losses.detach(), self.processes.count
        if self.sharded and self.count != processes:
            raise RuntimeError(
                f"this DiscrimLoss was sharded among {self.count} processes, but there are "
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
        """Return values for all rows of a batch, given those of the local rows."""
        if batch.positions is None:
            return values
        everyones = values.new_zeros(len(batch.losses)).index_copy_(0, batch.positions, values)
        return self.processes.total(everyones)  # exact: each row is 0 in all processes but one

    def send_back(self, batch: Batch, *values: Tensor) -> tuple[Tensor, ...]:
        """Send each process the values of its own rows from the process that computed them.

        Args:
            batch: the batch of all processes.
            values: several results, each with one value for each local row.
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
        """Return the sum over the shards."""
        return self.processes.total(values) if self.several else values

    def largest(self, values: Tensor) -> Tensor:
        """Return the maximum over the shards."""
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
"""An undivided table: every process has all rows."""
