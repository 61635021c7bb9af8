"""Finds the most similar samples of each sample.

Up to `MOST_EXACT` samples, scikit-learn compares all pairs. Beyond that, faiss assigns the samples
to cells and compares those of nearby cells, so the time grows with n^1.5 instead of n^2. Without
faiss, the samples are compared with a random subset.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.health.features import Points

NEIGHBOURS = 10
MOST_EXACT = 20_000
CELLS_SEARCHED = 16
POINTS_PER_CENTRE = 64
SEARCHES_PER_CALL = 65_536
WITHOUT_INDEX = (
    f"Only {MOST_EXACT:,} samples, drawn at random, were searched for similar samples: "
    "`pip install 'discrimloss[neighbours]'` compares all of them."
)


@dataclass(frozen=True)
class Neighbours:
    """The nearest other samples of each sample, nearest first."""

    index: npt.NDArray[np.int64]
    """Shape (samples, neighbours)."""
    distance: npt.NDArray[np.float32]
    """Euclidean distances, of the same shape."""
    notes: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """Number of neighbours of each sample."""
        return int(self.index.shape[1])


def find_neighbours(points: Points, number: int = NEIGHBOURS) -> Neighbours:
    """Find the nearest other samples of each sample.

    Args:
        points: shape (samples, features).
        number: number of neighbours of each sample. Fewer if there are too few samples.
    """
    samples = len(points)
    number = min(number, samples - 1)
    if number < 1:
        return Neighbours(np.empty((samples, 0), np.int64), np.empty((samples, 0), np.float32))
    if samples <= MOST_EXACT:
        return _without_self(*_exact(points, points, number + 1))
    if importlib.util.find_spec("faiss") is not None:
        return _without_self(*_by_cells(points, number + 1))
    chosen = np.sort(np.random.default_rng(0).choice(samples, MOST_EXACT, replace=False))
    distance, place = _exact(points, points[chosen], number + 1)
    return _without_self(distance, chosen[place], (WITHOUT_INDEX,))


def _exact(points: Points, among: Points, number: int) -> tuple[Any, Any]:
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=number, algorithm="brute").fit(among)
    distance, index = found.kneighbors(points)
    return distance, index


def _by_cells(points: Points, number: int) -> tuple[Any, Any]:
    import faiss
    import torch

    samples, width = points.shape
    faiss.omp_set_num_threads(torch.get_num_threads())
    cells = int(4 * samples**0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(width), width, cells)
    index.cp.niter, index.cp.seed = 10, 0
    index.cp.min_points_per_centroid = 1
    index.cp.max_points_per_centroid = POINTS_PER_CENTRE
    index.train(points)
    index.add(points)
    index.nprobe = CELLS_SEARCHED
    parts = [
        index.search(points[first : first + SEARCHES_PER_CALL], number)
        for first in range(0, samples, SEARCHES_PER_CALL)
    ]
    squared = np.concatenate([part[0] for part in parts])
    found = np.concatenate([part[1] for part in parts])
    # If the cells have too few samples, faiss returns -1. Repeat the farthest neighbour instead.
    for column in range(1, number):
        is_empty = found[:, column] < 0
        found[is_empty, column] = found[is_empty, column - 1]
        squared[is_empty, column] = squared[is_empty, column - 1]
    return np.sqrt(np.maximum(squared, 0.0)), found


def _without_self(distance: Any, index: Any, notes: tuple[str, ...] = ()) -> Neighbours:
    """Remove each sample from its own neighbours. If it has copies, it may not come first."""
    is_self = index == np.arange(len(index))[:, None]
    last = ~is_self.any(1)
    is_self[last, -1] = True
    is_self &= np.cumsum(is_self, 1) == 1
    shape = (len(index), index.shape[1] - 1)
    return Neighbours(
        np.asarray(index[~is_self].reshape(shape), dtype=np.int64),
        np.asarray(distance[~is_self].reshape(shape), dtype=np.float32),
        notes,
    )
