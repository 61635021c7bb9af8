"""Layers and helpers that several models use."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from discrimloss.models.base import TaskShape

AnyModule = TypeVar("AnyModule", bound=nn.Module)


class TaskOutput(nn.Module):
    """The last layer of a model, which turns raw outputs into predictions.

    In classification, the raw outputs are the logits and are not changed. In regression, the
    prediction is ``raw * target_spread + target_mean``. So the predictions of a new network are
    near the mean of the targets, and its learning speed does not depend on their unit.
    """

    target_mean: Tensor
    target_spread: Tensor

    def __init__(self, shape: TaskShape) -> None:
        super().__init__()
        self.is_regression = shape.num_classes is None
        if self.is_regression:
            # Buffers are saved with the weights, which are useless without these two values.
            self.register_buffer("target_mean", torch.tensor(float(shape.target_mean)))
            self.register_buffer("target_spread", torch.tensor(float(shape.target_spread)))

    def forward(self, raw: Tensor) -> Tensor:
        """Map (batch, outputs) to (batch, classes), or to (batch,) for regression."""
        if not self.is_regression:
            return raw
        return raw.squeeze(1) * self.target_spread + self.target_mean


def image_size(shape: TaskShape, model: str, smallest: int = 1) -> tuple[int, int, int]:
    """Return channels, height and width of the images, or raise an error if they do not fit."""
    if len(shape.input_shape) != 3 or min(shape.input_shape[1:]) < smallest:
        raise ValueError(
            f"{model} needs images, (channels, height, width), of at least {smallest} x {smallest} "
            f"pixels, but the inputs have the shape {shape.input_shape}"
        )
    channels, height, width = shape.input_shape
    return channels, height, width


def channels_last(network: AnyModule) -> AnyModule:
    """Return the network with its weights in the channels-last memory format.

    Convolutions are faster with this format on most machines. Results are the same.
    """
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def images_channels_last(images: Tensor) -> Tensor:
    """Return images, (batch, channels, height, width), in the channels-last memory format.

    With one channel, both formats are the same and nothing is copied.
    """
    return images.contiguous(memory_format=torch.channels_last)
