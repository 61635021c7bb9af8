"""Checks of the losses and the sample indices of a batch, with errors that say what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

REFUSALS = (TypeError, ValueError, IndexError, KeyError)
"""Errors for an invalid batch, raised before anything changes."""


def kind_of(value: object) -> str:
    """Return the dtype of a tensor, or the type of another object, for error messages."""
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def check_losses(losses: Tensor) -> None:
    """Raise an error unless `losses` has one real number for each row of a batch."""
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
        "pass the mean of each sample, losses.flatten(1).mean(1), without padded or masked entries"
    )


def is_integer(values: Tensor) -> bool:
    """Return whether a tensor has integers. Booleans are not integers."""
    return not (values.dtype == torch.bool or values.is_floating_point() or values.is_complex())


def integer_tensor(index: Any) -> Tensor:
    """Convert sample indices to a tensor, or raise a `TypeError` if they are not integers."""
    if not isinstance(index, Tensor):
        first = index[0] if isinstance(index, (list, tuple, np.ndarray)) and len(index) else index
        if isinstance(first, str):
            raise TypeError(
                f"sample indices must be integers, not strings such as {first!r}: to use sample "
                "ids, build DiscrimLoss(ids=SampleIds(), epochs=…)"
            )
    if not is_integer(given := torch.as_tensor(index)):
        raise TypeError(f"sample indices must be integers, not {given.dtype}")
    return given


def as_sample_index(index: Any, losses: Tensor) -> Tensor:
    """Convert `index` to int64 and check that it has one integer for each loss."""
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

    Under `torch.compile`, the check is an operator, and all later operations depend on its output.
    So it runs before any state changes, without a graph break.
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
    """Return the first row with an integer outside 0 to ``size - 1``, or None.

    On a GPU, the device raises the error, which contains `name`, and the result is None.
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
