"""The batches of an epoch: their samples, their order, and their division among processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from discrimloss.data.base import DataError, Split
from discrimloss.training.methods.base import Batch

OrderOfPass = Callable[[int], Tensor]
"""A function of the number of a pass over the data, from 1. It returns the sample indices in the
order of visits."""


def epoch_batches(
    order_of_pass: OrderOfPass, epoch: int, batch_size: int, steps_per_epoch: int | None
) -> list[Tensor]:
    """Return the sample indices of each batch of an epoch.

    An epoch is a pass over the data, or `steps_per_epoch` steps through consecutive passes. A
    single last sample joins the batch before it, because batch normalisation needs two.
    """
    if steps_per_epoch is None:
        batches = list(torch.split(order_of_pass(epoch), batch_size))
        if batch_size > 1 and len(batches) > 1 and len(batches[-1]) == 1:
            batches[-2:] = [torch.cat(batches[-2:])]
        return batches
    start = (epoch - 1) * steps_per_epoch * batch_size
    samples = _stretch_of_passes(order_of_pass, start, steps_per_epoch * batch_size)
    return list(torch.split(samples, batch_size))


@dataclass(frozen=True)
class PassParts:
    """Divides passes over the data into epochs of at most `steps_per_epoch` steps.

    Each pass begins a new epoch, so the last epoch of a pass may be shorter.

    Args:
        num_samples: number of samples of a pass.
        batch_size: number of samples of a step.
        steps_per_epoch: number of steps of an epoch that does not end a pass.
    """

    num_samples: int
    batch_size: int
    steps_per_epoch: int

    @property
    def steps_per_pass(self) -> int:
        """Number of batches of a pass. The last may have one sample more."""
        return max(1, math.ceil((self.num_samples - (self.batch_size > 1)) / self.batch_size))

    @property
    def epochs_per_pass(self) -> int:
        """Number of epochs of a pass."""
        return math.ceil(self.steps_per_pass / self.steps_per_epoch)

    def batches(self, order_of_pass: OrderOfPass, epoch: int) -> list[Tensor]:
        """Return the sample indices of each batch of an epoch."""
        number, part = divmod(epoch - 1, self.epochs_per_pass)
        batches = epoch_batches(order_of_pass, number + 1, self.batch_size, None)
        start = part * self.steps_per_epoch
        return batches[start : start + self.steps_per_epoch]

    def passed(self, epoch: int, step: int) -> float:
        """Return the number of passed epochs after a step of an epoch. It may be fractional.

        All steps of a pass count equally.
        """
        number, part = divmod(epoch - 1, self.epochs_per_pass)
        steps = part * self.steps_per_epoch + step
        return (number + steps / self.steps_per_pass) * self.epochs_per_pass


def _stretch_of_passes(order_of_pass: OrderOfPass, start: int, length: int) -> Tensor:
    """Return samples `start` to ``start + length`` of the concatenated passes."""
    number = 1
    order = order_of_pass(number)
    while start >= len(order):
        start -= len(order)
        number += 1
        order = order_of_pass(number)
    pieces = [order[start : start + length]]
    while sum(map(len, pieces)) < length:
        number += 1
        pieces.append(order_of_pass(number)[: length - sum(map(len, pieces))])
    return torch.cat(pieces)


def own_slice(batches: Sequence[Tensor], rank: int, num_processes: int) -> list[Tensor]:
    """Return the batches of one of several processes: an equal slice of every batch.

    If a batch cannot be divided equally, up to ``num_processes - 1`` samples at its end are left
    out. In the next epoch, other samples are left out.
    """
    if num_processes == 1:
        return list(batches)
    sizes = [len(batch) // num_processes for batch in batches]
    return [
        batch[rank * size : (rank + 1) * size]
        for batch, size in zip(batches, sizes, strict=True)
        if size > 0
    ]


class _Rows(Dataset[Any]):
    """Passes whole batches to a `DataLoader`."""

    def __init__(self, split: Split, tokenize: Callable[[Any], Any] | None) -> None:
        self.split = split
        self.tokenize = tokenize

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, index: Tensor) -> tuple[Any, Tensor, Tensor]:
        inputs = self.split.inputs.rows(index)
        if self.tokenize is not None:
            inputs = self.tokenize(inputs)
        return inputs, self.split.target[index], index


def _as_it_is(rows: Any) -> Any:
    return rows


def load_batches(
    split: Split,
    batches: Sequence[Tensor],
    device: torch.device,
    tokenize: Callable[[Any], Any] | None = None,
    workers: int = 0,
) -> Iterator[Batch]:
    """Read batches, in worker processes if reading is slow, and copy them to the device."""
    workers = 0 if split.inputs.in_memory else workers
    loader: DataLoader[Any] = DataLoader(
        _Rows(split, tokenize),
        batch_sampler=batches,  # type: ignore[arg-type] # tensors of indices serve as well as lists
        collate_fn=_as_it_is,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        generator=torch.Generator(),  # the default would draw from the model's generator
    )
    try:
        for inputs, target, index in loader:
            yield Batch(*(_to_device(rows, device) for rows in (inputs, target, index)))
    except DataError as error:  # a worker wraps it in its traceback
        last_line = str(error).strip().splitlines()[-1]
        raise DataError(last_line.rpartition("DataError: ")[-1]) from error


def _to_device(inputs: Any, device: torch.device) -> Any:
    if isinstance(inputs, dict):
        return {name: tensor.to(device, non_blocking=True) for name, tensor in inputs.items()}
    return inputs.to(device, non_blocking=True)
