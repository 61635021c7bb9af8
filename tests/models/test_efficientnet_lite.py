"""EfficientNet-Lite from a plain state dict, beside a computation by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_lite import lite_state_dict
from torch import Tensor
from torch.nn import functional as F

from discrimloss.models.efficientnet_lite import EPSILON, EfficientNetLite, read_weights

STRIDES = {0: 1, 1: 2, 2: 1}
"""Of the blocks: the second begins a stage, the third goes on with it."""


def by_hand(weights: dict[str, Tensor], images: Tensor) -> Tensor:
    def layer(x: Tensor, name: str, norm: str, stride: int = 1, activate: bool = True) -> Tensor:
        kernel = weights[f"{name}.weight"]
        size = kernel.shape[2]
        # Sides are even: stride 2 pads one pixel less than stride 1, at the beginning.
        before, after = (size - stride) // 2, (size - stride + 1) // 2
        x = F.pad(x, [before, after, before, after])
        x = F.conv2d(x, kernel, stride=stride, groups=x.shape[1] // kernel.shape[1])
        statistics = (weights[f"{norm}.running_mean"], weights[f"{norm}.running_var"])
        scale = (weights[f"{norm}.weight"], weights[f"{norm}.bias"])
        x = F.batch_norm(x, *statistics, *scale, eps=EPSILON)
        return x.clamp(0, 6) if activate else x

    x = layer(images, "_conv_stem", "_bn0", 2)
    for number, stride in STRIDES.items():
        block, given = f"_blocks.{number}.", x
        if number > 0:
            x = layer(x, block + "_expand_conv", block + "_bn0")
        x = layer(x, block + "_depthwise_conv", block + "_bn1", stride)
        x = layer(x, block + "_project_conv", block + "_bn2", activate=False)
        x = x + given if number == 2 else x
    return layer(x, "_conv_head", "_bn1").mean((2, 3))


def test_features_are_those_of_the_definition() -> None:
    weights = lite_state_dict()
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = EfficientNetLite(weights).eval()(images)
    assert found.shape == (2, 10)
    torch.testing.assert_close(found, by_hand(weights, images))


def test_other_weights_get_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "weights.pth"
    torch.save({"conv1.weight": torch.zeros(1)}, file)
    with pytest.raises(ValueError, match="contains no weights of an EfficientNet-Lite"):
        read_weights(file)
    file.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"cannot read .*weights\.pth"):
        read_weights(file)
    weights = lite_state_dict()
    del weights["_bn1.bias"]
    torch.save({"state_dict": weights}, file)
    with pytest.raises(ValueError, match=r"lack '_bn1\.bias'"):
        EfficientNetLite(read_weights(file))
