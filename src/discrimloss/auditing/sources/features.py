"""Features of any origin, made ready for a small network."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

ROWS_AT_ONCE = 65_536
SAME_UNIT = 1000.0  # largest ratio of the spreads of features that are of one kind, as pixels are


def standardised(features: npt.NDArray[np.generic]) -> Tensor:
    """Each feature with a mean of 0 and a spread of 1; one that never changes becomes 0.

    Where features are of one kind, such as pixels, one that varies less than most is not blown up:
    it keeps its size beside the others.

    Args:
        features: shape (samples, ...) of any number type, perhaps mapped from a file: it is read
            in blocks.

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


def _scales(
    mean: npt.NDArray[np.float64], spread: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    varies = spread > 1e-6 * np.maximum(1.0, np.abs(mean))
    scale = np.where(varies, spread, np.inf)
    if varies.any() and spread[varies].max() <= SAME_UNIT * spread[varies].min():
        scale = np.maximum(scale, np.median(spread[varies]))
    return scale


def finite_rows(features: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Which samples have numbers only, and neither NaN nor infinity: shape (samples,)."""
    flat = features.reshape(len(features), -1)
    if not np.issubdtype(flat.dtype, np.floating):
        return np.ones(len(flat), dtype=np.bool_)
    return np.concatenate([np.isfinite(flat[rows]).all(axis=1) for rows in _blocks(len(flat))])


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
