"""ResNet-18 and ResNet-50 through transformers, from scratch or pretrained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from discrimloss.models.base import TaskShape, models
from discrimloss.models.layers import TaskOutput, channels_last, image_size, images_channels_last
from discrimloss.models.text_encoder import transformers_library

ARCHITECTURES: dict[int, dict[str, Any]] = {
    18: {
        "layer_type": "basic",
        "depths": [2, 2, 2, 2],
        "hidden_sizes": [64, 128, 256, 512],
    },
    50: {
        "layer_type": "bottleneck",
        "depths": [3, 4, 6, 3],
        "hidden_sizes": [256, 512, 1024, 2048],
    },
}


@models.register("resnet")
class ResNet(nn.Module):
    """ResNet-18 or ResNet-50 (He et al., 2015), from scratch or pretrained, for larger images.

    Args:
        shape: shape of the task, with images of any size. The stem reduces them by a factor of 4.
        layers: 18 or 50. Not used with `pretrained`.
        pretrained: a directory or a name on the Hugging Face hub, such as
            ``"microsoft/resnet-50"``, with weights for 18 or 50 layers. The pretrained head is kept
            if its number of outputs fits the task. Otherwise the head is new.
        standardized: whether regression predicts in units of the targets' standard deviation,
            relative to their mean. Otherwise the output is the prediction, as in the authors'
            released code, whose learning rates assume this.
    """

    def __init__(
        self,
        shape: TaskShape,
        *,
        layers: Literal[18, 50] = 18,
        pretrained: str | None = None,
        standardized: bool = True,
    ) -> None:
        super().__init__()
        image_size(shape, "resnet")
        self.network = (
            from_scratch(shape, layers)
            if pretrained is None
            else from_pretrained(shape, pretrained)
        )
        self.output = TaskOutput(shape if standardized else shape.unscaled())
        channels_last(self)

    def forward(self, images: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to (batch, classes) or (batch,)."""
        prediction: Tensor = self.output(self.network(images_channels_last(images)).logits)
        return prediction


def from_scratch(shape: TaskShape, layers: int) -> Any:
    """Return a network with random weights, for images with any number of channels."""
    transformers = transformers_library()
    if layers not in ARCHITECTURES:
        known = " or ".join(map(str, ARCHITECTURES))
        raise ValueError(f"a resnet has {known} layers, not {layers}")
    config = transformers.ResNetConfig(
        num_channels=shape.input_shape[0], num_labels=shape.num_outputs, **ARCHITECTURES[layers]
    )
    return transformers.ResNetForImageClassification(config)


def from_pretrained(shape: TaskShape, pretrained: str) -> Any:
    """Return a network with weights from a directory or the hub, and a head for this task."""
    transformers = transformers_library()
    source = Path(pretrained).expanduser()
    if looks_like_a_path(pretrained) and not source.is_dir():
        raise ValueError(
            f"model.pretrained: there is no directory {pretrained}; give one that save_pretrained "
            "wrote, a name on the Hugging Face hub such as microsoft/resnet-50, or leave it out"
        )
    name = str(source) if source.is_dir() else pretrained
    try:
        config = transformers.AutoConfig.from_pretrained(name, num_labels=shape.num_outputs)
        check_config(config, shape)
        network, report = transformers.ResNetForImageClassification.from_pretrained(
            name,
            config=config,
            dtype=torch.float32,  # independent of the saved dtype
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
        check_report(report)
    except (OSError, ValueError, RuntimeError) as error:
        # The first line of the library's message is the reason.
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise ValueError(
            f"model.pretrained: cannot load a resnet from {pretrained!r} ({reason}); give a "
            "directory that save_pretrained wrote, or a hub name while online, or leave it out"
        ) from error
    return network


def check_config(config: Any, shape: TaskShape) -> None:
    """Raise a `ValueError` unless the weights are of a ResNet for images of this task."""
    if config.model_type != "resnet":
        raise ValueError(f"it holds a model of type {config.model_type!r}, not a resnet")
    if config.num_channels != shape.input_shape[0]:
        raise ValueError(
            f"its images have {config.num_channels} channels, those of the task have "
            f"{shape.input_shape[0]}"
        )


def check_report(report: Mapping[str, Any]) -> None:
    """Raise a `ValueError` if weights other than the head's are missing or do not fit.

    Transformers would initialise them at random, without a warning.
    """
    mismatched = {key if isinstance(key, str) else key[0] for key in report["mismatched_keys"]}
    made_up = set(report["missing_keys"]) | mismatched
    lost = sorted(key for key in made_up if not key.startswith("classifier."))
    if lost:
        raise ValueError(
            f"{len(lost)} weights are missing or do not fit its config.json, such as {lost[0]}"
        )


def looks_like_a_path(name: str) -> bool:
    """Return whether a name is a path, because hub names are only ``name`` or ``owner/name``."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name
