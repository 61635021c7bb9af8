"""Unreduced task losses: one value per sample."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from discrimloss.options import OptionError

TaskLosses = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Shape (batch,), of `output` (batch, classes) and `target` (batch,)."""
    return F.cross_entropy(output, target, reduction="none")


def mse(output: Tensor, target: Tensor) -> Tensor:
    """Squared errors, shape (batch,)."""
    return F.mse_loss(output, target, reduction="none")


def smooth_l1(output: Tensor, target: Tensor) -> Tensor:
    """Squared where the error is below 1, absolute above; shape (batch,)."""
    return F.smooth_l1_loss(output, target, reduction="none")


_LOSSES: dict[str, TaskLosses] = {
    "cross_entropy": cross_entropy,
    "mse": mse,
    "smooth_l1": smooth_l1,
}


def task_losses(name: str, is_regression: bool) -> TaskLosses:
    """The loss of this name, if it fits the task."""
    if is_regression == (name == "cross_entropy"):
        valid = "mse, smooth_l1" if is_regression else "cross_entropy"
        task = "a regression" if is_regression else "a classification"
        raise OptionError(f"loss = {name!r} does not fit {task}: valid are {valid}")
    return _LOSSES[name]
