"""The registry of models, and the description of the task that a model gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from discrimloss.registry import Registry

models: Registry[Callable[..., Any]] = Registry("model", "discrimloss.models")


@dataclass(frozen=True)
class TaskShape:
    """The shapes of a model's inputs and outputs.

    A registered model is a `torch.nn.Module` class, or a function that returns a module. It takes a
    `TaskShape`, and its keyword-only arguments are the keys of ``[model]`` in a recipe. The output
    of the module has shape (batch, outputs) for classification, (batch, choices) for multiple
    choice and (batch,) for regression. A text model has a method ``tokenize(texts)``, which turns
    the result of ``Inputs.rows`` into a dict of tensors.
    """

    input_shape: tuple[int, ...]
    num_classes: int | None
    """Number of classes or choices; None for regression."""
    target_mean: float = 0.0
    """Mean of the regression targets for training. 0 for classification."""
    target_spread: float = 1.0
    """Standard deviation of the regression targets for training. 1 for classification."""

    @property
    def num_outputs(self) -> int:
        """Number of model outputs per sample."""
        return 1 if self.num_classes is None else self.num_classes

    def unscaled(self) -> TaskShape:
        """Return the shape for a model whose raw output is the regression prediction."""
        return replace(self, target_mean=0.0, target_spread=1.0)
