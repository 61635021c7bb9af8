"""The Lambert W function in torch, on the device of its argument."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from discrimloss.functional import at_least_float32

BRANCH_POINT = -math.exp(-1.0)
"""The start of the principal branch, where ``W = -1``."""
HALLEY_STEPS = 4
"""Each step triples the number of correct digits; four are enough for a float64."""

_BRANCH_POINT_REST = 1.2428753672788363e-17  # -1/e less its float64
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
    """The ``w >= -1`` with ``w exp(w) = x``, elementwise, for ``x >= -1/e``; NaN below.

    At least float32. The operations do not depend on the values, so the host does not wait for the
    device. There is no gradient: SuperLoss holds the result constant.

    >>> lambert_w(torch.tensor([BRANCH_POINT, 0.0, 1.0, math.e]))
    tensor([-1.0000,  0.0000,  0.5671,  1.0000])
    """
    x = at_least_float32(x)
    p = torch.sqrt(2.0 * math.e * _above_branch_point(x))
    series = _polynomial(p.clamp(max=1.5))
    # Elsewhere a first guess and Halley steps: the series, or log x - log log x where x is large.
    log = torch.log1p(x.clamp(min=0.0))
    w = torch.where(x < 0.5, series, log - torch.log1p(log))
    for _ in range(HALLEY_STEPS):
        w = w - _halley_step(w, x)
    w = torch.where(p < _NEAR_BRANCH_POINT, series, w)  # where the steps divide by p
    return torch.where(x == torch.inf, x, w)


def _above_branch_point(x: Tensor) -> Tensor:
    """``x + 1/e``, exact for x near -1/e, where rounding 1/e would cost half of W's digits."""
    rounded = torch.tensor(BRANCH_POINT, dtype=x.dtype).item()
    rest = (BRANCH_POINT - rounded) + _BRANCH_POINT_REST
    above = (x - rounded) - rest
    # The float next to -1/e may lie just below it, and stands for it.
    return torch.where(x == rounded, above.clamp(min=0.0), above)


def _polynomial(p: Tensor) -> Tensor:
    value = _SERIES[-1] * p
    for coefficient in _SERIES[-2:0:-1]:
        value = (value + coefficient) * p
    return value + _SERIES[0]


def _halley_step(w: Tensor, x: Tensor) -> Tensor:
    """A step of Halley's method for ``w exp(w) = x``, divided by ``exp(w)`` to avoid overflow."""
    residual = w - x * torch.exp(-w)
    slope = w + 1.0
    return residual / (slope - (w + 2.0) * residual / (2.0 * slope))
