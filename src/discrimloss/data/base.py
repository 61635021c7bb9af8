"""Datasets: inputs read a batch at a time, targets, and the preparation of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from discrimloss.errors import DiscrimLossError
from discrimloss.registry import Registry


class DataError(DiscrimLossError):
    """Data that is missing or cannot be read."""


datasets: Registry[Callable[..., Any]] = Registry("dataset", "discrimloss.data")
"""Functions that read a dataset from a data directory and return a `TaskData`. Their keyword-only
arguments are the keys of ``[data]`` in a recipe."""


class Inputs(Protocol):
    """The inputs of many samples, read a batch at a time."""

    @property
    def in_memory(self) -> bool:
        """Whether `rows` is fast. If it is not, worker processes call it."""
        ...

    def __len__(self) -> int: ...

    def rows(self, index: Tensor) -> Any:
        """Return the inputs of some samples on the CPU: a tensor, a dict of tensors, or texts."""
        ...

    def select(self, index: Tensor) -> Inputs:
        """Return only these samples, in this order."""
        ...


@dataclass(frozen=True)
class TensorInputs:
    """Inputs that are one tensor in memory: features, tokens, images as uint8."""

    tensor: Tensor
    in_memory: bool = True

    def __len__(self) -> int:
        return len(self.tensor)

    def rows(self, index: Tensor) -> Tensor:
        """Return the inputs of some samples, shape (len(index), ...)."""
        return self.tensor.index_select(0, index)

    def select(self, index: Tensor) -> TensorInputs:
        """Return only these samples, in this order."""
        return TensorInputs(self.tensor[index])


@dataclass(frozen=True)
class Split:
    """The samples of one split: training, validation or test."""

    inputs: Inputs
    target: Tensor
    """Shape (samples,): int64 classes, or float32 regression targets."""

    def __len__(self) -> int:
        return len(self.target)

    def select(self, index: Tensor) -> Split:
        """Return only these samples, in this order."""
        return Split(self.inputs.select(index), self.target[index])


class Prepare(Protocol):
    """Prepares a batch for the model, on the training device.

    With a generator, the batch is for training, and each sample is augmented independently. Without
    a generator, the batch is for evaluation and is not augmented.
    """

    def __call__(self, inputs: Any, generator: torch.Generator | None) -> Any:
        """Return the inputs in the form that the model takes."""
        ...


def unprepared(inputs: Any, generator: torch.Generator | None) -> Any:
    """Return the inputs unchanged, for models that need no preparation."""
    return inputs


@dataclass(frozen=True)
class TaskData:
    """A dataset: its splits, and properties for models and reports."""

    train: Split
    test: Split | None
    num_classes: int | None
    """Number of classes or choices; None for regression."""
    validation: Split | None = None
    prepare: Prepare = unprepared
    input_shape: tuple[int, ...] = ()
    """Shape of one prepared sample: (features,) or (channels, height, width). Empty for text."""
    class_names: tuple[str, ...] = ()
    picture_shape: tuple[int, int] | None = None
    """Height and width of the image, if the features are its pixels, from 0 to 1. Else None."""
    difficulty: Tensor | None = None
    """Shape (train,): known difficulty of each training sample, such as a sequence's length."""
    human_labels: Callable[[str], Tensor] | None = None
    """Training labels from human annotators, by name, e.g. CIFAR-10N's ``"worse"``."""
    train_labels_are_clean: bool = True
    """Whether the published training labels count as clean."""
    chosen: Tensor | None = None
    """Shape (train,): positions of the samples in the published dataset; None for all."""
    notes: tuple[str, ...] = field(default=())
    """Sentences for the user, for example about files that were skipped."""

    @property
    def is_regression(self) -> bool:
        """Whether the task is regression."""
        return self.num_classes is None

    def limited(self, train_size: int | None, generator: torch.Generator) -> TaskData:
        """Return the task with a random subset of the training samples."""
        if train_size is None or train_size >= len(self.train):
            return self
        drawn = torch.randperm(len(self.train), generator=generator)[:train_size]
        return self.with_training_rows(drawn.sort().values)

    def with_training_rows(self, rows: Tensor) -> TaskData:
        """Return the task with only these training samples, in this order."""
        human = self.human_labels
        return replace(
            self,
            train=self.train.select(rows),
            chosen=rows if self.chosen is None else self.chosen[rows],
            difficulty=None if self.difficulty is None else self.difficulty[rows],
            human_labels=None if human is None else lambda name: human(name)[rows],
        )
