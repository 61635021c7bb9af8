"""A tiny EfficientNet-Lite as a plain state dict."""

from __future__ import annotations

import torch
from torch import Tensor


def lite_state_dict() -> dict[str, Tensor]:
    """Random weights of a stem, three blocks in two stages, and a head with ten features."""
    generator = torch.Generator().manual_seed(0)
    found: dict[str, Tensor] = {}

    def layer(name: str, norm: str, out: int, within: int, size: int = 1) -> None:
        found[f"{name}.weight"] = torch.randn(out, within, size, size, generator=generator)
        found[f"{norm}.weight"] = torch.rand(out, generator=generator) + 0.5
        found[f"{norm}.bias"] = torch.randn(out, generator=generator)
        found[f"{norm}.running_mean"] = torch.randn(out, generator=generator)
        found[f"{norm}.running_var"] = torch.rand(out, generator=generator) + 0.5
        found[f"{norm}.num_batches_tracked"] = torch.tensor(1)

    layer("_conv_stem", "_bn0", 4, 3, 3)
    for number, (given, wide, width, size) in enumerate(((4, 4, 5, 3), (5, 8, 6, 5), (6, 9, 6, 3))):
        block = f"_blocks.{number}."
        if number > 0:
            layer(block + "_expand_conv", block + "_bn0", wide, given)
        layer(block + "_depthwise_conv", block + "_bn1", wide, 1, size)
        layer(block + "_project_conv", block + "_bn2", width, wide)
    layer("_conv_head", "_bn1", 10, 6)
    found["_fc.weight"], found["_fc.bias"] = torch.zeros(5, 10), torch.zeros(5)
    return found
