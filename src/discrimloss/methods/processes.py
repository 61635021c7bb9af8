"""What the processes of one training run tell each other about a batch."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def process_count() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def share_buffers(module: nn.Module) -> None:
    """Give every process the buffers of the first, such as batch normalisation's running means."""
    if process_count() > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, src=0)


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, in their order. Every process must bring the same number."""
    if process_count() == 1:
        return rows
    gathered = [torch.empty_like(rows) for _ in range(process_count())]
    dist.all_gather(gathered, rows.contiguous())
    return torch.cat(gathered)


def gather_rows_with_gradient(rows: Tensor) -> Tensor:
    """As `gather_rows`; the own rows keep their gradient, those of the others have none."""
    if process_count() == 1:
        return rows
    gathered = gather_rows(rows.detach())
    start = dist.get_rank() * len(rows)
    return torch.cat([gathered[:start], rows, gathered[start + len(rows) :]])
