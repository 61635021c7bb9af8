"""Unreduced task losses: one value per sample."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from discrimloss.losses.base import TaskLoss, cross_entropy
from discrimloss.options import OptionError


def mse(output: Tensor, target: Tensor) -> Tensor:
    """Return squared errors, shape (batch,)."""
    return F.mse_loss(output, target, reduction="none")


def smooth_l1(output: Tensor, target: Tensor) -> Tensor:
    """Return errors, squared below 1 and absolute above, shape (batch,)."""
    return F.smooth_l1_loss(output, target, reduction="none")


_LOSSES: dict[str, TaskLoss] = {
    "cross_entropy": cross_entropy,
    "mse": mse,
    "smooth_l1": smooth_l1,
}


def task_losses(name: str, is_regression: bool) -> TaskLoss:
    """Return the loss of this name, or raise an error if it does not fit the task."""
    if is_regression == (name == "cross_entropy"):
        valid = "mse, smooth_l1" if is_regression else "cross_entropy"
        task = "a regression" if is_regression else "a classification"
        raise OptionError(f"loss = {name!r} does not fit {task}: valid are {valid}")
    return _LOSSES[name]
