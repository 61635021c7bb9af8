"""Out-of-fold predictions of candidates, and their blend."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from discrimloss.auditing.out_of_fold.candidates import Candidate
from discrimloss.auditing.out_of_fold.folds import Folds, rows_of
from discrimloss.judging.optimization import minimize
from discrimloss.training.processes import divided, of_first

MOST_FITTED = 20_000
"""Maximum number of training samples of a model. More samples take longer and hardly help."""
FEWEST_OF_CLASS = 50
"""Minimum number of training samples of each class, if available."""
PRIOR_WEIGHT = 0.005
"""Fraction of the class frequencies that is mixed into all probabilities, so that none is 0."""
MOST_BLENDED = 20_000
"""Maximum number of samples for the weights of the blend."""
ITERATIONS, TOLERANCE = 50, 1e-5

Progress = Callable[[], None]


def out_of_fold(
    candidates: Sequence[Candidate],
    target: npt.NDArray[np.int64],
    folds: Folds,
    classes: int,
    weights: npt.NDArray[np.float64] | None = None,
    progress: Progress = lambda: None,
) -> list[Tensor]:
    """Return log probabilities of each sample, from models that were not trained on it.

    If several processes share the work, each does some of the fits.

    Args:
        candidates: the models.
        target: given labels, as positions.
        folds: fold of each sample.
        classes: number of classes.
        weights: weights of the samples in training.
        progress: called after each fit of this process.

    Returns:
        For each candidate, shape (samples, classes), float32.
    """
    frequency = np.bincount(target, minlength=classes) / len(target)

    def predicted(fit: tuple[int, int]) -> npt.NDArray[np.float32]:
        number, fold = fit
        candidate, held = candidates[number], np.flatnonzero(folds == fold)
        rows = _training_rows(np.flatnonzero(folds != fold), target)
        probabilities = np.zeros((len(held), classes))
        if len(rows) == 0 or (target[rows] == target[rows[0]]).all():
            probabilities += frequency  # a single class: nothing to learn
        else:
            model = _fitted(candidate, rows, target, weights)
            known = model.predict_proba(rows_of(candidate.inputs, held))
            probabilities[:, np.asarray(model.classes_, dtype=np.int64)] = known
        mixed = (1.0 - PRIOR_WEIGHT) * probabilities + PRIOR_WEIGHT * frequency
        progress()
        return np.log(mixed).astype(np.float32)

    fits = [(number, fold) for number in range(len(candidates)) for fold in np.unique(folds)]
    results = np.empty((len(candidates), len(target), classes), dtype=np.float32)
    made = divided(fits, predicted)
    for number, fold in fits:
        results[number, folds == fold] = made.pop(0)  # keeps each in memory only once
    return list(torch.from_numpy(results))


def _fitted(
    candidate: Candidate,
    rows: npt.NDArray[np.int64],
    target: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64] | None,
) -> Any:
    model = candidate.make()
    given: dict[str, Any] = {}
    if weights is not None and candidate.takes_weights:
        given["sample_weight"] = weights[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that has not converged still predicts
        return model.fit(rows_of(candidate.inputs, rows), target[rows], **given)


def _training_rows(
    rows: npt.NDArray[np.int64], target: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return all rows, or a random subset if there are more than `MOST_FITTED`.

    The subset has at least `FEWEST_OF_CLASS` samples of each class, if available.
    """
    if len(rows) <= MOST_FITTED:
        return rows
    order = np.random.default_rng(0).permutation(len(rows))
    by_class = order[np.argsort(target[rows[order]], kind="stable")]
    labels = target[rows[by_class]]
    first_of_class = np.searchsorted(labels, labels)
    is_small = np.arange(len(labels)) - first_of_class < FEWEST_OF_CLASS
    chosen = np.union1d(order[:MOST_FITTED], by_class[is_small])
    return rows[chosen]


def blend(predicted: Sequence[Tensor], target: Tensor) -> tuple[Tensor, list[float]]:
    """Weight log probabilities so that the likelihood of the given labels is highest.

    The weights are not negative. Their sum is free, so that it also calibrates the confidence of
    the blend.

    Args:
        predicted: each of shape (samples, classes).
        target: given labels.

    Returns:
        Log probabilities of shape (samples, classes), and the weights.
    """
    rows = torch.randperm(len(target), generator=torch.Generator().manual_seed(0))[:MOST_BLENDED]
    stacked = torch.stack([one[rows] for one in predicted]).double()
    given = target[rows]

    def loss(log_weights: Tensor) -> Tensor:
        return cross_entropy(torch.einsum("m,msc->sc", log_weights.exp(), stacked), given)

    def best_weights() -> list[float]:
        start = torch.full((len(predicted),), -1.0, dtype=torch.float64)
        with torch.enable_grad():
            found: list[float] = minimize(loss, start, ITERATIONS, TOLERANCE)[1].exp().tolist()
        return found

    weights = of_first(best_weights)
    total = torch.zeros_like(predicted[0])
    for weight, one in zip(weights, predicted, strict=True):
        total += weight * one
    return total.log_softmax(1), weights
