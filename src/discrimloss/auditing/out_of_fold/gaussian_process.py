"""Gaussian process regression: leave-one-out predictions in closed form, with weighted targets.

The kernel is the sum of a Matern kernel of order 5/2, with a length scale for each feature, and a
linear kernel. The noise variance of a target of weight w is proportional to 1 / w, so distrusted
targets have little influence.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.judging.optimization import minimize
from discrimloss.training.processes import divided, of_first

Array = npt.NDArray[np.float64]

ROWS_FITTED = 300
"""Number of rows for choosing the kernel."""
GROUP_SIZE = 2_500
"""More samples are divided into groups of about this size, because the cost is cubic."""
MOST_LENGTH_SCALES = 64
"""With more features, all have the same length scale."""
ITERATIONS, TOLERANCE = 25, 1e-4
SMALLEST_WEIGHT = 1e-3
NUGGET = 1e-4
"""Smallest noise variance. Targets have a variance of about 1."""


class GaussianProcess:
    """A Gaussian process for targets of about mean 0 and variance 1.

    Args:
        features: shape (samples, features), each with about mean 0 and variance 1.
        seed: seed for the rows with which the kernel is chosen.
    """

    def __init__(self, features: Array, seed: int) -> None:
        self._features = torch.from_numpy(features)
        self._order = np.random.default_rng(seed).permutation(len(features))
        self._parameters: Tensor | None = None

    def leave_one_out(self, target: Array, weight: Array) -> Array:
        """Predict each sample from all other samples of its group: shape (samples,).

        The search for the best kernel starts from the kernel of the last call.

        Args:
            target: shape (samples,).
            weight: shape (samples,), 0 to 1.
        """
        given = torch.from_numpy(target)
        weights = torch.from_numpy(weight).clamp(min=SMALLEST_WEIGHT)
        trusted = self._order[np.argsort(weight[self._order] <= 0.5, kind="stable")]
        rows = torch.from_numpy(trusted[:ROWS_FITTED])
        parameters = of_first(
            lambda: _fitted(self._features[rows], given[rows], weights[rows], self._parameters)
        )
        self._parameters = parameters

        def predicted(group: npt.NDArray[np.int64]) -> Array:
            some = torch.from_numpy(group)
            covariance = _covariance(self._features[some], weights[some], parameters)
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
            error = (inverse @ given[some]) / inverse.diagonal()
            return np.asarray((given[some] - error).numpy())

        groups = np.array_split(self._order, max(1, round(len(target) / GROUP_SIZE)))
        prediction = np.empty(len(target))
        for group, one in zip(groups, divided(groups, predicted), strict=True):
            prediction[group] = one
        return prediction


def _fitted(features: Tensor, target: Tensor, weight: Tensor, start: Tensor | None) -> Tensor:
    """Return the parameters of the kernel: the log length scales, and log standard deviations.

    The standard deviations are those of the noise, the linear kernel and the Matern kernel.
    """
    number = features.shape[1] if features.shape[1] <= MOST_LENGTH_SCALES else 1
    usual_length = 0.5 * math.log(features.shape[1]) + 0.5
    usual = torch.tensor([usual_length] * number + [-1.0, -1.0, 0.0], dtype=torch.float64)
    firmness = torch.tensor([0.02] * number + [0.1, 0.1, 0.1], dtype=torch.float64)

    def objective(parameters: Tensor) -> Tensor:
        """Return the negative log posterior."""
        root = torch.linalg.cholesky(_covariance(features, weight, parameters))
        whitened = torch.linalg.solve_triangular(root, target[:, None], upper=False)
        misfit: Tensor = 0.5 * whitened.square().sum() + root.diagonal().log().sum()
        penalty: Tensor = (firmness * (parameters - usual).square()).sum()
        return misfit.add(penalty)

    with torch.enable_grad():
        return minimize(objective, usual if start is None else start, ITERATIONS, TOLERANCE)[1]


def _covariance(features: Tensor, weight: Tensor, parameters: Tensor) -> Tensor:
    """Return the covariance of the targets, shape (samples, samples)."""
    noise, linear, matern = (2.0 * parameters[-3:].clamp(-5.0, 5.0)).exp()
    scaled = features * (math.sqrt(5.0) / parameters[:-3].clamp(-8.0, 8.0).exp())
    squares = scaled.square().sum(1)
    distance = torch.addmm(squares, scaled, scaled.T, alpha=-2.0).add_(squares[:, None])
    distance = distance.clamp_(min=1e-12).sqrt()
    covariance = (distance.square() / 3.0).add_(distance).add_(1.0) * (-distance).exp()
    covariance = matern * covariance + (linear / features.shape[1] * features) @ features.T
    noisy: Tensor = covariance + torch.diag((noise + NUGGET) / weight)
    return noisy
