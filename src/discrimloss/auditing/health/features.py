"""Samples as points that can be compared: few dense features for every kind of input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float32]
"""Shape (samples, features)."""


@dataclass(frozen=True)
class ComparedPoints:
    """Samples as points."""

    values: Points
    unexplained: npt.NDArray[np.float32] | None = None
    """Shape (samples,): the norm of what the principal components do not explain. None if the
    features are few or sparse."""


MOST_COMPONENTS = 64
"""Number of principal components. Up to twice as many features are not reduced."""
ROWS_OF_COMPONENTS = 5_000
"""Approximate number of samples from which the components are computed."""
LARGEST_PICTURE = 16
"""Images are reduced to at most this side length, so that copies of other sizes look the same."""


def comparable_points(inputs: Any, by_angle: bool = False) -> ComparedPoints:
    """Return the inputs of models as points, so that similar samples lie close to each other.

    Args:
        inputs: shape (samples, features), dense or sparse; or uint8 images of the shape
            (samples, channels, height, width).
        by_angle: whether to scale points to the length 1, so that only their directions are
            compared, as for word vectors and n-grams.
    """
    unexplained = None
    if hasattr(inputs, "tocsr"):
        points = _sparse_components(inputs.tocsr())
    else:
        array = np.asarray(inputs)
        points = _pixels(array) if array.ndim == 4 else array.reshape(len(array), -1)
        points = np.nan_to_num(points.astype(np.float32, copy=False))
        if points.shape[1] > 2 * MOST_COMPONENTS:
            points, unexplained = _components(points)
    if by_angle:
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        points = points / np.maximum(lengths, 1e-9)
    return ComparedPoints(np.ascontiguousarray(points, dtype=np.float32), unexplained)


def _pixels(pictures: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return the pixels of the reduced images, from 0 to 1: shape (samples, features)."""
    height, width = pictures.shape[2:]
    step = max(1, -(-max(height, width) // LARGEST_PICTURE))
    height, width = height // step * step, width // step * step
    blocks = pictures[:, :, :height, :width].reshape(
        len(pictures), pictures.shape[1], height // step, step, width // step, step
    )
    small = blocks.mean((3, 5), dtype=np.float32) / np.float32(255.0)
    return np.asarray(small.reshape(len(pictures), -1))


def _components(
    points: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the principal components of each sample, and the norm of what they do not explain.

    The directions are computed from samples at regular intervals.
    """
    step = max(1, len(points) // ROWS_OF_COMPONENTS)
    mean = points.mean(0)
    chosen = (points[::step] - mean).astype(np.float64)
    _, directions = np.linalg.eigh(chosen.T @ chosen)
    largest = directions[:, ::-1][:, :MOST_COMPONENTS].astype(np.float32)
    centred = points - mean
    components = np.asarray(centred @ largest)
    left = np.square(centred).sum(1) - np.square(components).sum(1)
    return components, np.sqrt(np.maximum(left, 0.0))


def _sparse_components(matrix: Any) -> npt.NDArray[np.float32]:
    from sklearn.decomposition import TruncatedSVD

    number = min(MOST_COMPONENTS, matrix.shape[1] - 1, matrix.shape[0] - 1)
    if number < 1:
        return np.asarray(matrix.toarray(), dtype=np.float32)
    step = max(1, matrix.shape[0] // ROWS_OF_COMPONENTS)
    found = TruncatedSVD(number, n_iter=2, random_state=0).fit(matrix[::step])
    return np.asarray(found.transform(matrix), dtype=np.float32)
