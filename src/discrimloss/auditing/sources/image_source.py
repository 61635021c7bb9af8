"""Samples that are pictures, wherever they lie: what is learnt from them and shown of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import AuditSource, SampleView, SourceError
from discrimloss.auditing.sources.feature_cache import cache_file, cached_rows
from discrimloss.auditing.sources.picture_check import Reader, in_threads
from discrimloss.auditing.sources.pictures import (
    LARGEST_CLOSE_VIEW,
    LARGEST_VIEW,
    Colours,
    PictureFacts,
    Pixels,
    UnreadablePictureError,
    square_pixels,
    thumbnail,
)
from discrimloss.data.base import Split, TaskData, TensorInputs
from discrimloss.data.images import ImagePreparation
from discrimloss.training.config import ComponentConfig

SMALLEST_SIDE, LARGEST_SIDE = 32, 64
SIDE_OF_THE_MODEL = 8
"""The least that the small model takes."""
MANY_IMAGES = 20_000
DECODED_AT_ONCE = 1_000
MEASURED_IMAGES = 5_000
"""So many are enough for means that are good to three digits."""


class ImageSource(AuditSource):
    """What all sources of pictures share. They set the attributes and write themselves back."""

    kind = "images"
    facts: Sequence[PictureFacts]
    """One per sample."""
    read: Reader
    """The encoded picture of a sample."""

    @property
    def side(self) -> int:
        """Of the squares that pictures are scaled to: small, as training goes over them often."""
        sides = sorted(fact.shorter_side for fact in self.facts)
        median = sides[len(sides) // 2]
        if sides[-1] < SMALLEST_SIDE:  # digits of 28 pixels have nothing to gain from more
            return max(SIDE_OF_THE_MODEL, median)
        return min(max(SMALLEST_SIDE, median), LARGEST_SIDE)

    @property
    def colours(self) -> Colours:
        """How pictures are decoded: one channel if all are grey."""
        return "L" if all(fact.is_grey for fact in self.facts) else "RGB"

    def task(self, cache: Path) -> TaskData:
        """Squares of pixels, or the features of the encoder that was asked for."""
        num_classes = len(self.class_names) or None
        if self.options.encoder is not None:
            from discrimloss.auditing.sources.image_encoder import encoded_pictures

            features = encoded_pictures(self, self.options.encoder, cache)
            return TaskData(
                train=Split(TensorInputs(features), self.target),
                test=None,
                num_classes=num_classes,
                input_shape=tuple(features.shape[1:]),
                class_names=self.class_names,
            )
        pixels = self._pixels(cache)
        mean, std = channel_statistics(pixels)
        return TaskData(
            train=Split(TensorInputs(pixels), self.target),
            test=None,
            num_classes=num_classes,
            # Grey pictures are digits, scans and documents: they have a left and a right.
            prepare=ImagePreparation(mean, std, padding=self.side // 8, flip=self.colours == "RGB"),
            input_shape=tuple(pixels.shape[1:]),
            class_names=self.class_names,
        )

    def model(self) -> ComponentConfig:
        """A small residual network, or a small network over the features of an encoder."""
        if self.options.encoder is not None:
            return ComponentConfig("mlp", {})
        is_small = self.colours == "L" or len(self) <= MANY_IMAGES
        return ComponentConfig("compact_resnet", {"width": 16 if is_small else 32})

    def view(self, index: int) -> SampleView:
        """A thumbnail, and the size of the picture."""
        return self._view(index, LARGEST_VIEW)

    def close_view(self, index: int) -> SampleView:
        """The picture, as large as a screen shows it."""
        return self._view(index, LARGEST_CLOSE_VIEW)

    def _view(self, index: int, largest: int) -> SampleView:
        try:
            image, image_type = thumbnail(self.read(index), largest)
        except (OSError, UnreadablePictureError) as error:
            raise self._lost(index, error) from error
        fact = self.facts[index]
        fields = (*self.view_fields(index), ("size", f"{fact.width} × {fact.height}"))
        return SampleView(image, image_type, fields=fields)

    def view_fields(self, index: int) -> tuple[tuple[str, str], ...]:
        """What else is known of a sample."""
        return (("path", self.ids[index]),)

    def squares(self, first: int, last: int, side: int, colours: Colours) -> Pixels:
        """The samples from `first` to before `last`: shape (samples, channels, side, side)."""

        def decode(index: int) -> Pixels:
            try:
                return square_pixels(self.read(index), side, colours)
            except (OSError, UnreadablePictureError) as error:
                raise self._lost(index, error) from error

        return np.stack(in_threads(decode, range(first, last)))

    def fingerprint(self) -> str:
        """A checksum of names, labels and sizes of the pictures."""
        digest = hashlib.sha256()
        for name, label, fact in zip(self.ids, self.target.tolist(), self.facts, strict=True):
            given = self.class_names[label] if self.class_names else label
            digest.update(repr((name, given, fact)).encode())
        for one in self.left_out:
            digest.update(repr(one.id).encode())
        return digest.hexdigest()[:32]

    def _pixels(self, cache: Path) -> Tensor:
        side, colours = self.side, self.colours
        path = cache_file(cache, "pixels", self.fingerprint(), side, colours)

        def decode(first: int, last: int) -> Pixels:
            return self.squares(first, last, side, colours)

        return torch.from_numpy(cached_rows(path, len(self), decode, DECODED_AT_ONCE))

    def _lost(self, index: int, error: Exception) -> SourceError:
        return SourceError(
            f"the image {self.ids[index]} could be read before and cannot be read now ({error}): "
            "put it back, or audit the source again"
        )


def channel_statistics(pixels: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, where white is 1, from evenly chosen images.

    Args:
        pixels: shape (images, channels, height, width), uint8.
    """
    step = max(1, len(pixels) // MEASURED_IMAGES)
    chosen = pixels[::step].float().div_(255).transpose(0, 1).flatten(1)
    std, mean = torch.std_mean(chosen, dim=1)
    # Channels that never change are left alone: nothing is divided by zero.
    std = torch.where(std > 1e-3, std, 1.0)
    return tuple(mean.tolist()), tuple(std.tolist())
