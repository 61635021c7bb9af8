"""The transition matrix T of Patrini et al. (2017), from true classes to labels."""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST_PROBABILITY = 1e-7
"""The authors' code raises smaller probabilities to this value, the epsilon of its framework."""


def symmetric_transition(num_classes: int, noise_rate: float) -> Tensor:
    """Return the matrix of noise with equally frequent wrong classes, shape (classes, classes).

    >>> symmetric_transition(3, 0.2)
    tensor([[0.8000, 0.1000, 0.1000],
            [0.1000, 0.8000, 0.1000],
            [0.1000, 0.1000, 0.8000]], dtype=torch.float64)
    """
    highest = 1.0 - 1.0 / num_classes
    if not 0.0 <= noise_rate < highest:
        raise ValueError(
            f"noise_rate must be at least 0 and below {highest:.4g}, where labels of {num_classes} "
            f"classes carry no information, not {noise_rate}"
        )
    off_diagonal = noise_rate / (num_classes - 1)
    matrix = torch.full((num_classes, num_classes), off_diagonal, dtype=torch.float64)
    return matrix.fill_diagonal_(1.0 - noise_rate)


def checked_transition(rows: tuple[tuple[float, ...], ...], size: int) -> Tensor:
    """Return a given matrix as a tensor, shape (classes, classes), or raise a `ValueError`.

    Args:
        rows: for each true class, the probability that it is labelled as each class.
        size: number of classes.
    """
    if len(rows) != size or any(len(row) != size for row in rows):
        raise ValueError(f"transition must have {size} rows of {size} numbers, one for each class")
    matrix = torch.as_tensor(rows, dtype=torch.float64)
    sums = matrix.sum(1, keepdim=True)
    if not (matrix >= 0).all() or not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise ValueError("each row of transition must contain probabilities that sum to 1")
    return matrix / sums


def require_possible_labels(transition: Tensor, target: Tensor) -> None:
    """Raise a `ValueError` if a label occurs whose probability is 0 for every class."""
    impossible = (transition.sum(0) == 0) & (target.bincount(minlength=len(transition)) > 0)
    if impossible.any():
        label = int(impossible.nonzero()[0])
        raise ValueError(
            f"transition gives label {label} a probability of 0, but some samples have this label"
        )


def anchor_transition(probabilities: Tensor, label_counts: Tensor, percentile: float) -> Tensor:
    """Estimate the matrix from an anchor of each class (Patrini et al. 2017).

    The anchor of class i is the sample that most likely belongs to it, and its prediction is row i.
    A `percentile` below 100 skips the most likely samples, which may be outliers. If it would skip
    more than half of the samples of a class, the anchor of that class is the most likely sample.

    Args:
        probabilities: shape (samples, classes): predictions; a row of zeros is skipped.
        label_counts: shape (classes,): how often each label occurs.
        percentile: above 0, at most 100.
    """
    seen = probabilities[probabilities.sum(1) > 0].double()
    passed_over = round((1.0 - percentile / 100.0) * len(seen))
    rank = torch.where(passed_over <= label_counts / 2, passed_over, 0).clamp(max=len(seen) - 1)
    order = seen.argsort(dim=0, descending=True, stable=True)
    anchors = order.gather(0, rank[None].to(order.device)).squeeze(0)
    matrix = seen[anchors].clamp(min=SMALLEST_PROBABILITY)
    return matrix / matrix.sum(1, keepdim=True)


def log_label_probability(log_probabilities: Tensor, target: Tensor, transition: Tensor) -> Tensor:
    """Return ``log((T^T p)_y)`` for the label y and the class probabilities p, shape (batch,).

    The computation uses logarithms. A label with ``p_y = 0`` therefore has a finite loss and a
    gradient. The authors clip p instead.
    """
    log_columns = transition.log().T.to(log_probabilities.dtype)[target]
    return torch.logsumexp(log_probabilities + log_columns, dim=1)
