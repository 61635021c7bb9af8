"""Checks whether the rows are in a non-random order, so that samples are not independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.health.neighbours import Neighbours

FEWEST_SAMPLES = 100
SIGNIFICANT = 1e-4
"""An order is reported only if its p-value is smaller than this."""
LEAST_EXCESS = 0.1
"""An order is reported only if the fraction of close rows exceeds that of shuffled rows by at least
this. With many rows, even a tiny difference is significant."""
CLOSE = 0.1
"""Two rows are close if their distance is at most this fraction of the number of rows."""
SHUFFLES = 20


@dataclass(frozen=True)
class RowOrder:
    """Whether similar samples stand close together in the order of the rows."""

    close_neighbours: float
    """The fraction of similar samples that stand close to each other."""
    by_chance: float
    """The same fraction for shuffled rows."""
    samples: npt.NDArray[np.int64]
    """Positions of the samples for which this fraction is unusually high."""


def find_row_order(
    neighbours: Neighbours, is_copy: npt.NDArray[np.bool_] | None = None
) -> RowOrder | None:
    """Compare the distances between the rows of similar samples with those in shuffled rows.

    Args:
        neighbours: the neighbours of all samples, in the order of the rows.
        is_copy: shape (samples, neighbours): pairs that are ignored. Copies often stand next to
            the original, and are reported as duplicates.

    Returns:
        The order, or None if it looks random or there are too few rows.
    """
    samples = len(neighbours.index)
    if samples < FEWEST_SAMPLES:
        return None
    counts = np.ones(neighbours.index.shape, bool) if is_copy is None else ~is_copy
    row = np.arange(samples)
    reach = CLOSE * samples
    is_close = (np.abs(neighbours.index - row[:, None]) <= reach) & counts
    number = int(counts.sum())
    if not number:
        return None
    observed = float(is_close.sum() / number)
    generator = np.random.default_rng(0)
    shuffled = []
    for _ in range(SHUFFLES):
        new_row = generator.permutation(samples)
        apart = np.abs(new_row[neighbours.index] - new_row[:, None])
        shuffled.append(float(((apart <= reach) & counts).sum() / number))
    expected, spread = float(np.mean(shuffled)), float(np.std(shuffled, ddof=1))
    least = max(LEAST_EXCESS, _normal_quantile(SIGNIFICANT) * spread)
    if observed < expected + least:
        return None
    of_sample = is_close.sum(1) / np.maximum(counts.sum(1), 1)
    behind = np.flatnonzero(of_sample >= min(1.0, 3.0 * expected + 0.3))
    return RowOrder(observed, expected, behind)


def _normal_quantile(probability: float) -> float:
    from scipy.stats import norm

    return float(-norm.ppf(probability))
