"""Small models in Lightning, for tests; as a program, in two processes.

Every process writes what it ended with to DIRECTORY/RANK.pt, and of the run with classes to
DIRECTORY/classes-RANK.pt.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from discrimloss import IndexedDataset
from discrimloss.integrations.lightning import DiscrimLossCallback, weighted_loss

SAMPLES, EPOCHS = 44, 4  # an odd number of batches, the last one shorter
MANY = 360  # enough for some of them to be held out


def small_dataset() -> IndexedDataset:
    x = torch.randn(SAMPLES, 3, generator=torch.Generator().manual_seed(0))
    y = x.sum(1)
    y[::5] += 4  # the wrong targets
    return IndexedDataset(TensorDataset(x, y))


class SmallModel(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(3, 1)

    def losses(self, batch: list[Tensor]) -> Tensor:
        x, y, _ = batch
        return (self.layer(x).squeeze(1) - y).square()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return weighted_loss(self, self.losses(batch), batch[-1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


class PredictingModel(SmallModel):
    """Gives the criterion targets and predictions, too."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y, index = batch
        predictions = self.layer(x).squeeze(1)
        losses = (predictions - y).square()
        return weighted_loss(self, losses, index, target=y, predictions=predictions)


def class_dataset(number: int = SAMPLES) -> IndexedDataset:
    x = torch.randn(number, 3, generator=torch.Generator().manual_seed(0))
    y = x.argmax(1)
    y[::5] = (y[::5] + 1) % 3  # the wrong labels
    return IndexedDataset(TensorDataset(x, y))


class ClassModel(lightning.LightningModule):
    """Gives the criterion targets and, unless told otherwise, logits."""

    def __init__(self, with_logits: bool = True) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(3, 3)
        self.with_logits = with_logits

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y, index = batch
        logits = self.layer(x)
        losses = cross_entropy(logits, y, reduction="none")
        more = {"logits": logits} if self.with_logits else {}
        return weighted_loss(self, losses, index, target=y, **more)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


class ValidatedModel(SmallModel):
    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        loss = weighted_loss(self, self.losses(batch), batch[-1])
        self.log("valid_loss", loss, batch_size=len(batch[0]), sync_dist=True)


def small_loader(batch_size: int = 12) -> DataLoader[Any]:
    return DataLoader(small_dataset(), batch_size=batch_size)


def quiet_trainer(*callbacks: lightning.Callback, **settings: Any) -> lightning.Trainer:
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    defaults = {"max_epochs": EPOCHS, "accelerator": "cpu", "enable_checkpointing": False}
    return lightning.Trainer(callbacks=list(callbacks), **{**quiet, **defaults, **settings})


def half(dataset: IndexedDataset, batch_size: int) -> DataLoader[Any]:
    # Lightning would shuffle. This gives each process every other sample, in order; Lightning
    # starts the second one, and tells it so.
    rank = int(os.environ.get("LOCAL_RANK", 0))
    sampler = DistributedSampler(dataset, num_replicas=2, rank=rank, shuffle=False)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)


def main(directory: Path) -> None:
    callback, model = DiscrimLossCallback(log_every=3), ValidatedModel()
    trainer = quiet_trainer(callback, strategy="ddp", devices=2)
    trainer.fit(model, half(small_dataset(), 6), small_loader(batch_size=6))
    ended = {
        "criterion": callback.criterion.state_dict(),
        "model": model.state_dict(),
        "logged": dict(trainer.logged_metrics),
    }
    torch.save(ended, directory / f"{trainer.global_rank}.pt")

    callback, classes = DiscrimLossCallback(log_every=0), ClassModel()
    trainer = quiet_trainer(callback, max_epochs=8, strategy="ddp", devices=2)
    trainer.fit(classes, half(class_dataset(MANY), 30))
    ended = {"criterion": callback.criterion.state_dict(), "model": classes.state_dict()}
    torch.save(ended, directory / f"classes-{trainer.global_rank}.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
