"""Encoded pictures of any format to pixels, and to what a person is shown of them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.base import SourceError
from discrimloss.data.base import DataError
from discrimloss.data.decoding import FORMATS, pillow
from discrimloss.errors import DiscrimLossError

if TYPE_CHECKING:
    from PIL.Image import Image

AUDIT_FORMATS = (*FORMATS, "WEBP", "TIFF", "PPM")
SUFFIXES = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff"),
        *(".ppm", ".pgm", ".pbm", ".pnm"),
    )
)
"""How the names of pictures end."""

LARGEST_VIEW = 160
LARGEST_CLOSE_VIEW = 1280
SMALLEST_VIEW = 96
PROBE_SIDE = 32
GREY_TOLERANCE = 4
"""Between the channels of a grey picture that was compressed as a colour picture."""

Pixels = npt.NDArray[np.uint8]
Colours = Literal["L", "RGB"]


class UnreadablePictureError(DiscrimLossError):
    """A picture that cannot be decoded, and why in a few words."""


@dataclass(frozen=True)
class PictureFacts:
    """What has to be known of a picture before all are decoded to one size."""

    width: int
    height: int
    is_grey: bool
    num_bytes: int
    """Of the file."""

    @property
    def shorter_side(self) -> int:
        """In pixels."""
        return min(self.width, self.height)


def require_pillow() -> None:
    """Raise a `SourceError` where there is no library that reads pictures."""
    try:
        pillow()
    except DataError as error:
        raise SourceError(str(error)) from error


def look_at(encoded: bytes) -> PictureFacts:
    """The facts of a picture. All of it is decoded: a file may break off anywhere."""
    with _opened(encoded) as image:
        size = image.size
        image.draft(image.mode, (PROBE_SIDE, PROBE_SIDE))  # a fraction of the work, for JPEG
        upright = _upright(image)
        if (upright.width > upright.height) != (size[0] > size[1]):
            size = (size[1], size[0])
        return PictureFacts(*size, _is_grey(upright), len(encoded))


def square_pixels(encoded: bytes, side: int, colours: Colours) -> Pixels:
    """A whole picture, scaled to a square: shape (channels, side, side).

    Nothing is cut off: what the label speaks of may be anywhere.
    """
    with _opened(encoded) as image:
        image.draft(image.mode, (2 * side, 2 * side))
        return _square(_flat(_upright(image)), side, colours)


def scaled(pixels: Pixels, side: int, colours: Colours) -> Pixels:
    """Likewise, from pixels of the shape (height, width) or (height, width, 3)."""
    return _square(pillow().fromarray(np.ascontiguousarray(pixels)), side, colours)


def thumbnail(encoded: bytes, largest: int = LARGEST_VIEW) -> tuple[bytes, str]:
    """A picture to look at, encoded, and its type: large ones smaller, tiny ones larger."""
    resampling = pillow().Resampling
    with _opened(encoded) as image:
        image.draft(image.mode, (2 * largest, 2 * largest))
        flat = _flat(_upright(image))
    if max(flat.size) > largest:
        flat.thumbnail((largest, largest), resampling.LANCZOS)
        return _encoded(flat, "JPEG"), "image/jpeg"
    # By whole steps and without blurring: a person should see the pixels that there are.
    times = max(1, round(SMALLEST_VIEW / max(flat.size)))
    larger = (flat.width * times, flat.height * times)
    return _encoded(flat.resize(larger, resample=resampling.NEAREST), "PNG"), "image/png"


def encode_pixels(pixels: Pixels) -> bytes:
    """A PNG of pixels: shape (height, width) or (height, width, 3)."""
    return _encoded(pillow().fromarray(np.ascontiguousarray(pixels)), "PNG")


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """No warnings of odd metadata, one per file, while many pictures are read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _opened(encoded: bytes) -> Iterator[Image]:
    try:
        with pillow().open(io.BytesIO(encoded), formats=AUDIT_FORMATS) as image:
            yield image
    except MemoryError:
        raise
    except Exception as error:  # whatever a broken file makes a decoder do
        # Pillow names the buffer that it read from, which tells nobody anything.
        reason = str(error).partition("<_io")[0].strip() or type(error).__name__
        raise UnreadablePictureError(reason if encoded else "the file is empty") from error


def _upright(image: Image) -> Image:
    from PIL import ImageOps

    image.load()
    return ImageOps.exif_transpose(image)


def _flat(image: Image) -> Image:
    """Eight bits, grey or RGB, without transparency."""
    if image.mode.startswith(("I", "F")):
        return _eight_bits(image)
    if image.mode in ("1", "L"):
        return image.convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    # Hidden pixels may have any colour: what is transparent becomes white, as on a page.
    opaque: Image = pillow().new("RGBA", image.size, "white")
    opaque.alpha_composite(image.convert("RGBA"))
    return opaque.convert("L" if image.mode in ("LA", "La") else "RGB")


def _eight_bits(image: Image) -> Image:
    """A grey picture of more bits: 16 bits by their range, floating point by what it holds."""
    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    low, high = values.min(), values.max()
    if image.mode.startswith("I") and low >= 0 and high < 2**16:
        low, high = 0.0, 255.0 if high < 2**8 else 2.0**16 - 1
    scaled = (values - low) * (255.0 / max(high - low, 1e-12))
    grey: Image = pillow().fromarray(scaled.round().astype(np.uint8))
    return grey


def _square(image: Image, side: int, colours: Colours) -> Pixels:
    bilinear = pillow().Resampling.BILINEAR
    square = np.asarray(image.convert(colours).resize((side, side), resample=bilinear))
    return np.ascontiguousarray(np.atleast_3d(square).transpose(2, 0, 1))


def _is_grey(image: Image) -> bool:
    if image.mode in ("1", "L", "LA", "La") or image.mode.startswith(("I", "F")):
        return True
    box = pillow().Resampling.BOX
    small = np.asarray(_flat(image).resize((PROBE_SIDE, PROBE_SIDE), resample=box), dtype=np.int16)
    return int((small.max(axis=2) - small.min(axis=2)).max()) <= GREY_TOLERANCE


def _encoded(image: Image, file_format: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=file_format, **({"quality": 88} if file_format == "JPEG" else {}))
    return buffer.getvalue()
