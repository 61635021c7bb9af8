"""A batch on its way to the table: checked, gathered from all processes, assigned to table rows.

In one process nothing is exchanged. In several, one small collective per step brings the batches of
all processes together, so that every process keeps the same state. With a sharded table each
process keeps only some of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

HEADER_WORDS = 5
INT32 = torch.iinfo(torch.int32)


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


# ------------------------------------------------------------------------ checks


def kind_of(value: object) -> str:
    """Name the dtype of a tensor, or the type of anything else, for error messages."""
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def check_losses(losses: Tensor) -> None:
    """Raise an error unless `losses` holds one real number for each row of a batch."""
    if not isinstance(losses, Tensor) or not losses.is_floating_point():
        raise TypeError(f"losses must be a tensor of real numbers, not {kind_of(losses)}")
    if losses.dim() != 1:
        raise ValueError(
            f"losses must have shape (batch,), one task loss each, not {tuple(losses.shape)}: "
            + _shape_hint(losses)
        )


def _shape_hint(losses: Tensor) -> str:
    if losses.dim() == 0:
        return 'compute the task loss with reduction="none"'
    if losses.shape[1:].numel() == 1:
        return "pass losses.flatten()"
    return (
        "pass the mean of each sample, losses.flatten(1).mean(1), without what is padded or masked"
    )


def is_integer(values: Tensor) -> bool:
    """Whether a tensor holds integers. Truth values are none."""
    return not (values.dtype == torch.bool or values.is_floating_point() or values.is_complex())


def integer_tensor(index: Any) -> Tensor:
    """Convert sample indices to a tensor, or raise a `TypeError` if they are not integers."""
    if not isinstance(index, Tensor):
        first = index[0] if isinstance(index, (list, tuple, np.ndarray)) and len(index) else index
        if isinstance(first, str):
            raise TypeError(
                f"sample indices must be integers, not strings such as {first!r}: to know samples "
                "by names, build DiscrimLoss(ids=SampleIds(), epochs=…)"
            )
    if not is_integer(given := torch.as_tensor(index)):
        raise TypeError(f"sample indices must be integers, not {given.dtype}")
    return given


def as_sample_index(index: Any, losses: Tensor) -> Tensor:
    """Convert `index` to int64 and check that it holds one integer for each of the losses."""
    if index is None:
        raise TypeError("index is None: pass the sample index of each row")
    given = integer_tensor(index)
    if given.shape != losses.shape:
        raise ValueError(
            f"index must have the shape of the losses, {tuple(losses.shape)}, "
            f"not {tuple(given.shape)}: one sample index for each loss"
        )
    return given.long()


def checked_index(index: Tensor, num_samples: int) -> Tensor:
    """Return `index`, or raise an `IndexError` that names the first one outside the table.

    Under `torch.compile` the check is an operator whose output all later operations depend on. So
    it runs before any state changes, and needs no graph break.
    """
    if torch.compiler.is_compiling():
        checked: Tensor = _checked_index(index, num_samples)
        return checked
    if len(index) > 0:
        _raise_if_outside(index, num_samples)
    return index


def _raise_if_outside(index: Tensor, num_samples: int) -> None:
    row = first_outside(index, num_samples, "sample index")
    if row is not None:
        raise IndexError(
            f"sample index {int(index[row])} (row {row} of the batch) is out of range: "
            f"num_samples={num_samples}, so valid indices are 0 to {num_samples - 1}"
        )


def first_outside(values: Tensor, size: int, name: str) -> int | None:
    """Find the first row of integers outside 0 to ``size - 1``; None if there is none.

    On a GPU the device stops at a bad value, which `name` describes, and the host never waits.
    """
    lowest, highest = values.aminmax()
    if values.device.type != "cpu":
        inside = (lowest >= 0) & (highest < size)
        torch._assert_async(inside, f"a {name} is outside 0 … {size - 1}")
    elif int(lowest) < 0 or int(highest) >= size:
        return int(((values < 0) | (values >= size)).nonzero()[0, 0])
    return None


@torch.library.custom_op("discrimloss::checked_index", mutates_args=())
def _checked_index(index: Tensor, num_samples: int) -> Tensor:
    _raise_if_outside(index, num_samples)
    return index.clone()


@_checked_index.register_fake
def _(index: Tensor, num_samples: int) -> Tensor:
    return torch.empty_like(index)


# --------------------------------------------------------------------- processes


def process_count(group: Any = None) -> int:
    """Return how many processes train together; 1 unless `torch.distributed` is initialised."""
    if not (dist.is_available() and dist.is_initialized()):
        return 1
    return dist.get_world_size(group)


class Processes:
    """The processes that share one table of samples, and their collectives.

    Args:
        group: a process group of `torch.distributed`; by default all processes.
    """

    def __init__(self, group: Any = None) -> None:
        if group is not None and process_count(group) < 1:
            raise ValueError("this process is not a member of the process group it was given")
        self.group = group
        self._capacity = 0  # words that one exchange has room for, the same in all processes

    @property
    def count(self) -> int:
        """Number of processes."""
        return process_count(self.group)

    @property
    def rank(self) -> int:
        """Rank of this process, from 0."""
        return dist.get_rank(self.group) if self.count > 1 else 0

    def gather_batch(
        self,
        losses: Tensor,
        index: Tensor,
        epoch: int,
        num_samples: int,
        fingerprint: int,
        extra: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None, list[int]]:
        """Gather every process's losses and indices in one collective.

        The processes may contribute different numbers of rows. A batch that is larger than any
        before takes a second collective, which makes room for it.

        Args:
            losses: shape (batch,), of this process.
            index: shape (batch,), of this process.
            epoch: must be equal in all processes, as must the following arguments.
            num_samples: size of the whole table.
            fingerprint: 32 bits of whatever else must be equal.
            extra: shape (batch, words), int32: what else each row carries.

        Returns:
            The losses, the indices, `extra`, and how many rows each process contributed.

        Raises:
            ValueError: in all processes, if they disagree.
        """
        if torch.compiler.is_compiling():  # what follows depends on the other processes' data
            torch._dynamo.graph_break()
        # An index that fits no table still fits none when it is clamped to 32 bits.
        small_index = index.to(losses.device).clamp(INT32.min, INT32.max).int()
        rows = torch.stack([small_index, losses.float().contiguous().view(torch.int32)], dim=1)
        if extra is not None:
            rows = torch.cat([rows, extra.to(rows.device)], dim=1)
        # Words in one line, not rows: the exchange works also where processes disagree on the
        # number of words of a row, and can report it.
        words, width = rows.flatten(), rows.shape[1]
        numbers = [len(rows), width, epoch, num_samples, fingerprint]
        header = torch.tensor(numbers, dtype=torch.int64).int().to(rows.device)
        while True:
            padding = words.new_zeros(max(self._capacity - len(words), 0))
            received = self._gather_step(torch.cat([header, words[: self._capacity], padding]))
            headers = received[:, :HEADER_WORDS].cpu()
            sizes, widths, epochs, samples, fingerprints = headers.T.tolist()
            needed = max(size * each for size, each in zip(sizes, widths, strict=True))
            if needed <= self._capacity:
                break
            self._capacity = needed
        _require_agreement("epoch", epochs)
        _require_agreement("num_samples", samples)
        if len(set(fingerprints)) > 1:
            raise ValueError(
                "the processes' criteria differ: give the same options and the same ids, in the "
                "same order, and load the same state in all of them"
            )
        if len(set(widths)) > 1:
            raise ValueError(
                "some processes pass predictions and others do not: pass them in all processes, or "
                "in none"
            )
        end = [HEADER_WORDS + size * width for size in sizes]
        lines = [line[HEADER_WORDS:last] for line, last in zip(received, end, strict=True)]
        gathered = torch.cat(lines).view(-1, width)
        losses = gathered[:, 1].contiguous().view(torch.float32)
        return losses, gathered[:, 0].long(), None if extra is None else gathered[:, 2:], sizes

    def _gather_step(self, words: Tensor) -> Tensor:
        """Gather the words of all processes, or say why they may not have come."""
        try:
            return self.all_gather(words)
        except RuntimeError as error:  # a timeout, a closed connection, another collective
            raise RuntimeError(
                f"process {self.rank} called the criterion and some of the {self.count} processes "
                "did not in the same step: call it in all processes, not in the first alone, and "
                "give each of them the same number of batches (drop_last=True, or a "
                f"DistributedSampler); the backend reports: {error}"
            ) from error

    def all_gather(self, values: Tensor) -> Tensor:
        """Stack the tensors of all processes, which must have the same shape, along dimension 0."""
        sent = self._ready(values)
        received = sent.new_empty(self.count, *sent.shape)
        # As bytes: backends do not support every dtype.
        into = [each.view(torch.uint8) for each in received.unbind(0)]
        dist.all_gather(into, sent.view(torch.uint8), group=self.group)
        return received.to(values.device)

    def all_gather_objects(self, thing: Any) -> list[Any]:
        """Gather one pickled object of each process: for rare and irregular data such as names."""
        things: list[Any] = [None] * self.count
        dist.all_gather_object(things, thing, group=self.group)
        return things

    def total(self, values: Tensor) -> Tensor:
        """Sum over the processes."""
        return self._reduced(values, dist.ReduceOp.SUM) if self.count > 1 else values

    def largest(self, values: Tensor) -> Tensor:
        """Maximum over the processes."""
        return self._reduced(values, dist.ReduceOp.MAX) if self.count > 1 else values

    def _reduced(self, values: Tensor, operation: Any) -> Tensor:
        reduced = self._ready(values).clone()
        dist.all_reduce(reduced, op=operation, group=self.group)
        return reduced.to(values.device)

    def exchange(self, rows: Tensor, to_each: list[int], from_each: list[int]) -> Tensor:
        """Send each process its slice of `rows`, in order of rank, and return what came in."""
        sent = self._ready(rows)
        received = sent.new_empty(sum(from_each), *sent.shape[1:])
        dist.all_to_all_single(received, sent, from_each, to_each, group=self.group)
        return received.to(rows.device)

    def _ready(self, tensor: Tensor) -> Tensor:
        """Move a tensor to where the backend can exchange it: NCCL, for one, needs a GPU."""
        backends = dist.distributed_c10d.get_backend_config(self.group)
        kinds = [backend.partition(":")[0] for backend in backends.split(",")]
        device = tensor.device if tensor.device.type in kinds else torch.device(kinds[0])
        return tensor.to(device).contiguous()

    def __deepcopy__(self, memo: dict[int, Any]) -> Processes:
        return Processes(self.group)  # the copy exchanges with the same processes

    def __reduce__(self) -> tuple[Any, ...]:
        if self.group is not None:
            raise TypeError(
                "a DiscrimLoss with a process group of its own cannot be pickled: "
                "save its state_dict()"
            )
        return Processes, ()


def _require_agreement(name: str, values: list[int]) -> None:
    if len(set(values)) > 1:
        by_rank = ", ".join(f"{value} in process {rank}" for rank, value in enumerate(values))
        hint = {
            "epoch": "call set_epoch with the same epoch in all of them, and give each of them the "
            "same number of batches (drop_last=True, or a DistributedSampler)",
            "num_samples": "count the samples of the whole dataset, not of one process's share",
        }[name]
        raise ValueError(f"the processes disagree about {name} ({by_rank}): {hint}")


# ------------------------------------------------------------------------ shards


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
