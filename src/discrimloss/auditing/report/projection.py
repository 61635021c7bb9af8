"""Projects samples to points in a plane, linearly, from the inputs of the models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.base import AuditSource
from discrimloss.auditing.sources.columns import Columns
from discrimloss.auditing.sources.images import Pictures
from discrimloss.auditing.sources.pictures import in_threads, square_pixels
from discrimloss.auditing.sources.text import Texts, hashed_ngrams
from discrimloss.auditing.sources.word_vectors import has_word_vectors, mean_word_vectors

Numbers = npt.NDArray[np.float64]

COMPONENTS = 30
"""Number of principal components, from which two directions are chosen."""
SIDE = 12
"""Side of the compared images, in pixels."""
BUCKETS = 2**13
RIDGE = 0.1
"""Added to the variance within classes, relative to its mean. Directions that separate only a few
samples then have little effect."""


def map_features(
    source: AuditSource, rows: Sequence[int], cache: Path | None
) -> npt.NDArray[Any] | Any:
    """Return the inputs of models for some samples, shape (samples, features), dense or sparse.

    Args:
        source: the audited source.
        rows: the samples.
        cache: the directory with cached results of the audit, or None.
    """
    contents = source.contents
    if isinstance(contents, Texts):
        if (encoded := contents.encoded(cache, source.fingerprint())) is not None:
            return encoded[np.asarray(rows)]
        texts = [contents.texts[row] for row in rows]
        return mean_word_vectors(texts) if has_word_vectors() else _ngrams(texts)
    if isinstance(contents, Columns):
        return contents.ordinal_and_features()[1][np.asarray(rows)]
    if isinstance(contents, Pictures) and not contents.is_encoded:
        colours = contents.colours
        squares = in_threads(lambda row: square_pixels(contents.read(row), SIDE, colours), rows)
        return np.stack(squares).reshape(len(squares), -1) / 255.0
    inputs: Any = contents.model_inputs(cache, source.fingerprint()).inputs
    tensor = inputs.tensor[list(rows)]
    return tensor.reshape(len(rows), -1).numpy()


def _ngrams(texts: Sequence[str]) -> Any:
    from scipy import sparse

    found = hashed_ngrams(texts, BUCKETS)
    parts = (found.weights.numpy(), found.ids.numpy(), found.begins.numpy())
    return sparse.csr_matrix(parts, shape=(len(texts), found.num_buckets))


def plane(features: Any, target: npt.NDArray[Any], is_regression: bool) -> Numbers:
    """Place samples in a plane so that classes, or low and high targets, are separated.

    First, principal components are computed. The plane consists of two linear discriminants: the
    directions in which the classes differ most relative to the variance within classes. With two
    classes or a regression target there is only one such direction. The second is then the
    direction of largest variance orthogonal to it.

    Args:
        features: shape (samples, features), dense or sparse; at least two samples.
        target: shape (samples,): classes or regression targets.
        is_regression: whether `target` has regression targets.

    Returns:
        Shape (samples, 2), with a standard deviation of about 1 in each direction.
    """
    components = _components(features)
    directions = (
        _of_target(components, target) if is_regression else _of_classes(components, target)
    )
    first = components @ directions
    if first.shape[1] < 2:
        rest = components - _explained(components, first)
        second = rest @ _leading(rest.T @ rest, 1)
        first = np.hstack([first, second])
    spread = first.std(axis=0)
    placed: Numbers = (first - first.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    return placed


def _components(features: Any) -> Numbers:
    from sklearn.decomposition import PCA, TruncatedSVD

    number = min(COMPONENTS, features.shape[0] - 1, features.shape[1] - 1)
    with np.errstate(invalid="ignore", divide="ignore"):  # all samples may be equal
        if hasattr(features, "tocsr"):
            found = TruncatedSVD(max(number, 1), random_state=0).fit_transform(features)
        else:
            found = np.nan_to_num(np.asarray(features, dtype=np.float64), posinf=0.0, neginf=0.0)
            if number >= 1:
                found = PCA(number, random_state=0).fit_transform(found)
    centred: Numbers = found - found.mean(axis=0)
    return centred


def _of_classes(components: Numbers, target: npt.NDArray[Any]) -> Numbers:
    """Return the directions in which class means differ most, relative to the variance."""
    classes, place = np.unique(target, return_inverse=True)
    width = components.shape[1]
    if len(classes) < 2:
        return _leading(components.T @ components, min(2, width))
    members = np.zeros((len(classes), len(components)))
    members[place, np.arange(len(components))] = 1.0
    count = members.sum(axis=1, keepdims=True)
    means = members @ components / count
    inside = components - means[place]
    within = inside.T @ inside / len(components)
    within += RIDGE * np.trace(within) / width * np.eye(width) + 1e-9 * np.eye(width)
    between = (means * count).T @ means / len(components)
    roots, axes = np.linalg.eigh(within)
    whitening = axes / np.sqrt(roots)
    leading = _leading(whitening.T @ between @ whitening, min(2, len(classes) - 1, width))
    directions: Numbers = whitening @ leading
    return directions


def _of_target(components: Numbers, target: npt.NDArray[Any]) -> Numbers:
    """Return the direction that best predicts the ranks of the target (ridge regression)."""
    ranks = np.argsort(np.argsort(np.asarray(target, dtype=np.float64))).astype(np.float64)
    gram = components.T @ components
    gram += RIDGE * max(np.trace(gram) / len(gram), 1e-9) * np.eye(len(gram))
    direction: Numbers = np.linalg.solve(gram, components.T @ (ranks - ranks.mean()))
    return direction[:, None]


def _explained(components: Numbers, along: Numbers) -> Numbers:
    """Return the projection of the components onto a direction."""
    fitted, *_ = np.linalg.lstsq(along, components, rcond=None)
    part: Numbers = along @ fitted
    return part


def _leading(matrix: Numbers, number: int) -> Numbers:
    """Return the eigenvectors with the largest eigenvalues, with a deterministic sign."""
    _, vectors = np.linalg.eigh(matrix)
    leading: Numbers = vectors[:, ::-1][:, :number]
    largest = np.abs(leading).argmax(axis=0)
    signs = np.sign(leading[largest, np.arange(leading.shape[1])])
    signed: Numbers = leading * np.where(signs == 0, 1.0, signs)
    return signed
