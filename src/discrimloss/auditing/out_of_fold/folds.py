"""Assigns samples to folds, and selects rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FOLDS, FOLDS_OF_FEW = 5, 10
FEW_SAMPLES = 500
"""With fewer samples, there are more folds, so that models learn from more samples."""

Folds = npt.NDArray[np.int8]


def stratified_folds(target: npt.NDArray[np.int64], seed: int) -> Folds:
    """Return the fold of each sample, shape (samples,).

    Each class is spread evenly over the folds, so a class of two or more samples is in the
    training data of every fold.

    Args:
        target: positions of classes.
        seed: seed of the random order within each class.
    """
    number = min(FOLDS if len(target) >= FEW_SAMPLES else FOLDS_OF_FEW, max(len(target), 2))
    order = np.random.default_rng(seed).permutation(len(target))
    order = order[np.argsort(target[order], kind="stable")]
    folds = np.empty(len(target), dtype=np.int8)
    # Assign folds class by class, so that classes and samples are spread evenly.
    folds[order] = np.arange(len(target)) % number
    return folds


def rows_of(inputs: Any, rows: npt.NDArray[np.integer[Any]]) -> Any:
    """Return some rows of an array, a sparse matrix or a data frame."""
    return inputs.iloc[rows] if hasattr(inputs, "iloc") else inputs[rows]
