"""A small task in which every generator matters: augmented inputs, a network with dropout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discrimloss.data.base import Split, TaskData, TensorInputs, datasets
from discrimloss.models.base import TaskShape, models
from discrimloss.recipes import load_recipe
from discrimloss.training.config import RunConfig

TRAIN, TEST, FEATURES, CLASSES = 150, 40, 6, 4
BATCH_SIZE, STEPS = 32, 5  # the last batch of a pass holds 22
SETTINGS = (
    "data.name=lively",
    "model.name=dropout_net",
    "epochs=3",
    f"batch_size={BATCH_SIZE}",
    "tensorboard=false",
)


def with_jitter(inputs: Tensor, generator: torch.Generator | None) -> Tensor:
    """Augmentation: every sample is moved a little, by the generator that is passed in."""
    if generator is None:
        return inputs
    return inputs + 0.3 * torch.randn(inputs.shape, generator=generator)


def load_lively(directory: Path) -> TaskData:
    """Four clouds of points."""
    generator = torch.Generator().manual_seed(0)
    centres = 1.5 * torch.randn(CLASSES, FEATURES, generator=generator)
    target = torch.randint(CLASSES, (TRAIN + TEST,), generator=generator)
    points = centres[target] + torch.randn(len(target), FEATURES, generator=generator)
    everything = Split(TensorInputs(points), target)
    rows = torch.arange(len(target))
    return TaskData(
        train=everything.select(rows[:TRAIN]),
        test=everything.select(rows[TRAIN:]),
        num_classes=CLASSES,
        prepare=with_jitter,
        input_shape=(FEATURES,),
    )


def load_numbers(directory: Path) -> TaskData:
    """A regression: the sum of the features."""
    points = torch.randn(TRAIN + TEST, FEATURES, generator=torch.Generator().manual_seed(0))
    everything = Split(TensorInputs(points), points.sum(1))
    rows = torch.arange(len(points))
    return TaskData(
        train=everything.select(rows[:TRAIN]),
        test=everything.select(rows[TRAIN:]),
        num_classes=None,
        input_shape=(FEATURES,),
    )


class DropoutNet(nn.Module):
    """Dropout draws from the global generator, batch normalisation has state of its own."""

    def __init__(self, shape: TaskShape, *, hidden: int = 16) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(shape.input_shape[0], hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(hidden, shape.num_outputs),
        )

    def forward(self, features: Tensor) -> Tensor:
        output: Tensor = self.network(features)
        return output


ENTRIES: tuple[tuple[Any, str, Any], ...] = (
    (datasets, "lively", load_lively),
    (datasets, "lively_numbers", load_numbers),
    (models, "dropout_net", DropoutNet),
)


@contextmanager
def registered() -> Iterator[None]:
    """The entries are known by name while the block runs."""
    for registry, name, entry in ENTRIES:
        registry.register(name)(entry)
    try:
        yield
    finally:
        for registry, name, _ in ENTRIES:
            del registry.registered[name]


def lively_config(*settings: str) -> RunConfig:
    """A short run on this task; `settings` come on top. Only while `registered`."""
    return load_recipe("digits", [*SETTINGS, *settings])
