"""The Lambert W function in torch, on the device of its argument."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from discrimloss.functional import at_least_float32

BRANCH_POINT = -math.exp(-1.0)
"""The lower end of the principal branch, where ``W = -1``."""
HALLEY_STEPS = 4
"""Number of Halley steps. Each triples the correct digits, so four are enough for a float64."""

_BRANCH_POINT_REST = 1.2428753672788363e-17  # -1/e minus its float64 value
_NEAR_BRANCH_POINT = 0.03  # in p, below which the series is exact to the last digit
# W = -1 + p - p^2/3 + ..., p = sqrt(2 (e x + 1)): the series solution of w exp(w) = x.
_SERIES = (
    -1.0,
    1.0,
    -1 / 3,
    11 / 72,
    -43 / 540,
    769 / 17280,
    -221 / 8505,
    680863 / 43545600,
    -1963 / 204120,
)


@torch.no_grad()
def lambert_w(x: Tensor) -> Tensor:
    """Return the ``w >= -1`` with ``w exp(w) = x``, elementwise. NaN for ``x < -1/e``.

    The result is at least float32. The operations do not depend on the values, so the host does not
    wait for the device. There is no gradient, because SuperLoss treats the result as a constant.

    >>> lambert_w(torch.tensor([BRANCH_POINT, 0.0, 1.0, math.e]))
    tensor([-1.0000,  0.0000,  0.5671,  1.0000])
    """
    x = at_least_float32(x)
    p = torch.sqrt(2.0 * math.e * _above_branch_point(x))
    series = _polynomial(p.clamp(max=1.5))
    # Elsewhere, take Halley steps from a first guess: the series, or log x - log log x for large x.
    log = torch.log1p(x.clamp(min=0.0))
    w = torch.where(x < 0.5, series, log - torch.log1p(log))
    for _ in range(HALLEY_STEPS):
        w = w - _halley_step(w, x)
    w = torch.where(p < _NEAR_BRANCH_POINT, series, w)  # here the steps would divide by p
    return torch.where(x == torch.inf, x, w)


def _above_branch_point(x: Tensor) -> Tensor:
    """Return ``x + 1/e``, exact near -1/e, where rounding 1/e would lose half of W's digits."""
    rounded = torch.tensor(BRANCH_POINT, dtype=x.dtype).item()
    rest = (BRANCH_POINT - rounded) + _BRANCH_POINT_REST
    above = (x - rounded) - rest
    # The float closest to -1/e may be slightly smaller, and is treated as -1/e.
    return torch.where(x == rounded, above.clamp(min=0.0), above)


def _polynomial(p: Tensor) -> Tensor:
    value = _SERIES[-1] * p
    for coefficient in _SERIES[-2:0:-1]:
        value = (value + coefficient) * p
    return value + _SERIES[0]


def _halley_step(w: Tensor, x: Tensor) -> Tensor:
    """Take a Halley step for ``w exp(w) = x``, divided by ``exp(w)`` to avoid overflow."""
    residual = w - x * torch.exp(-w)
    slope = w + 1.0
    return residual / (slope - (w + 2.0) * residual / (2.0 * slope))
