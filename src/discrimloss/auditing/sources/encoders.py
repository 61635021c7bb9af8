"""Pretrained encoders, frozen: texts and pictures to features."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.features import cache_file, cached_rows
from discrimloss.models.text_encoder import (
    load_configuration,
    load_pretrained,
    load_tokenizer,
    load_weights,
    transformers_library,
)

MOST_TOKENS = 256
_TEXTS_KEPT_AT_ONCE = 256
_BATCH = 32
ENCODED_AT_ONCE = 32
USUAL_SIDE = 224
USUAL_MEAN, USUAL_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet: for encoders that do not name their own."""

Squares = Callable[[int, int, int], npt.NDArray[np.uint8]]
"""Pictures from one position to before another, with a given side: (pictures, 3, side, side)."""


def encoded_texts(
    texts: Sequence[str], encoder: str, cache: Path | None, fingerprint: str
) -> npt.NDArray[Any]:
    """Encode texts: shape (texts, width), the mean of the encoder's token vectors.

    Args:
        texts: truncated to `MOST_TOKENS` tokens.
        encoder: a folder, ``package:NAME``, or a name on the hub.
        cache: a directory that keeps the features, or None.
        fingerprint: of the texts.
    """
    file = cache_file(cache, "text_features", encoder, fingerprint, MOST_TOKENS, len(texts))

    @functools.cache
    def loaded() -> TextEncoder:  # not loaded at all if the features are cached
        return TextEncoder(encoder)

    return cached_rows(
        file, len(texts), lambda first, last: loaded()(texts[first:last]), _TEXTS_KEPT_AT_ONCE
    )


class TextEncoder:
    """A frozen encoder of the transformers library with its tokenizer.

    Args:
        name: a folder, ``package:NAME``, or a name on the hub.
    """

    def __init__(self, name: str) -> None:
        try:
            configuration = load_configuration(name, "bert", 64, 1)
            self.tokenizer = load_tokenizer(name, configuration.model_type)
            model = load_weights(transformers_library().AutoModel, name, configuration)
        except ValueError as error:
            reason = str(error).removeprefix("pretrained = ")
            raise SourceError(f"--encoder cannot be used: {reason}") from error
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.eval().to(self.device)
        self.most_tokens = min(MOST_TOKENS, self.tokenizer.model_max_length)

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Shape (texts, width)."""
        # Batches of similar lengths: shorter texts are padded to the longest.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        pieces = []
        for first in range(0, len(order), _BATCH):
            batch = [texts[number] for number in order[first : first + _BATCH]]
            pieces.append(self._means(batch))
        features = torch.cat(pieces)
        back = torch.empty(len(order), dtype=torch.int64)
        back[torch.tensor(order)] = torch.arange(len(order))
        return features[back].numpy()

    def _means(self, texts: list[str]) -> Tensor:
        tokens = self.tokenizer(
            texts,
            truncation=True,
            max_length=self.most_tokens,
            padding=True,
            return_tensors="pt",
            return_attention_mask=True,
        ).to(self.device)
        states = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(2).to(states.dtype)
        means: Tensor = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0)
        return means.float().cpu()


def encoded_pictures(
    squares: Squares, num_pictures: int, encoder: str, cache: Path | None, fingerprint: str
) -> npt.NDArray[Any]:
    """Encode pictures: shape (pictures, features).

    Args:
        squares: decodes pictures.
        num_pictures: how many there are.
        encoder: a folder, ``package:NAME``, or a name on the hub.
        cache: a directory that keeps the features, or None.
        fingerprint: of the pictures.
    """

    @functools.cache
    def loaded() -> ImageEncoder:
        try:
            return ImageEncoder(encoder)
        except ValueError as error:
            raise SourceError(f"--encoder cannot be used: {error}") from error

    def encode(first: int, last: int) -> npt.NDArray[np.float32]:
        return loaded()(torch.from_numpy(squares(first, last, loaded().side)))

    path = cache_file(cache, "image-features", encoder, fingerprint)
    return cached_rows(path, num_pictures, encode, ENCODED_AT_ONCE)


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
        # Many are published without a pooling layer, which then has random weights.
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
        if hasattr(self.model, "get_image_features"):  # of images and texts, such as CLIP
            output = self.model.get_image_features(pixel_values=pixels)
            pooled = output if isinstance(output, Tensor) else output.pooler_output
            return pooled
        output = self.model(pixel_values=pixels)
        if self.has_pooling and getattr(output, "pooler_output", None) is not None:
            pooled = output.pooler_output
        else:  # tokens, or a map
            last = output.last_hidden_state
            pooled = last.mean(1) if last.dim() == 3 else last.mean((2, 3))
        return pooled


def _image_settings(pretrained: str) -> Mapping[str, Any]:
    """The settings of the encoder's image processor; empty if it has none.

    The processors of transformers need torchvision; their settings do not.
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
