"""Samples that are pictures: what a model learns from them, and what a reviewer sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import Contents, ModelInputs, SampleView, SourceError
from discrimloss.auditing.sources.features import cache_file, cached_rows, standardised
from discrimloss.auditing.sources.pictures import (
    LARGEST_CLOSE_VIEW,
    LARGEST_VIEW,
    Colours,
    PictureFacts,
    Pixels,
    Reader,
    UnreadablePictureError,
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
"""The smallest that the small model takes."""
SMALLEST_IMAGE = 8
"""Of an array: smaller ones are features."""
DECODED_AT_ONCE = 1_000
MEASURED_IMAGES = 5_000
"""Enough for means that are good to three digits."""

Fields = Callable[[int], tuple[tuple[str, str], ...]]


class Pictures(Contents):
    """Pictures, scaled to small squares or encoded by a frozen encoder.

    Args:
        read: returns the picture of a sample.
        facts: one per sample.
        ids: of the samples, for messages.
        fields: what else a reviewer sees of a sample.
        encoder: a folder, ``package:NAME``, a name on the hub, or None for pixels.
    """

    kind = "images"

    def __init__(
        self,
        read: Reader,
        facts: Sequence[PictureFacts],
        ids: Sequence[str],
        fields: Fields,
        encoder: str | None,
    ) -> None:
        self.read, self._facts, self._ids = read, facts, ids
        self._fields, self._encoder = fields, encoder

    @property
    def side(self) -> int:
        """The side of the squares: small, because training goes over them often."""
        sides = sorted(fact.shorter_side for fact in self._facts)
        median = sides[len(sides) // 2]
        if sides[-1] < SMALLEST_SIDE:  # enlarging digits of 28 pixels gains nothing
            return max(SIDE_OF_THE_MODEL, median)
        return min(max(SMALLEST_SIDE, median), LARGEST_SIDE)

    @property
    def colours(self) -> Colours:
        """One channel if all pictures are grey, else three."""
        return "L" if all(fact.is_grey for fact in self._facts) else "RGB"

    def model_inputs(self, cache: Path | None, fingerprint: str) -> ModelInputs:
        """Squares of pixels, or the features of the encoder. Both are cached."""
        if self._encoder is not None:
            from discrimloss.auditing.sources.encoders import encoded_pictures

            def in_colour(first: int, last: int, side: int) -> Pixels:
                return self._squares(first, last, side, "RGB")

            encoded = encoded_pictures(
                in_colour, len(self._facts), self._encoder, cache, fingerprint
            )
            features = standardised(encoded)
            return ModelInputs(TensorInputs(features), tuple(features.shape[1:]))
        side, colours = self.side, self.colours
        path = cache_file(cache, "pixels", fingerprint, side, colours)

        def decode(first: int, last: int) -> Pixels:
            return self._squares(first, last, side, colours)

        rows = cached_rows(path, len(self._facts), decode, DECODED_AT_ONCE)
        pixels = torch.from_numpy(rows)
        mean, std = channel_statistics(pixels)
        # Grey pictures are digits, scans and documents: mirrored ones mean something else.
        prepare = ImagePreparation(mean, std, padding=side // 8, flip=colours == "RGB")
        return ModelInputs(TensorInputs(pixels), tuple(pixels.shape[1:]), prepare)

    def view(self, index: int, close: bool = False) -> SampleView:
        """A thumbnail, or the picture as large as a screen shows it; and its size."""
        try:
            largest = LARGEST_CLOSE_VIEW if close else LARGEST_VIEW
            image, image_type = thumbnail(self.read(index), largest)
        except (OSError, UnreadablePictureError) as error:
            raise self._lost(index, error) from error
        fact = self._facts[index]
        fields = (*self._fields(index), ("size", f"{fact.width} × {fact.height}"))
        return SampleView(image, image_type, fields=fields)

    def checksum(self) -> str:
        """Covers the sizes of all pictures."""
        return repr(self._facts)

    def _squares(self, first: int, last: int, side: int, colours: Colours) -> Pixels:
        """The samples from `first` to before `last`: shape (samples, channels, side, side)."""

        def decode(index: int) -> Pixels:
            try:
                return square_pixels(self.read(index), side, colours)
            except (OSError, UnreadablePictureError) as error:
                raise self._lost(index, error) from error

        return np.stack(in_threads(decode, range(first, last)))

    def _lost(self, index: int, error: Exception) -> SourceError:
        return SourceError(
            f"the image {self._ids[index]} could be read before and cannot be read now ({error}): "
            "put it back, or audit the source again"
        )


class PictureRows:
    """A picture per row: which of them can be read.

    Args:
        read: returns the picture of a row.
        stamps: one per row that changes whenever its picture does; None for a row without one.
        cache: a directory that remembers which pictures can be read, or None.
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
        """Rows without a readable picture, with the reason."""

    def contents(
        self,
        rows: npt.NDArray[np.int64],
        ids: Sequence[str],
        fields: Fields,
        encoder: str | None,
    ) -> Pictures:
        """The pictures of the samples.

        Args:
            rows: shape (samples,): the row of each sample.
            ids: of the samples.
            fields: what else a reviewer sees of a sample.
            encoder: see `Pictures`.
        """
        facts = [self._facts[row] for row in rows.tolist()]
        return Pictures(lambda index: self._read(int(rows[index])), facts, ids, fields, encoder)


def picture_files(files: Sequence[Path | None], cache: Path | None) -> PictureRows:
    """The pictures in files, one per row; None where a row has none."""

    def read(row: int) -> bytes:
        file = files[row]
        return b"" if file is None else file.read_bytes()

    return PictureRows(read, [None if file is None else file_stamp(file) for file in files], cache)


def array_contents(
    pixels: Pixels, rows: npt.NDArray[np.int64], ids: Sequence[str], encoder: str | None
) -> Pictures:
    """The pictures in an array, see `as_images`."""
    height, width = pixels.shape[1:3]
    facts = [PictureFacts(width, height, pixels.ndim == 3, num_bytes=0)] * len(rows)

    def read(index: int) -> Pixels:
        picture: Pixels = pixels[rows[index]]
        return picture

    return Pictures(read, facts, ids, lambda index: (("sample", ids[index]),), encoder)


def as_images(array: npt.NDArray[Any]) -> Pixels | None:
    """Return grey or RGB images with the channels last, or None if an array holds no images.

    Images are uint8 of the shape (samples, height, width), perhaps with 1 or 3 channels at the end
    or after the samples, and at least 8 pixels wide and high.
    """
    images = channels_last(array)
    if array.dtype != np.uint8 or images is None:
        return None
    return images[..., 0] if images.shape[3] == 1 else images


def channels_last(array: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """An array with the shape of images as (samples, height, width, channels), or None."""
    shape = array.shape
    if array.ndim == 4 and shape[3] in (1, 3):
        images = array
    elif array.ndim == 4 and shape[1] in (1, 3):
        images = array.transpose(0, 2, 3, 1)
    elif array.ndim == 3:
        images = array[..., None]
    else:
        return None
    return images if min(images.shape[1:3]) >= SMALLEST_IMAGE else None


def channel_statistics(pixels: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, where white is 1, from evenly chosen images.

    Args:
        pixels: shape (images, channels, height, width), uint8.
    """
    step = max(1, len(pixels) // MEASURED_IMAGES)
    chosen = pixels[::step].float().div_(255).transpose(0, 1).flatten(1)
    std, mean = torch.std_mean(chosen, dim=1)
    std = torch.where(std > 1e-3, std, 1.0)  # a constant channel must not divide by zero
    return tuple(mean.tolist()), tuple(std.tolist())
