"""Reduces the losses of a batch to the value for `backward`."""

from __future__ import annotations

import torch
from torch import Tensor

from discrimloss import functional as F
from discrimloss.state.exchange import Batch


def with_gradient(
    reduction: F.Reduction, losses: Tensor, value: Tensor, slope: Tensor, batch: Batch
) -> Tensor:
    """Return the reduced value of the averaged losses, with the gradient of the new ones."""
    # Zero, or NaN where the loss is not finite, so that a gradient scaler notices.
    change = losses - losses.detach()
    if reduction == "none" or len(batch.sizes) > 1:
        return reduced(reduction, torch.addcmul(value, slope, change), batch)
    # The same result with fewer autograd nodes.
    if reduction == "sum":
        return value.sum() + torch.dot(slope, change)
    return value.mean() + torch.dot(slope / value.shape[0], change)


def reduced(reduction: F.Reduction, rows: Tensor, batch: Batch) -> Tensor:
    """Return the reduced loss of the rows of this process."""
    processes = len(batch.sizes)
    if processes == 1 or reduction == "none":
        return F.reduce(rows, reduction)
    # Gradients are averaged over the processes later, which divides by their number.
    divisor = len(batch.losses) if reduction == "mean" else 1
    return rows.sum() * (processes / divisor)
