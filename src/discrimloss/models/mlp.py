"""A multilayer perceptron with one hidden layer."""

from __future__ import annotations

import math

from torch import Tensor, nn

from discrimloss.models.base import TaskShape, models
from discrimloss.models.layers import TaskOutput


@models.register("mlp")
class MLP(nn.Module):
    """A multilayer perceptron with one hidden layer, for features or very small images.

    Args:
        shape: shape of the task. Inputs of any shape are flattened.
        hidden: number of units of the hidden layer.
        dropout: fraction of the hidden units that are dropped in training, against memorisation.
    """

    def __init__(self, shape: TaskShape, *, hidden: int = 256, dropout: float = 0.0) -> None:
        super().__init__()
        if not shape.input_shape:
            raise ValueError("mlp needs numbers as inputs; this dataset has texts")
        if hidden < 1:
            raise ValueError(f"hidden must be 1 or more, not {hidden}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be a fraction from 0 to below 1, not {dropout}")
        self.network = nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(shape.input_shape), hidden),
            nn.ReLU(),
            *([nn.Dropout(dropout)] if dropout else []),
            nn.Linear(hidden, shape.num_outputs),
        )
        self.output = TaskOutput(shape)

    def forward(self, features: Tensor) -> Tensor:
        """Map (batch, ...) to (batch, classes), or to (batch,) for regression."""
        prediction: Tensor = self.output(self.network(features))
        return prediction
