"""Pretrained encoders of images: models of transformers, and plain weights of EfficientNet-Lite."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.features import cache_file, cached_rows
from discrimloss.auditing.sources.pictures import Pixels
from discrimloss.models import efficientnet_lite
from discrimloss.models.efficientnet_lite import EfficientNetLite, read_weights
from discrimloss.models.layers import channels_last
from discrimloss.models.text_encoder import (
    CONFIGURATION,
    PACKAGE,
    load_pretrained,
    package_folders,
    transformers_library,
)

ENCODED_AT_ONCE = 32
WEIGHT_FILES = (".pth", ".pt")
USUAL_SIDE = 224
USUAL_MEAN, USUAL_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet, for encoders that do not define their own."""

Squares = Callable[[int, int, int], Pixels]
"""Returns the images from a first position up to an end position, which is excluded, scaled to a
side: (images, 3, side, side)."""


def encoded_pictures(
    squares: Squares, num_pictures: int, encoder: str, cache: Path | None, fingerprint: str
) -> npt.NDArray[Any]:
    """Encode images: shape (images, features).

    Args:
        squares: decodes and scales images.
        num_pictures: number of images.
        encoder: a folder, ``package:NAME``, a name on the hub, or a file of weights of an
            EfficientNet-Lite.
        cache: a directory for the features, or None.
        fingerprint: fingerprint of the images.
    """

    @functools.cache
    def loaded() -> ImageEncoder | LiteEncoder:
        try:
            weights = lite_weights(encoder)
            return ImageEncoder(encoder) if weights is None else LiteEncoder(weights)
        except ValueError as error:
            reason = str(error).removeprefix("pretrained = ")
            raise SourceError(f"--encoder cannot be used: {reason}") from error

    def encode(first: int, last: int) -> npt.NDArray[np.float32]:
        return loaded()(torch.from_numpy(squares(first, last, loaded().side)))

    path = cache_file(cache, "image-features", encoder, fingerprint)
    return cached_rows(path, num_pictures, encode, ENCODED_AT_ONCE)


def lite_weights(encoder: str) -> Path | None:
    """Return the file with weights of an EfficientNet-Lite that `encoder` names, or None.

    Args:
        encoder: a file, or ``package:NAME`` of a package with one file of weights and no model of
            the transformers library.
    """
    file = Path(encoder).expanduser()
    if file.suffix in WEIGHT_FILES:
        if not file.is_file():
            raise ValueError(f"there is no file {file}")
        return file
    if not encoder.startswith(PACKAGE):
        return None
    for folder in package_folders(encoder.removeprefix(PACKAGE)):
        found = [file for file in folder.rglob("*") if file.suffix in WEIGHT_FILES]
        if len(found) == 1 and not any(folder.rglob(CONFIGURATION)):
            return found[0]
    return None


class LiteEncoder:
    """An EfficientNet-Lite with weights from a file.

    Args:
        weights: the file.

    Raises:
        ValueError: the file does not contain such weights.
    """

    side = efficientnet_lite.SIDE

    def __init__(self, weights: Path) -> None:
        model: Any = EfficientNetLite(read_weights(weights))  # torch's types lack memory formats
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # Depthwise filters are faster if the channels of a pixel are contiguous in memory.
        self.model = channels_last(model.eval().to(self.device))
        self.mean = _channels(efficientnet_lite.MEAN, USUAL_MEAN)
        self.std = _channels(efficientnet_lite.STD, USUAL_STD)

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> npt.NDArray[np.float32]:
        """Map (images, 3, side, side), uint8, to (images, features)."""
        pixels = ((images.float() / 255 - self.mean) / self.std).to(self.device)
        pixels = pixels.contiguous(memory_format=torch.channels_last)
        features: npt.NDArray[np.float32] = self.model(pixels).cpu().numpy()
        return features


class ImageEncoder:
    """A pretrained model of the transformers library that turns images into features.

    Args:
        pretrained: a folder, ``package:NAME``, or a name on the hub.

    Raises:
        ValueError: it cannot be loaded, or it does not take images.
    """

    def __init__(self, pretrained: str) -> None:
        library = transformers_library()
        model, loading = load_pretrained(
            library.AutoModel.from_pretrained,
            pretrained,
            dtype=torch.float32,
            output_loading_info=True,
        )
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model: Any = model.eval().to(self.device)
        takes = model.main_input_name
        if takes != "pixel_values" and not hasattr(model, "get_image_features"):
            raise ValueError(f"{pretrained!r} is not an encoder of images: it takes {takes}")
        # Many models are published without the weights of their pooling layer. Transformers then
        # initialises that layer at random, so it is not used.
        self.has_pooling = not any("pooler" in key for key in loading["missing_keys"])
        settings = _image_settings(pretrained)
        self.side = _side(model.config, settings)
        self.mean = _channels(settings.get("image_mean"), USUAL_MEAN)
        self.std = _channels(settings.get("image_std"), USUAL_STD)

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> npt.NDArray[np.float32]:
        """Map (images, 3, side, side), uint8, to (images, features)."""
        pixels = ((images.float() / 255 - self.mean) / self.std).to(self.device)
        features: npt.NDArray[np.float32] = self._features(pixels).flatten(1).float().cpu().numpy()
        return features

    def _features(self, pixels: Tensor) -> Tensor:
        pooled: Tensor
        if hasattr(self.model, "get_image_features"):  # a model of images and texts, such as CLIP
            output = self.model.get_image_features(pixel_values=pixels)
            pooled = output if isinstance(output, Tensor) else output.pooler_output
            return pooled
        output = self.model(pixel_values=pixels)
        if self.has_pooling and getattr(output, "pooler_output", None) is not None:
            pooled = output.pooler_output
        else:  # features of each token, or a feature map
            last = output.last_hidden_state
            pooled = last.mean(1) if last.dim() == 3 else last.mean((2, 3))
        return pooled


def _image_settings(pretrained: str) -> Mapping[str, Any]:
    """Return the settings of the encoder's image processor, or an empty mapping.

    The processors of transformers need torchvision, but their settings do not.
    """
    processors = transformers_library().image_processing_base.ImageProcessingMixin
    try:
        settings: Mapping[str, Any]
        settings, _ = load_pretrained(processors.get_image_processor_dict, pretrained)
    except ValueError:
        return {}
    return settings


def _side(configuration: Any, settings: Mapping[str, Any]) -> int:
    vision = getattr(configuration, "vision_config", configuration)
    for size in (
        getattr(vision, "image_size", None),
        settings.get("crop_size"),
        settings.get("size"),
    ):
        if isinstance(size, Mapping):
            size = size.get("height") or size.get("shortest_edge")
        if isinstance(size, (list, tuple)) and size:
            size = size[0]
        if isinstance(size, int) and size > 0:
            return size
    return USUAL_SIDE


def _channels(values: Any, usual: tuple[float, ...]) -> Tensor:
    fits = isinstance(values, (list, tuple)) and len(values) == len(usual)
    return torch.tensor(values if fits else usual, dtype=torch.float32)[:, None, None]
