"""Reads images of any format, and makes thumbnails."""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.values import is_a
from discrimloss.data.base import DataError
from discrimloss.data.images import FORMATS, pillow
from discrimloss.errors import DiscrimLossError
from discrimloss.files.atomic_write import atomic_write

if TYPE_CHECKING:
    from PIL.Image import Image

AUDIT_FORMATS = (*FORMATS, "WEBP", "TIFF", "PPM")
SUFFIXES = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff"),
        *(".ppm", ".pgm", ".pbm", ".pnm"),
    )
)
"""Suffixes of image files."""

LARGEST_VIEW = 160
LARGEST_CLOSE_VIEW = 1280
SMALLEST_VIEW = 96
PROBE_SIDE = 32
GREY_TOLERANCE = 4
"""Largest difference between channels of a grey image that is compressed as a colour image."""
SMALLEST_IMAGE = 8
"""Smallest side of an image in an array. Smaller arrays are features."""
REMEMBERED = "pictures.json"

Pixels = npt.NDArray[np.uint8]
Colours = Literal["L", "RGB"]
Picture = Union[bytes, Pixels, "Image"]
"""An encoded image, an image of Pillow, or pixels of the shape (height, width[, 3])."""
Reader = Callable[[int], Picture]
"""Returns an image by its position, or raises an `OSError`."""
Made = TypeVar("Made")


class UnreadablePictureError(DiscrimLossError):
    """An image that cannot be decoded. The message says why in a few words."""


@dataclass(frozen=True)
class PictureFacts:
    """Properties of an image that determine the common size of all images."""

    width: int
    height: int
    is_grey: bool
    num_bytes: int
    """Size of the file. 0 for an image in memory."""

    @property
    def shorter_side(self) -> int:
        """Length of the shorter side in pixels."""
        return min(self.width, self.height)


def require_pillow() -> None:
    """Raise a `SourceError` if Pillow is not installed."""
    try:
        pillow()
    except DataError as error:
        raise SourceError(str(error)) from error


def is_picture(value: Any) -> bool:
    """Return whether a value is a Pillow image or the pixels of one image."""
    if isinstance(value, np.ndarray):
        return value.dtype == np.uint8 and (value.ndim == 2 or value.shape[2:] == (3,))
    return is_a(value, "PIL.Image", "Image")


def cell_picture(cell: Any) -> Picture:
    """Return the image in a cell of a table. The cell is an image, or has its bytes or its path.

    Raises:
        SourceError: the cell contains something else.
    """
    if isinstance(cell, Mapping):
        if cell.get("bytes") is not None:
            encoded: bytes = cell["bytes"]
            return encoded
        return Path(cell["path"]).read_bytes() if cell.get("path") else b""
    if not isinstance(cell, bytes) and not is_picture(cell):
        raise SourceError(
            f"a cell of the column of images contains a {type(cell).__name__}: it must be an image "
            "of Pillow, an encoded image, or the path of one"
        )
    picture: Picture = cell
    return picture


def as_images(array: npt.NDArray[Any]) -> Pixels | None:
    """Return grey or RGB images with the channels last, or None for other arrays.

    Images are uint8 of the shape (samples, height, width), optionally with 1 or 3 channels at the
    end or after the samples, and at least 8 pixels wide and high.
    """
    images = channels_last(array)
    if array.dtype != np.uint8 or images is None:
        return None
    return images[..., 0] if images.shape[3] == 1 else images


