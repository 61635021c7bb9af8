"""Pictures to the features of a pretrained encoder, which stays as it is."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.feature_cache import cache_file, cached_rows
from discrimloss.auditing.sources.features import standardised
from discrimloss.models.text_encoder import load_pretrained, transformers_library

if TYPE_CHECKING:
    from discrimloss.auditing.sources.image_source import ImageSource

ENCODED_AT_ONCE = 32
USUAL_SIDE = 224
USUAL_MEAN, USUAL_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet: what encoders were trained with that do not say."""


def encoded_pictures(source: ImageSource, encoder: str, cache: Path) -> Tensor:
    """Features of all samples: shape (samples, features), around 0 with a spread of 1.

    They are kept in `cache`; an interrupted audit goes on with what there is.

    Args:
        source: the pictures.
        encoder: a folder, ``package:NAME``, or a name on the hub.
        cache: a directory.
    """

    @functools.cache
    def loaded() -> ImageEncoder:
        try:
            return ImageEncoder(encoder)
        except ValueError as error:
            raise SourceError(f"--encoder cannot be used: {error}") from error

    def encode(first: int, last: int) -> npt.NDArray[np.float32]:
        return loaded()(torch.from_numpy(source.squares(first, last, loaded().side, "RGB")))

    path = cache_file(cache, "image-features", encoder, source.fingerprint())
    return standardised(cached_rows(path, len(source), encode, ENCODED_AT_ONCE))


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
            raise ValueError(f"{pretrained!r} is no encoder of images: it takes {takes}")
        # Many are published without a pooling layer; then its weights are random.
        self.has_pooling = not any("pooler" in key for key in loading["missing_keys"])
        settings = _image_settings(pretrained)
        self.side = _side(model.config, settings)
        self.mean = _channels(settings.get("image_mean"), USUAL_MEAN)
        self.std = _channels(settings.get("image_std"), USUAL_STD)

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> npt.NDArray[np.float32]:
        """From (images, 3, side, side), uint8, to (images, features)."""
        pixels = ((images.float() / 255 - self.mean) / self.std).to(self.device)
        features: npt.NDArray[np.float32] = self._features(pixels).flatten(1).float().cpu().numpy()
        return features

    def _features(self, pixels: Tensor) -> Tensor:
        pooled: Tensor
        if hasattr(self.model, "get_image_features"):  # one that knows texts, too, such as CLIP
            answer = self.model.get_image_features(pixel_values=pixels)
            pooled = answer if isinstance(answer, Tensor) else answer.pooler_output
            return pooled
        answer = self.model(pixel_values=pixels)
        if self.has_pooling and getattr(answer, "pooler_output", None) is not None:
            pooled = answer.pooler_output
        else:  # tokens, or a map
            last = answer.last_hidden_state
            pooled = last.mean(1) if last.dim() == 3 else last.mean((2, 3))
        return pooled


def _image_settings(pretrained: str) -> Mapping[str, Any]:
    """How the encoder wants its images; empty if it does not say.

    The processors of transformers need another library, torchvision; their settings do not.
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
