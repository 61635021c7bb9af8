"""Reads labels from a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.data.base import DataError

WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


def read_label_file(path: Path | str, key: str | None = None) -> Tensor:
    """Return the labels in a file, in the order of the file: shape (samples,), int64.

    Reading a file never executes code from it. Unknown pickled objects are refused.

    Args:
        path: a ``.npy`` file; a ``.npz`` file, from which one array is read; a ``.txt`` or ``.csv``
            file with one label per row (a ``.csv`` may have a header); or a ``.pt`` or ``.pth``
            file with a tensor, an array, or a dict of these, such as the files of CIFAR-10N.
        key: name of the array, e.g. ``"worse_label"``. Required only if the file has several.
    """
    path = Path(path)
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise DataError(
            f"cannot read labels from {path}: its name must end in one of {', '.join(_READERS)}"
        )
    if not path.is_file():
        raise DataError(f"there is no label file {path}: check the path")
    try:
        labels = read(path, key)
    except DataError:
        raise
    except Exception as error:  # a broken file may raise anything
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(
            f"cannot read labels from {path} ({reason}): "
            f"save them as a plain array of whole numbers"
        ) from error
    name = str(path) if key is None else f"{key!r} in {path}"
    if not is_integer(labels):
        raise DataError(f"labels must be whole numbers, but {name} contains {labels.dtype}")
    if labels.dim() != 1:
        raise DataError(
            f"there must be one label per sample, but {name} has shape {tuple(labels.shape)}"
        )
    return labels.long()


def is_integer(labels: Tensor) -> bool:
    """Return whether a tensor has an integer dtype. Booleans do not count."""
    kind = labels.dtype
    return not (kind.is_floating_point or kind.is_complex or kind == torch.bool)


def _read_npy(path: Path, key: str | None) -> Tensor:
    _refuse_key(path, key)
    # The file is opened here and below, because np.load does not close a broken archive.
    with path.open("rb") as file:
        return _as_tensor(np.load(file, allow_pickle=False))


def _read_npz(path: Path, key: str | None) -> Tensor:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return _as_tensor(archive[_checked_key(path, key, archive.files)])


def _read_torch(path: Path, key: str | None) -> Tensor:
    # Add only globals that are not yet admitted: the context manager removes all that it gets.
    known = torch.serialization.get_safe_globals()
    with torch.serialization.safe_globals([e for e in _numpy_arrays() if e not in known]):
        content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, dict):
        content = content[_checked_key(path, key, content)]
    else:
        _refuse_key(path, key)
    return content if isinstance(content, Tensor) else _as_tensor(np.asarray(content))


def _read_txt(path: Path, key: str | None) -> Tensor:
    _refuse_key(path, key)
    return _parse_rows(path, path.read_text(encoding="utf-8-sig").splitlines(), first_line=1)


def _read_csv(path: Path, key: str | None) -> Tensor:
    _refuse_key(path, key)
    rows = path.read_text(encoding="utf-8-sig").splitlines()
    has_heading = bool(rows) and rows[0].lstrip(' "')[:1].isalpha()
    return _parse_rows(path, rows[1:] if has_heading else rows, first_line=1 + has_heading)


def _parse_rows(path: Path, rows: list[str], first_line: int) -> Tensor:
    for line, row in enumerate(rows, start=first_line):
        # An empty row is an error too: leaving it out would shift all later labels.
        if not WHOLE_NUMBER.fullmatch(row.strip()):
            raise DataError(
                f"every row of {path} must be one whole number, but line {line} is {row[:40]!r}"
            )
    return torch.tensor([int(row) for row in rows], dtype=torch.int64)


_READERS: dict[str, Callable[[Path, str | None], Tensor]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".txt": _read_txt,
    ".csv": _read_csv,
    ".pt": _read_torch,
    ".pth": _read_torch,
}


def _as_tensor(array: npt.NDArray[np.generic]) -> Tensor:
    # In the native byte order, because torch accepts no other.
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))


def _numpy_arrays() -> list[Any]:
    """Return the globals that a pickled integer array needs, with their names in NumPy 1 and 2."""
    rebuild = np.empty(0).__reduce__()[0]
    kinds = [type(np.dtype(kind)) for kind in "bhilqBHILQ"]
    named = [(rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    return [np.ndarray, np.dtype, *kinds, *named]


def _checked_key(path: Path, key: str | None, keys: Iterable[object]) -> str:
    names = [str(name) for name in keys]
    if key is None and len(names) == 1:
        return names[0]
    if key not in names:
        wanted = "choose the key to read" if key is None else f"there is no {key!r}"
        raise DataError(f"{wanted} of {path}: it has {', '.join(names) or 'none'}")
    return key


def _refuse_key(path: Path, key: str | None) -> None:
    if key is not None:
        raise DataError(f"{path} contains one array of labels without names: read it without a key")
