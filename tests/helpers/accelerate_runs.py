"""A small regression, or classes, with Accelerate, for tests; as a program, started by torchrun.

Every process writes what it ended with to DIRECTORY/NAME-RANK.pt.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from discrimloss import DiscrimLoss, IndexedDataset

SAMPLES, EPOCHS = 45, 4  # an odd number: of two processes one visits a sample of the other again
MANY, LONG = 405, 8  # enough for some samples to be held out


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


def class_run(
    directory: Path, *, batch_size: int, prepared: bool = False, resumed: bool = False
) -> tuple[Accelerator, nn.Module, DiscrimLoss]:
    """The same with classes; the criterion is given targets and logits."""
    accelerator = Accelerator(cpu=True)
    x = torch.randn(MANY, 3, generator=torch.Generator().manual_seed(0))
    y = x.argmax(1)
    y[::5] = (y[::5] + 1) % 3  # the wrong labels
    dataset = IndexedDataset(TensorDataset(x, y))
    torch.manual_seed(1)
    model: Any = nn.Linear(3, 3)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    criterion: Any = DiscrimLoss(dataset.num_samples, LONG, num_classes=3)
    loader: Any = DataLoader(dataset, batch_size=batch_size)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if prepared:
        criterion = accelerator.prepare(criterion)
    else:
        accelerator.register_for_checkpointing(criterion)
    if resumed:
        accelerator.load_state(str(directory))
    for epoch in range(3 if resumed else 1, LONG + 1):
        criterion.set_epoch(epoch)
        for inputs, target, index in loader:
            logits = model(inputs)
            losses = cross_entropy(logits, target, reduction="none")
            accelerator.backward(criterion(losses, index, target=target, logits=logits))
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
        finish(directory, name, *small_run(state, batch_size=6, **settings))
    for prepared in (False, True):
        for resumed in (False, True):
            name, state = class_run_name(prepared, resumed), directory / f"classes {prepared}"
            settings = {"prepared": prepared, "resumed": resumed}
            finish(directory, name, *class_run(state, batch_size=30, **settings))
    Accelerator(cpu=True).end_training()


def class_run_name(prepared: bool, resumed: bool) -> str:
    return f"classes{', prepared' * prepared}{', resumed' * resumed}"


def finish(
    directory: Path, name: str, accelerator: Accelerator, model: nn.Module, criterion: DiscrimLoss
) -> None:
    ended = {"model": model.state_dict(), "criterion": criterion.state_dict()}
    torch.save(ended, directory / f"{name}-{accelerator.process_index}.pt")
    accelerator.free_memory()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
