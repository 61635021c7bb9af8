"""Reads pickled arrays without executing code from the pickle."""

from __future__ import annotations

import codecs
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from discrimloss.data.base import DataError

_REBUILD = np.empty(0).__reduce__()[0]
_REBUILD_FROM_BUFFER = np.empty(0).__reduce_ex__(5)[0]

ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    # Python 3 writes bytes for Python 2 as a text and the name of its encoding.
    ("_codecs", "encode"): codecs.encode,
    # The names in NumPy 1 (`core`) and NumPy 2 (`_core`).
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _REBUILD for core in ("core", "_core")},
    **{
        (f"numpy.{core}.numeric", "_frombuffer"): _REBUILD_FROM_BUFFER for core in ("core", "_core")
    },
}
"""The globals that a pickled array needs. Numbers, texts, bytes, lists and dicts need none."""


class RestrictedUnpickler(pickle.Unpickler):
    """Reads numbers, texts, bytes, lists, dicts and NumPy arrays, and refuses anything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the object of this name if it is admitted, or raise an error."""
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it contains {module}.{name}, which is not data")
        return ADMITTED[module, name]


def read_pickled_dict(path: Path) -> dict[str, Any]:
    """Return a pickled dict of plain values and arrays, written by Python 2 or 3.

    Texts that Python 2 wrote may be bytes; see `as_text`.
    """
    try:
        with path.open("rb") as file:
            content = RestrictedUnpickler(file, encoding="bytes").load()
    except Exception as error:  # a broken pickle may raise anything
        reason = str(error) or type(error).__name__
        raise DataError(f"cannot read {path} ({reason}): download it again") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} does not hold a dict, as published: download it again")
    return {as_text(key): value for key, value in content.items()}


def as_text(value: object) -> str:
    """Return a value as text, decoded if Python 2 wrote it as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
