"""Minimises smooth functions, and finds roots of monotonic ones."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BISECTIONS = 20
HISTORY = 20
"""Number of steps in the history of L-BFGS."""
SUFFICIENT_DECREASE, FLAT_ENOUGH = 1e-4, 0.9
"""Wolfe conditions: a step decreases the value by at least the first fraction of the linear
prediction, and leaves at most the second fraction of the slope."""
MOST_TRIALS = 25
"""Maximum number of tried step lengths."""
SMALLEST_CURVATURE = 1e-10

Vector = npt.NDArray[np.float64]


def minimize(
    objective: Callable[[Tensor], Tensor], start: Tensor, iterations: int, tolerance: float
) -> tuple[float, Tensor]:
    """Minimise a function with L-BFGS from a starting point.

    Args:
        objective: differentiable function of a vector.
        start: shape (parameters,), float64.
        iterations: maximum number of iterations.
        tolerance: tolerance of the gradient. The tolerance of a step is a thousandth of it.

    Returns:
        The smallest value found (infinity if it is not finite), and its argument.
    """

    def value_and_gradient(place: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            place = place.detach().requires_grad_()
            value = objective(place)
            (gradient,) = torch.autograd.grad(value, place)
        return value.detach(), gradient

    return minimize_with_gradient(value_and_gradient, start, iterations, tolerance)


def minimize_with_gradient(
    value_and_gradient: Callable[[Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    iterations: int,
    tolerance: float,
) -> tuple[float, Tensor]:
    """Like `minimize`, for a function that returns its value and its gradient.

    The steps are computed with NumPy, which is several times faster than a torch optimizer for few
    parameters.
    """

    def evaluate(place: Vector) -> tuple[float, Vector]:
        value, gradient = value_and_gradient(torch.from_numpy(place))
        return float(value), np.asarray(gradient.numpy())

    place = start.detach().numpy().copy()
    value, gradient = evaluate(place)
    past: deque[_Step] = deque(maxlen=HISTORY)
    size = min(1.0, 1.0 / max(float(np.abs(gradient).sum()), 1e-300))
    for _ in range(iterations):
        if not math.isfinite(value) or float(np.abs(gradient).max()) <= tolerance:
            break
        direction = _direction(gradient, past)
        slope = float(gradient @ direction)
        if slope >= 0.0:  # because of rounding: restart from the gradient
            past.clear()
            direction, slope = -gradient, -float(gradient @ gradient)
        found = _line_search(evaluate, place, value, direction, slope, size)
        if found is None:
            break
        new_place, new_value, new_gradient = found
        step = _Step(new_place - place, new_gradient - gradient)
        if float(step.change @ step.gradient_change) > SMALLEST_CURVATURE:
            past.append(step)
        has_settled = (
            abs(new_value - value) < 1e-3 * tolerance
            or float(np.abs(step.change).max()) <= 1e-3 * tolerance
        )
        place, value, gradient, size = new_place, new_value, new_gradient, 1.0
        if has_settled:
            break
    return (value if math.isfinite(value) else math.inf), torch.from_numpy(place)


class _Step(NamedTuple):
    """A step in the history of L-BFGS."""

    change: Vector
    gradient_change: Vector


def _direction(gradient: Vector, past: deque[_Step]) -> Vector:
    """Return the L-BFGS direction: minus the gradient, scaled by the curvature of past steps."""
    direction = -gradient
    parts = []
    for step in reversed(past):
        curvature = float(step.change @ step.gradient_change)
        part = float(step.change @ direction) / curvature
        direction = direction - part * step.gradient_change
        parts.append((step, curvature, part))
    if past:
        last = past[-1]
        squares = float(last.gradient_change @ last.gradient_change)
        direction = direction * (float(last.change @ last.gradient_change) / squares)
    for step, curvature, part in reversed(parts):
        other = float(step.gradient_change @ direction) / curvature
        direction = direction + (part - other) * step.change
    return direction


def _line_search(
    evaluate: Callable[[Vector], tuple[float, Vector]],
    place: Vector,
    value: float,
    direction: Vector,
    slope: float,
    size: float,
) -> tuple[Vector, float, Vector] | None:
    """Return a step that satisfies the strong Wolfe conditions.

    Returns:
        The new point with its value and gradient, or None if no step decreases the value.
    """
    low, high = 0.0, math.inf
    value_of_low, slope_of_low = value, slope
    best: tuple[Vector, float, Vector] | None = None
    for _ in range(MOST_TRIALS):
        at = place + size * direction
        new_value, gradient = evaluate(at)
        new_slope = float(gradient @ direction) if math.isfinite(new_value) else math.inf
        if not new_value <= value + SUFFICIENT_DECREASE * size * slope or (
            best is not None and new_value >= value_of_low
        ):
            high = size
            # Continue at the minimum of the parabola through the lower end and this point.
            rise = new_value - value_of_low - slope_of_low * (size - low)
            width = high - low
            step = -slope_of_low * width**2 / (2.0 * rise) if math.isfinite(rise) else 0.0
            size = low + min(max(step, 0.1 * width), 0.5 * width)
            continue
        best = (at, new_value, gradient)
        if abs(new_slope) <= FLAT_ENOUGH * abs(slope):
            break
        if new_slope > 0.0:
            # Continue where the linearly interpolated slope is 0, between the two ends.
            width, share = size - low, slope_of_low / (slope_of_low - new_slope)
            high, size = size, low + min(max(share, 0.1), 0.9) * width
            continue
        # The value still falls in this direction: continue with a larger step.
        share = slope_of_low / (slope_of_low - new_slope) if new_slope > slope_of_low else math.inf
        ahead = low + min(max(share, 2.0), 10.0) * (size - low)
        low, value_of_low, slope_of_low = size, new_value, new_slope
        size = ahead if math.isinf(high) else (low + high) / 2.0
    return best


def bisect_root(target: float, rising: Callable[[float], float], highest: float) -> float:
    """Return the argument at which a non-decreasing function reaches a value.

    Args:
        target: the value to reach.
        rising: the function.
        highest: the search range is from 0 to this.

    Returns:
        The argument, or an end of the range if the value is not reached in it.
    """
    low, high = 0.0, highest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2
