"""Image files to uint8 pixels: one at a time, or many at once with a cache."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.data.base import DataError

CACHE_VARIABLE = "DISCRIMLOSS_CACHE"
FORMATS = ("JPEG", "PNG", "BMP", "GIF")
"""What images from the web are, whatever their names say. To try all others takes seconds."""

Pixels = npt.NDArray[np.uint8]


def decode_square(path: Path, size: int) -> Tensor:
    """The middle square of an image, its side scaled to `size`: shape (3, size, size), uint8.

    The same as scaling the shorter side to `size` and cutting a square out of the middle. A
    `DataError` names a file that is missing or cannot be read.
    """
    return torch.from_numpy(_read_pixels(pillow(), path, size))


def _read_pixels(image_module: Any, path: Path, size: int) -> Pixels:
    try:
        with image_module.open(path, formats=FORMATS) as image:
            side = min(image.size)
            left, top = (image.width - side) / 2, (image.height - side) / 2
            square = (image if image.mode == "RGB" else image.convert("RGB")).resize(
                (size, size),
                resample=image_module.Resampling.BILINEAR,
                box=(left, top, left + side, top + side),
            )
    except MemoryError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"there is no image {path}: check that the download is complete") from error
    except Exception as error:  # whatever a broken file makes a decoder do
        reason = str(error) or type(error).__name__
        raise DataError(
            f"the image {path} cannot be read ({reason}): get the file once more"
        ) from error
    return np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))


def pillow() -> Any:
    """Pillow's module of images, or a sentence that says how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError("reading image files needs Pillow: `pip install pillow`") from error
    return Image


@dataclass(frozen=True)
class DecodedImages:
    """Images that were decoded, and which could not be."""

    pixels: Tensor
    """Shape (readable files, 3, size, size), uint8."""
    readable: Tensor
    """Shape (files,), bool."""


def decode_all(paths: Sequence[Path], size: int) -> DecodedImages:
    """All images in memory, decoded by as many threads as there are processors.

    With the environment variable ``DISCRIMLOSS_CACHE`` set to a directory the result is kept there
    and mapped into memory the next time, as long as the names and sizes of the files are the same.
    Images of which one cannot be read are not kept.
    """
    cache = _cache_file(paths, size)
    if cache is not None and (kept := _read_cache(cache, (len(paths), 3, size, size))) is not None:
        return DecodedImages(kept, torch.ones(len(paths), dtype=torch.bool))
    pixels = np.empty((len(paths), 3, size, size), dtype=np.uint8)

    image_module = pillow()

    def decode(row: int) -> bool:
        try:
            pixels[row] = _read_pixels(image_module, paths[row], size)
        except DataError:
            return False
        return True

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        readable = torch.tensor(list(threads.map(decode, range(len(paths)))), dtype=torch.bool)
    if not readable.all():
        return DecodedImages(torch.from_numpy(pixels)[readable], readable)
    if cache is not None:
        _write_cache(cache, pixels)
        kept = _read_cache(cache, pixels.shape)
        return DecodedImages(torch.from_numpy(pixels) if kept is None else kept, readable)
    return DecodedImages(torch.from_numpy(pixels), readable)


def _cache_file(paths: Sequence[Path], size: int) -> Path | None:
    directory = os.environ.get(CACHE_VARIABLE)
    if not directory:
        return None
    files = "\n".join(f"{path.name} {path.stat().st_size}" for path in paths)
    key = hashlib.sha256(f"{size}\n{files}".encode()).hexdigest()[:16]
    return Path(directory) / f"images-{size}-{key}.npy"


def _read_cache(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    try:
        # Copy-on-write, as torch wants an array that may be written to; the file never is.
        pixels = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if pixels.shape != shape or pixels.dtype != np.uint8:
        return None
    return torch.from_numpy(pixels)


def _write_cache(path: Path, pixels: Pixels) -> None:
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            temporary = Path(file.name)
            np.save(file, pixels)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise DataError(
            f"cannot keep decoded images in {path.parent} ({error.strerror}): "
            f"set {CACHE_VARIABLE} to another directory or unset it"
        ) from error
