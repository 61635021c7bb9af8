"""Checks, standardises and caches features, and refuses them if they do not fit into memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.contents import Contents, ModelInputs, SampleView
from discrimloss.data.base import TensorInputs
from discrimloss.errors import is_first_process
from discrimloss.training.processes import divided, is_divided, of_first, process_number

Array = npt.NDArray[Any]
OnRows = Callable[[int, int], None]
"""Reports progress. Arguments: number of encoded samples, number of all samples."""

ROWS_AT_ONCE = 65_536
SAME_UNIT = 1000.0  # largest ratio of standard deviations for features of one kind, such as pixels
FEATURES_SHOWN = 8
ROWS_IN_CHECKSUM = 1_000
GIGABYTE = 1 << 30
_MEMINFO = Path("/proc/meminfo")
_npy: Any = np.lib.format  # without types
_on_rows: ContextVar[OnRows | None] = ContextVar("on_rows", default=None)


class Features(Contents):
    """Features from any model, e.g. embeddings.

    Args:
        features: numbers, shape (rows, ...). May be a memory map.
        rows: shape (samples,): the row of each sample.
    """

    kind = "features"

    def __init__(self, features: Array, rows: npt.NDArray[np.int64]) -> None:
        self._features, self._rows = features, rows

    def model_inputs(self, cache: Path | None, fingerprint: str) -> ModelInputs:
        """Return the features, standardised to mean 0 and standard deviation 1."""
        all_rows = len(self._rows) == len(self._features)
        features = standardised(self._features if all_rows else self._features[self._rows])
        return ModelInputs(TensorInputs(features), tuple(features.shape[1:]))

    def raw_inputs(self) -> Array:
        """Return the unchanged features."""
        rows: Array = np.asarray(self._features)[self._rows]
        return rows

    def view(self, index: int, close: bool = False) -> SampleView:
        """Return the first few features."""
        values = self._features[self._rows[index]].ravel()
        shown = ", ".join(f"{value:.4g}" for value in values[:FEATURES_SHOWN].tolist())
        more = f" … ({len(values):,} in all)" if len(values) > FEATURES_SHOWN else ""
        return SampleView(fields=(("features", shown + more),))


def standardised(features: npt.NDArray[np.generic]) -> Tensor:
    """Standardise features to mean 0 and standard deviation 1. A constant feature becomes 0.

    If all features are of one kind, such as pixels, features that vary less than most are not
    enlarged: they keep their size relative to the others.

    Args:
        features: numbers of any type, shape (samples, ...). May be a memory map, which is read in
            blocks.

    Returns:
        Shape (samples, features), float32.
    """
    flat = features.reshape(len(features), -1)
    mean, spread = _statistics(flat)
    scale = _scales(mean, spread)
    result = np.empty(flat.shape, dtype=np.float32)
    for rows in _blocks(len(flat)):
        result[rows] = (flat[rows].astype(np.float64) - mean) / scale
    return torch.from_numpy(result)


def finite_rows(features: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Return whether each sample has only finite values, shape (samples,)."""
    flat = features.reshape(len(features), -1)
    if not np.issubdtype(flat.dtype, np.floating):
        return np.ones(len(flat), dtype=np.bool_)
    return np.concatenate([np.isfinite(flat[rows]).all(axis=1) for rows in _blocks(len(flat))])


def not_finite(features: Array) -> dict[int, str]:
    """Return the rows that cannot be used, with the reason."""
    rows = np.flatnonzero(~finite_rows(features)).tolist()
    return dict.fromkeys(rows, "a feature is NaN or infinite")


def require_numbers(features: Array, name: str) -> Array:
    """Return features, or raise a `SourceError` if they are not numbers.

    Args:
        features: an array of any type and shape.
        name: name of the array or the file, for the message.
    """
    if features.dtype.kind not in "biuf":
        raise SourceError(f"{name} contains {features.dtype}, not numbers: pass numbers")
    if features.ndim == 0 or features.size == 0:
        raise SourceError(f"{name} has the shape {features.shape}: there is nothing to audit")
    return features


