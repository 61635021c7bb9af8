"""What the processes of one training run tell each other: one small exchange in a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

HEADER_ROWS = 2
INT32 = torch.iinfo(torch.int32)


def process_count(group: Any = None) -> int:
    """How many processes train together; 1 unless `torch.distributed` is initialised."""
    if not (dist.is_available() and dist.is_initialized()):
        return 1
    return dist.get_world_size(group)


@dataclass(frozen=True)
class Gathered:
    """The batch of all processes together, in the order of their ranks."""

    losses: Tensor
    """Shape (rows,), float32, detached."""
    index: Tensor
    """Shape (rows,), int64."""
    numbers: list[int]
    """How many rows each process brought."""
    own: slice
    """Which rows are those of this process."""


class Processes:
    """The processes that share one table of samples.

    Args:
        group: those of a process group of `torch.distributed`; all of them unless given.
    """

    def __init__(self, group: Any = None) -> None:
        if group is not None and process_count(group) < 1:
            raise ValueError("this process is not a member of the process group it was given")
        self.group = group
        self._capacity = 0  # rows that an exchange has room for, the same in all processes

    @property
    def count(self) -> int:
        """How many there are."""
        return process_count(self.group)

    @property
    def rank(self) -> int:
        """Which of them this one is, from 0."""
        return dist.get_rank(self.group) if self.count > 1 else 0

    def gather_batch(
        self, losses: Tensor, index: Tensor, epoch: int, num_samples: int, fingerprint: int
    ) -> Gathered:
        """Every process's losses and indices, in one collective; each may bring another number.

        A batch larger than any before takes a second one, which makes room for it. What every
        process must agree on travels along.

        Raises:
            ValueError: in all processes, if they are not in the same epoch, do not count the same
                samples or differ in `fingerprint`, 32 bits of whatever else must be equal.
        """
        if torch.compiler.is_compiling():  # what follows depends on what the others bring
            torch._dynamo.graph_break()
        # An index that fits no table stays one when it is cut down to 32 bits.
        small_index = index.to(losses.device).clamp(INT32.min, INT32.max).int()
        rows = torch.stack([small_index, losses.float().contiguous().view(torch.int32)], dim=1)
        header = torch.tensor([[len(rows), epoch], [num_samples, fingerprint]], dtype=torch.int64)
        header = header.int().to(rows.device)
        while True:
            padding = rows.new_zeros(max(self._capacity - len(rows), 0), 2)
            received = self.all_gather(torch.cat([header, rows[: self._capacity], padding]))
            headers = received[:, :HEADER_ROWS].cpu()
            numbers = headers[:, 0, 0].tolist()
            if max(numbers) <= self._capacity:
                break
            self._capacity = max(numbers)
        _require_agreement("epoch", headers[:, 0, 1].tolist())
        _require_agreement("num_samples", headers[:, 1, 0].tolist())
        if len(set(headers[:, 1, 1].tolist())) > 1:
            raise ValueError(
                "the processes' criteria differ: give the same options and the same ids, in the "
                "same order, and load the same state in all of them"
            )
        everyones = torch.cat(
            [
                part[HEADER_ROWS : HEADER_ROWS + number]
                for part, number in zip(received, numbers, strict=True)
            ]
        )
        start = sum(numbers[: self.rank])
        return Gathered(
            losses=everyones[:, 1].contiguous().view(torch.float32),
            index=everyones[:, 0].long(),
            numbers=numbers,
            own=slice(start, start + len(rows)),
        )

    def all_gather(self, part: Tensor) -> Tensor:
        """Stacked parts of all processes, shape (processes, ...); all bring the same shape."""
        sent = self._ready(part)
        received = sent.new_empty(self.count, *sent.shape)
        # As bytes: backends do not know every dtype.
        into = [each.view(torch.uint8) for each in received.unbind(0)]
        dist.all_gather(into, sent.view(torch.uint8), group=self.group)
        return received.to(part.device)

    def all_gather_objects(self, thing: Any) -> list[Any]:
        """What each process brings, pickled: for rare and irregular things such as names."""
        things: list[Any] = [None] * self.count
        dist.all_gather_object(things, thing, group=self.group)
        return things

    def total(self, values: Tensor) -> Tensor:
        """Sum over the processes."""
        if self.count == 1:
            return values
        summed = self._ready(values).clone()
        dist.all_reduce(summed, group=self.group)
        return summed.to(values.device)

    def largest(self, values: Tensor) -> Tensor:
        """Maximum over the processes."""
        if self.count == 1:
            return values
        largest = self._ready(values).clone()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.group)
        return largest.to(values.device)

    def exchange(self, rows: Tensor, to_each: list[int], from_each: list[int]) -> Tensor:
        """Send each process its part of `rows`, in order of rank; gives back what came in."""
        sent = self._ready(rows)
        received = sent.new_empty(sum(from_each), *sent.shape[1:])
        dist.all_to_all_single(received, sent, from_each, to_each, group=self.group)
        return received.to(rows.device)

    def _ready(self, tensor: Tensor) -> Tensor:
        """The tensor where the backend can exchange it: NCCL, for one, needs a GPU."""
        backends = dist.distributed_c10d.get_backend_config(self.group)
        kinds = [backend.partition(":")[0] for backend in backends.split(",")]
        device = tensor.device if tensor.device.type in kinds else torch.device(kinds[0])
        return tensor.to(device).contiguous()

    def __deepcopy__(self, memo: dict[int, Any]) -> Processes:
        return Processes(self.group)  # the copy's partners are those of the original

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
            "epoch": "call set_epoch with the same epoch in all of them",
            "num_samples": "count the samples of the whole dataset, not of one process's share",
        }[name]
        raise ValueError(f"the processes disagree about {name} ({by_rank}): {hint}")
