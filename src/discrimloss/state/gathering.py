"""What the processes of one training run tell each other about a batch."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from discrimloss.state.exchange import Processes, process_count


def share_buffers(module: nn.Module) -> None:
    """Give every process the buffers of the first, such as batch normalisation's running means."""
    if process_count() > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, src=0)


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, in their order. Every process must bring the same number."""
    return rows if process_count() == 1 else Processes().all_gather(rows).flatten(0, 1)


def own_rows(everyones: Tensor) -> Tensor:
    """This process's rows of what `gather_rows` gathered."""
    if process_count() == 1:
        return everyones
    return everyones.chunk(process_count())[dist.get_rank()]


def weighted_mean(losses: Tensor, everyones_weights: Tensor) -> Tensor:
    """This process's part of ``sum(weights * losses) / sum(weights)`` over the whole batch.

    The parts are scaled so that the mean over the processes, which is what becomes of their
    gradients, is the whole. It is 0, with a gradient of 0, if no weight is above 0.

    Args:
        losses: shape (batch,), of this process.
        everyones_weights: shape (processes * batch,), detached: equal in all processes.
    """
    total = everyones_weights.sum()
    total = torch.where(total > 0, total, torch.ones_like(total))
    return (own_rows(everyones_weights) * losses).sum() / total * process_count()
