"""Datasets in the layouts of their publishers, and label noise.

>>> from discrimloss.data import datasets
>>> "mnist" in datasets.names()
True
"""

import warnings
from typing import Any

from discrimloss.data.base import DataError, Inputs, Split, TaskData, TensorInputs, datasets

__all__ = ["DataError", "Inputs", "Split", "TaskData", "TensorInputs", "datasets"]


def __getattr__(name: str) -> Any:
    if name != "Part":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        "discrimloss.data.Part is now discrimloss.data.Split; the old name will be removed in "
        "discrimloss 0.3",
        DeprecationWarning,
        stacklevel=2,
    )
    return Split
