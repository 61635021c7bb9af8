"""Every loss in two processes, each with half of every batch; launched by torchrun.

Each process writes losses, gradients and final state of every loss to DIRECTORY/NAME-RANK.pt.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from loss_contract import BATCH_SIZE, CLASSES, EPOCHS, NUM_SAMPLES, STEPS, build

from discrimloss.losses.base import loss_classes


def record(name: str, rank: int, processes: int) -> dict[str, Any]:
    """Logits that do not learn, so that both ways see the same ones."""
    generator = torch.Generator().manual_seed(0)
    logits = 2.0 * torch.randn(EPOCHS * STEPS, BATCH_SIZE, CLASSES, generator=generator)
    target = torch.randint(CLASSES, (NUM_SAMPLES,), generator=generator)
    torch.manual_seed(3)
    criterion = build(name)
    own = torch.arange(BATCH_SIZE).chunk(processes)[rank]
    losses, gradients = [], []
    for epoch in range(1, EPOCHS + 1):
        criterion.set_epoch(epoch)
        order = torch.randperm(NUM_SAMPLES, generator=torch.Generator().manual_seed(epoch))
        for step in range(STEPS):
            index = order[step * BATCH_SIZE : (step + 1) * BATCH_SIZE][own]
            rows = logits[(epoch - 1) * STEPS + step][own].clone().requires_grad_()
            loss = criterion(rows, target[index], index)
            loss.backward()
            losses.append(loss.detach())
            gradients.append(rows.grad)
    return {
        "losses": torch.stack(losses),
        "gradients": torch.stack(gradients),  # type: ignore[arg-type]
        "state": criterion.state_dict(),
    }


def main(directory: Path) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for name in loss_classes.names():
        torch.save(record(name, rank, 2), directory / f"{name}-{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
