"""The processes that train together, and their exchange of data.

A single process exchanges nothing. Several processes gather their batches in one small collective
per step, so that all have the same state.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

HEADER_WORDS = 5
REFUSED = -1
"""Sent instead of the number of rows if this process raises an error."""
INT32 = torch.iinfo(torch.int32)


def process_count(group: Any = None) -> int:
    """Return the number of processes: 1 unless `torch.distributed` is initialised."""
    if not (dist.is_available() and dist.is_initialized()):
        return 1
    return dist.get_world_size(group)


class Processes:
    """The processes that share one table of samples, and their collectives.

    Args:
        group: a process group of `torch.distributed`. By default all processes.
    """

    def __init__(self, group: Any = None) -> None:
        if group is not None and process_count(group) < 1:
            raise ValueError("this process is not a member of the process group it was given")
        self.group = group
        self._capacity = 0  # number of words per exchange, equal in all processes

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
        """Gather the losses and indices of all processes in one collective.

        Processes may have different numbers of rows. A batch that is larger than any before needs a
        second collective, which increases the buffers.

        Args:
            losses: shape (batch,), of this process.
            index: shape (batch,), of this process.
            epoch: the epoch. It and the next two arguments must be equal in all processes.
            num_samples: size of the whole table.
            fingerprint: 32-bit checksum of everything else that must be equal.
            extra: shape (batch, words), int32: further data of each row.

        Returns:
            The losses, the indices, `extra`, and the number of rows of each process.

        Raises:
            ValueError: in all processes, if they disagree.
        """
        if torch.compiler.is_compiling():  # the rest depends on the data of other processes
            torch._dynamo.graph_break()
        # An invalid index remains invalid when it is clamped to 32 bits.
        small_index = index.to(losses.device).clamp(INT32.min, INT32.max).int()
        rows = torch.stack([small_index, losses.float().contiguous().view(torch.int32)], dim=1)
        if extra is not None:
            rows = torch.cat([rows, extra.to(rows.device)], dim=1)
        # A flat array of words instead of rows, so that processes with different numbers of words
        # per row can still exchange data and report the error.
        words, width = rows.flatten(), rows.shape[1]
        numbers = [len(rows), width, epoch, num_samples, fingerprint]
        header = torch.tensor(numbers, dtype=torch.int64).int().to(rows.device)
        while True:
            padding = words.new_zeros(max(self._capacity - len(words), 0))
            received = self._gather_step(torch.cat([header, words[: self._capacity], padding]))
            headers = received[:, :HEADER_WORDS].cpu()
            sizes, widths, epochs, samples, fingerprints = headers.T.tolist()
            if REFUSED in sizes:
                raise ValueError(
                    f"process {sizes.index(REFUSED)} of {self.count} had a batch that it "
                    "refused: see its error; no process has learned from this step"
                )
            needed = max(size * each for size, each in zip(sizes, widths, strict=True))
            if needed <= self._capacity:
                break
            self._capacity = needed
        _require_agreement("epoch", epochs)
        _require_agreement("num_samples", samples)
        if len(set(fingerprints)) > 1:
            raise ValueError(
                "the processes' criteria differ: use the same options and the same ids, in the "
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

    def refuse_batch(self) -> None:
        """Join the collective of a step without a batch, so that other processes raise too."""
        words = torch.zeros(HEADER_WORDS + self._capacity, dtype=torch.int32)
        words[0] = REFUSED
        with suppress(RuntimeError):  # the error of the batch is more important
            self._gather_step(words)

    def _gather_step(self, words: Tensor) -> Tensor:
        """Gather the words of all processes, or raise an error with the likely cause."""
        try:
            return self.all_gather(words)
        except RuntimeError as error:  # a timeout, a closed connection, another collective
            raise RuntimeError(
                f"process {self.rank} called the criterion and some of the {self.count} processes "
                "did not in the same step: call it in all processes, not only in the first, and "
                "give each of them the same number of batches (drop_last=True, or a "
                f"DistributedSampler); the backend reports: {error}"
            ) from error

    def all_gather(self, values: Tensor) -> Tensor:
        """Stack the tensors of all processes, which must have the same shape, along dimension 0."""
        sent = self._ready(values)
        received = sent.new_empty(self.count, *sent.shape)
        # As bytes, because backends do not support every dtype.
        into = [each.view(torch.uint8) for each in received.unbind(0)]
        dist.all_gather(into, sent.view(torch.uint8), group=self.group)
        return received.to(values.device)

    def all_gather_objects(self, thing: Any) -> list[Any]:
        """Gather a pickled object of each process, for rare and irregular data such as ids."""
        things: list[Any] = [None] * self.count
        dist.all_gather_object(things, thing, group=self.group)
        return things

    def total(self, values: Tensor) -> Tensor:
        """Return the sum over the processes."""
        return self._reduced(values, dist.ReduceOp.SUM) if self.count > 1 else values

    def largest(self, values: Tensor) -> Tensor:
        """Return the maximum over the processes."""
        return self._reduced(values, dist.ReduceOp.MAX) if self.count > 1 else values

    def _reduced(self, values: Tensor, operation: Any) -> Tensor:
        reduced = self._ready(values).clone()
        dist.all_reduce(reduced, op=operation, group=self.group)
        return reduced.to(values.device)

    def exchange(self, rows: Tensor, to_each: list[int], from_each: list[int]) -> Tensor:
        """Send each process its slice of `rows` by rank, and return the received slices."""
        sent = self._ready(rows)
        received = sent.new_empty(sum(from_each), *sent.shape[1:])
        dist.all_to_all_single(received, sent, from_each, to_each, group=self.group)
        return received.to(rows.device)

    def _ready(self, tensor: Tensor) -> Tensor:
        """Move a tensor to a device that the backend supports. NCCL, for example, needs a GPU."""
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
            "num_samples": "pass the number of samples of the whole dataset, not of one process",
        }[name]
        raise ValueError(f"the processes disagree about {name} ({by_rank}): {hint}")
