"""Arrays that are dear to make: kept in a file, and gone on with after an interruption."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.base import SourceError

Array = npt.NDArray[Any]

_npy: Any = np.lib.format  # without types


def cache_file(cache: Path, name: str, *key: object) -> Path:
    """Where an array is kept: another key is another file.

    Args:
        cache: a directory.
        name: what it is, for people.
        key: everything that the array depends on.
    """
    return cache / f"{name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.npy"


def cached_rows(
    path: Path, num_rows: int, make: Callable[[int, int], Array], batch_size: int
) -> Array:
    """An array, made batch by batch the first time, and mapped into memory from its file.

    What was made before an interruption is not made again.

    Args:
        path: the file, see `cache_file`.
        num_rows: how many rows it will have, at least 1.
        make: gives the rows from the first number to before the second: shape (rows, ...), always
            of the same type and shape per row.
        batch_size: how many rows to make at once.
    """
    if not path.is_file():
        unfinished = path.with_name(path.name + ".unfinished")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _make_rows(unfinished, num_rows, make, batch_size)
            unfinished.replace(path)
        except OSError as error:
            raise SourceError(
                f"cannot keep {path} ({error.strerror or error}): make room for it, or choose "
                "another --out"
            ) from error
    # Copy-on-write, as torch wants an array that may be written to; the file never is.
    rows: Array = np.load(path, mmap_mode="c", allow_pickle=False)
    return rows


def _make_rows(
    path: Path, num_rows: int, make: Callable[[int, int], Array], batch_size: int
) -> None:
    with path.open("a+b") as file:
        done = _complete_rows(file, num_rows)
        for first in range(done, num_rows, batch_size):
            batch = np.ascontiguousarray(make(first, min(first + batch_size, num_rows)))
            if first == 0:
                header = {"shape": (num_rows, *batch.shape[1:]), "fortran_order": False}
                header["descr"] = _npy.dtype_to_descr(batch.dtype)
                _npy.write_array_header_1_0(file, header)
            file.write(batch.tobytes())
            file.flush()


def _complete_rows(file: BinaryIO, num_rows: int) -> int:
    """How many rows a file holds; whatever comes behind them, a half-written row, is cut off."""
    try:
        file.seek(0)
        _npy.read_magic(file)
        shape, _, dtype = _npy.read_array_header_1_0(file)
    except (ValueError, EOFError):
        file.truncate(0)
        return 0
    start, row_size = file.tell(), dtype.itemsize * int(np.prod(shape[1:]))
    done = min(num_rows, (file.seek(0, 2) - start) // row_size) if shape[0] == num_rows else 0
    file.truncate(start + done * row_size if done else 0)
    file.seek(0, 2)
    return done
