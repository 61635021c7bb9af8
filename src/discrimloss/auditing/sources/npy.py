"""Reads arrays in NumPy files. Nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.features import Array

npy: Any = np.lib.format  # as Any, because its functions have no types


def load_array(path: Path, *, mapped: bool = False) -> Array:
    """Read a ``.npy`` file, or raise a `SourceError`."""
    try:
        if mapped:
            array: Array = npy.open_memmap(path, mode="r")
        else:
            # Opened here, because np.load does not close a broken file.
            with path.open("rb") as file:
                array = npy.read_array(file, allow_pickle=False)
    except FileNotFoundError as error:
        raise SourceError(f"there is no file {path}: check the path") from error
    except (OSError, ValueError, EOFError) as error:
        raise SourceError(f"cannot read {path}: {why_unreadable(error)}") from error
    return array


def why_unreadable(error: Exception) -> str:
    """Return why an array cannot be read, in a few words."""
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        return "it contains Python objects, which are never unpickled; save texts or numbers"
    return str(error).partition("\n")[0] or type(error).__name__
