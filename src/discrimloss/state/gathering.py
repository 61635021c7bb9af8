"""Gathers the rows of a batch that is distributed over the processes of a training run."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from discrimloss.state.processes import Processes, process_count


def share_buffers(module: nn.Module) -> None:
    """Copy the buffers of the first process to all others, such as batch norm's running means."""
    if process_count() > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, src=0)


def gather_rows(rows: Tensor) -> Tensor:
    """Concatenate the rows of all processes in order of rank. All must have equally many rows."""
    return rows if process_count() == 1 else Processes().all_gather(rows).flatten(0, 1)


def own_rows(everyones: Tensor) -> Tensor:
    """Return this process's rows of the result of `gather_rows`."""
    if process_count() == 1:
        return everyones
    return everyones.chunk(process_count())[dist.get_rank()]


def weighted_mean(losses: Tensor, everyones_weights: Tensor) -> Tensor:
    """Return this process's term of ``sum(weights * losses) / sum(weights)`` over the whole batch.

    The terms are scaled so that their mean over the processes is the weighted mean, because
    gradients are averaged over processes later. Without positive weights, the result and its
    gradient are 0.

    Args:
        losses: Losses of this process, shape (batch,).
        everyones_weights: Weights of all processes, shape (processes * batch,), detached.
    """
    total = everyones_weights.sum()
    total = torch.where(total > 0, total, torch.ones_like(total))
    return (own_rows(everyones_weights) * losses).sum() / total * process_count()


def weights_of_mean(everyones_weights: Tensor) -> Tensor:
    """Scale weights to a mean of 1 over the whole batch, and return those of this process.

    The batch mean of weight times loss is then the weighted mean. With weights of 0 and 1, it is
    the mean over the selected rows. Without positive weights, all are 0.

    >>> weights_of_mean(torch.tensor([1.0, 0.0, 1.0, 0.0]))
    tensor([2., 0., 2., 0.])
    """
    total = everyones_weights.sum()
    scale = len(everyones_weights) / torch.where(total > 0, total, torch.ones_like(total))
    return own_rows(everyones_weights * scale)