def channels_last(array: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Return an array as (samples, height, width, channels), or None if it is not images."""
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


def float_pixels(images: npt.NDArray[Any]) -> Pixels:
    """Convert floats to uint8.

    Values are in the range 0 to 1 or 0 to 255. If they are not, the range is that from the smallest
    to the largest value.
    """
    low, high = float(images.min()), float(images.max())
    if low >= 0.0 and high <= 255.0:
        low, high = 0.0, 1.0 if high <= 1.0 else 255.0
    scale = 255.0 / max(high - low, 1e-12)
    pixels: Pixels = np.empty(images.shape, np.uint8)
    for row, image in enumerate(images):
        pixels[row] = ((image - low) * scale).round()
    return pixels


def look_at(picture: Picture) -> PictureFacts:
    """Read the facts of an image. It is decoded completely, because it may be truncated."""
    with _opened(picture) as image:
        size = image.size
        image.draft(image.mode, (PROBE_SIDE, PROBE_SIDE))  # JPEG decodes faster at a small size
        upright = _upright(image)
        if (upright.width > upright.height) != (size[0] > size[1]):
            size = (size[1], size[0])
        num_bytes = len(picture) if isinstance(picture, bytes) else 0
        return PictureFacts(*size, _is_grey(upright), num_bytes)


def square_pixels(picture: Picture, side: int, colours: Colours) -> Pixels:
    """Scale an image to a square, shape (channels, side, side).

    Nothing is cropped, because the label may refer to any part of the image.
    """
    shape = (side, side) if colours == "L" else (side, side, 3)
    if isinstance(picture, np.ndarray) and picture.shape == shape:  # nothing to scale
        return np.ascontiguousarray(np.atleast_3d(picture).transpose(2, 0, 1))
    with _opened(picture) as image:
        image.draft(image.mode, (2 * side, 2 * side))
        upright = _flat(_upright(image))
    bilinear = pillow().Resampling.BILINEAR
    square = np.asarray(upright.convert(colours).resize((side, side), resample=bilinear))
    return np.ascontiguousarray(np.atleast_3d(square).transpose(2, 0, 1))


def thumbnail(picture: Picture, largest: int = LARGEST_VIEW) -> tuple[bytes, str]:
    """Encode an image for a page. Large images are reduced, and tiny ones enlarged.

    Returns:
        The encoded image and its media type.
    """
    resampling = pillow().Resampling
    with _opened(picture) as image:
        image.draft(image.mode, (2 * largest, 2 * largest))
        flat = _flat(_upright(image))
    if max(flat.size) > largest:
        flat.thumbnail((largest, largest), resampling.LANCZOS)
        return _encoded(flat, "JPEG"), "image/jpeg"
    # Tiny images are enlarged by whole factors and without blurring, so that a reviewer sees the
    # pixels.
    times = max(1, round(SMALLEST_VIEW / max(flat.size)))
    larger = (flat.width * times, flat.height * times)
    return _encoded(flat.resize(larger, resample=resampling.NEAREST), "PNG"), "image/png"


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Suppress Pillow's warnings about metadata, which appear for each file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def in_threads(make: Callable[[int], Made], positions: Sequence[int]) -> list[Made]:
    """Call a function for each position, with a thread per processor. Results are in order."""
    with quiet_pillow(), ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(make, positions))


def check_pictures(
    stamps: Sequence[str], read: Reader, cache: Path | None
) -> list[PictureFacts | str]:
    """Return the facts of each image, or the reason why it cannot be read.

    Every image is decoded, because there is no other way to see if a file is complete. Thousands of
    images take minutes, so `cache` stores the result. Only changed images are decoded again.

    Args:
        stamps: one text per image that changes if the image changes.
        read: returns the images.
        cache: a directory, created if necessary, or None.
    """
    require_pillow()
    known = {} if cache is None else _read_known(cache / REMEMBERED)
    unknown = [row for row, stamp in enumerate(stamps) if stamp not in known]

    def look(row: int) -> PictureFacts | str:
        try:
            return look_at(read(row))
        except UnreadablePictureError as error:
            return f"cannot be decoded ({error})"
        except OSError as error:
            return f"cannot be read ({error.strerror or error})"

    for row, found in zip(unknown, in_threads(look, unknown), strict=True):
        known[stamps[row]] = found
    if unknown and cache is not None:
        _write_known(cache / REMEMBERED, {stamp: known[stamp] for stamp in stamps})
    return [known[stamp] for stamp in stamps]


def file_stamp(file: Path) -> str:
    """Return a text that changes if a file changes."""
    try:
        status = file.stat()
    except (OSError, ValueError):  # missing file or invalid name: reading it later raises the error
        return str(file)
    return f"{file} {status.st_size} {status.st_mtime_ns}"


def _read_known(path: Path) -> dict[str, PictureFacts | str]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {
            stamp: found if isinstance(found, str) else PictureFacts(*found)
            for stamp, found in kept.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # missing or damaged: decode the images again


def _write_known(path: Path, known: dict[str, PictureFacts | str]) -> None:
    content = {
        stamp: found if isinstance(found, str) else astuple(found) for stamp, found in known.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(content), encoding="utf-8")


@contextmanager
def _opened(picture: Picture) -> Iterator[Image]:
    try:
        if isinstance(picture, bytes):
            with pillow().open(io.BytesIO(picture), formats=AUDIT_FORMATS) as image:
                yield image
        elif isinstance(picture, np.ndarray):
            yield pillow().fromarray(np.ascontiguousarray(picture))
        else:
            yield picture.copy()  # the user's image must not change
    except MemoryError:
        raise
    except Exception as error:  # decoders raise many types for a damaged file
        # Pillow's message ends with the name of a buffer, which is removed.
        reason = str(error).partition("<_io")[0].strip() or type(error).__name__
        raise UnreadablePictureError("the file is empty" if picture == b"" else reason) from error


def _upright(image: Image) -> Image:
    from PIL import ImageOps

    image.load()
    return ImageOps.exif_transpose(image)


def _flat(image: Image) -> Image:
    """Return an image with eight bits, grey or RGB, without transparency."""
    if image.mode.startswith(("I", "F")):
        return _eight_bits(image)
    if image.mode in ("1", "L"):
        return image.convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    # Transparent pixels may have any colour, so they become white, as on a page.
    opaque: Image = pillow().new("RGBA", image.size, "white")
    opaque.alpha_composite(image.convert("RGBA"))
    return opaque.convert("L" if image.mode in ("LA", "La") else "RGB")


def _eight_bits(image: Image) -> Image:
    """Convert a grey image of 16 bits or floats to eight bits."""
    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    low, high = values.min(), values.max()
    if image.mode.startswith("I") and low >= 0 and high < 2**16:
        low, high = 0.0, 255.0 if high < 2**8 else 2.0**16 - 1
    scaled = (values - low) * (255.0 / max(high - low, 1e-12))
    grey: Image = pillow().fromarray(scaled.round().astype(np.uint8))
    return grey


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