def array_checksum(features: Array) -> str:
    """Return a checksum of evenly spaced rows, because all rows may not fit into memory."""
    step = max(1, len(features) // ROWS_IN_CHECKSUM)
    digest = hashlib.sha256(repr((features.shape, str(features.dtype))).encode())
    digest.update(np.ascontiguousarray(features[::step]).tobytes())
    return digest.hexdigest()


def _scales(
    mean: npt.NDArray[np.float64], spread: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    varies = spread > 1e-6 * np.maximum(1.0, np.abs(mean))
    scale = np.where(varies, spread, np.inf)
    if varies.any() and spread[varies].max() <= SAME_UNIT * spread[varies].min():
        scale = np.maximum(scale, np.median(spread[varies]))
    return scale


def _statistics(
    flat: npt.NDArray[np.generic],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    mean = np.zeros(flat.shape[1])
    for rows in _blocks(len(flat)):
        mean += flat[rows].sum(axis=0, dtype=np.float64) / len(flat)
    variance = np.zeros(flat.shape[1])
    for rows in _blocks(len(flat)):
        variance += ((flat[rows].astype(np.float64) - mean) ** 2).sum(axis=0) / len(flat)
    return mean, np.sqrt(variance)


def _blocks(num_rows: int) -> list[slice]:
    return [slice(first, first + ROWS_AT_ONCE) for first in range(0, num_rows, ROWS_AT_ONCE)]


def cache_file(cache: Path | None, name: str, *key: object) -> Path | None:
    """Return the file of a cached array, or None without a cache.

    Args:
        cache: a directory.
        name: name of the array.
        key: everything that the array depends on. A different key gives a different file.
    """
    if cache is None:
        return None
    return cache / f"{name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.npy"


@contextmanager
def watched_rows(on_rows: OnRows) -> Iterator[None]:
    """Call a function after each batch that `cached_rows` computes within the block."""
    token = _on_rows.set(on_rows)
    try:
        yield
    finally:
        _on_rows.reset(token)


def cached_rows(
    path: Path | None, num_rows: int, make: Callable[[int, int], Array], batch_size: int
) -> Array:
    """Compute an array batch by batch, or map it from its file if it exists.

    An interrupted computation continues where it stopped. With several processes, each computes
    some of the batches, all get all rows, and the first writes the file.

    Args:
        path: the file, see `cache_file`. None keeps the array in memory. Only the path of the
            first process is used.
        num_rows: number of rows, at least 1.
        make: computes the rows from a first row up to, but not including, a last row. It returns
            shape (rows, ...), always with the same type and the same shape per row.
        batch_size: number of rows to compute at once.
    """
    if is_divided() and not is_first_process():
        for _ in _batches(0, num_rows, make, batch_size):
            pass
        return _rows_of_first(None, num_rows)
    if path is None:
        rows: Array = np.concatenate(list(_batches(0, num_rows, make, batch_size)))
        return _rows_of_first(rows, num_rows)
    if path.is_file():
        # All batches are done. This call only lets the other processes know.
        list(_batches(num_rows, num_rows, make, batch_size))
    else:
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
    # Copy-on-write, because torch needs a writable array. The file never changes.
    return _rows_of_first(np.load(path, mmap_mode="c", allow_pickle=False), num_rows)


def _batches(
    done: int, num_rows: int, make: Callable[[int, int], Array], batch_size: int
) -> Iterator[Array]:
    """Yield the batches of all processes in order, without those that the first process has.

    Args:
        done: number of rows that this process has. Only that of the first process is used.
        num_rows: see `cached_rows`.
        make: see `cached_rows`.
        batch_size: see `cached_rows`.
    """
    firsts = range(of_first(lambda: done), num_rows, batch_size)
    on_rows = _on_rows.get()
    for place in range(0, len(firsts), process_number()):
        together = firsts[place : place + process_number()]
        yield from divided(
            together,
            lambda first: np.ascontiguousarray(make(first, min(first + batch_size, num_rows))),
        )
        if on_rows is not None:
            on_rows(min(together[-1] + batch_size, num_rows), num_rows)


def _rows_of_first(rows: Array | None, num_rows: int) -> Array:
    """Send all rows from the first process to the others, and return them in every process."""

    def block_of_first(block: slice) -> Array:
        assert rows is not None
        return np.array(rows[block])

    if is_divided():
        received = [of_first(partial(block_of_first, block)) for block in _blocks(num_rows)]
        rows = np.concatenate(received) if rows is None else rows
    assert rows is not None
    return rows


def _make_rows(
    path: Path, num_rows: int, make: Callable[[int, int], Array], batch_size: int
) -> None:
    with path.open("a+b") as file:
        done = _complete_rows(file, num_rows)
        for batch in _batches(done, num_rows, make, batch_size):
            if done == 0:
                header = {"shape": (num_rows, *batch.shape[1:]), "fortran_order": False}
                header["descr"] = _npy.dtype_to_descr(batch.dtype)
                _npy.write_array_header_1_0(file, header)
            file.write(batch.tobytes())
            file.flush()
            done += len(batch)


def _complete_rows(file: BinaryIO, num_rows: int) -> int:
    """Count the complete rows of a file, and cut off a partly written row."""
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


def free_memory() -> int | None:
    """Return the bytes that are available without swapping, or None if unknown."""
    try:
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def require_memory(needed: float, what: str) -> None:
    """Raise a `SourceError` if there is clearly too little memory.

    Args:
        needed: estimated number of bytes.
        what: what needs the memory, as the beginning of a sentence.
    """
    free = free_memory()
    if free is not None and needed > free:
        raise SourceError(
            f"{what} needs about {needed / GIGABYTE:.1f} GB of memory, and {free / GIGABYTE:.1f} GB"
            " are free: audit a part of it, leave out columns, or use a larger machine"
        )
