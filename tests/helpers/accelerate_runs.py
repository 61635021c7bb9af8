"""A small regression with Accelerate, for tests; as a program, started by torchrun.

Every process writes what it ended with to DIRECTORY/NAME-RANK.pt.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import DiscrimLoss, IndexedDataset

SAMPLES, EPOCHS = 45, 4  # an odd number: of two processes one visits a sample of the other again


def small_run(
    directory: Path,
    *,
    batch_size: int,
    accumulated: int = 1,
    prepared: str | None = None,
    resumed: bool = False,
) -> tuple[Accelerator, nn.Module, DiscrimLoss]:
    """Train; or go on from the middle, which an earlier run saved in the directory.

    Args:
        batch_size: of each process.
        accumulated: batches for each step of the optimizer.
        prepared: how the criterion is made known to Accelerate, if not for checkpoints alone.
        resumed: whether to go on from the saved state.
    """
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulated)
    x = torch.randn(SAMPLES, 3, generator=torch.Generator().manual_seed(0))
    y = x.sum(1)
    y[::5] += 4  # the wrong targets
    dataset = IndexedDataset(TensorDataset(x, y))
    torch.manual_seed(1)
    model: Any = nn.Linear(3, 1)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion: Any = DiscrimLoss(num_samples=dataset.num_samples, epochs=EPOCHS)
    loader: Any = DataLoader(dataset, batch_size=batch_size)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if prepared == "prepare":
        criterion = accelerator.prepare(criterion)
    else:
        accelerator.register_for_checkpointing(criterion)
    if resumed:
        accelerator.load_state(str(directory))
    for epoch in range(3 if resumed else 1, EPOCHS + 1):
        criterion.set_epoch(epoch)
        for inputs, target, index in loader:
            with accelerator.accumulate(model):
                losses = (model(inputs).squeeze(1) - target).square()
                accelerator.backward(criterion(losses, index))
                optimizer.step()
                optimizer.zero_grad()
        if epoch == 2:
            accelerator.save_state(str(directory))
    return accelerator, accelerator.unwrap_model(model), criterion


def main(directory: Path) -> None:
    runs: dict[str, dict[str, Any]] = {
        "whole": {},
        "resumed": {"resumed": True},  # from what `whole` saved
        "accumulated": {"accumulated": 2},
        "prepared": {"prepared": "prepare"},
        "prepared and resumed": {"prepared": "prepare", "resumed": True},
    }
    for name, settings in runs.items():
        state = directory / {"resumed": "whole", "prepared and resumed": "prepared"}.get(name, name)
        accelerator, model, criterion = small_run(state, batch_size=6, **settings)
        ended = {"model": model.state_dict(), "criterion": criterion.state_dict()}
        torch.save(ended, directory / f"{name}-{accelerator.process_index}.pt")
        accelerator.free_memory()
    accelerator.end_training()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
