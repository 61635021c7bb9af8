"""Minimise a smooth function, and find where a rising one reaches a value."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import torch
from torch import Tensor

BISECTIONS = 20


class _Lbfgs(torch.optim.LBFGS):
    """L-BFGS that does not import torch's compiler, which takes longer than most fits."""

    # The decorator of this method, and of `zero_grad`, only tells the compiler to stay out.
    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)


def minimize(
    objective: Callable[[Tensor], Tensor], start: Tensor, iterations: int, tolerance: float
) -> tuple[float, Tensor]:
    """Minimise a function with L-BFGS from a starting point.

    Args:
        objective: differentiable function of a vector.
        start: shape (parameters,), float64.
        iterations: at most this many.
        tolerance: of the gradient. The tolerance of the value's change is a thousandth of it.

    Returns:
        The smallest value found, infinite where it is not a number, and its argument.
    """
    place = start.clone().requires_grad_()
    optimizer = _Lbfgs(
        [place],
        max_iter=iterations,
        tolerance_grad=tolerance,
        tolerance_change=tolerance * 1e-3,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        place.grad = None
        value = objective(place)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        value = float(objective(place))
    return (value if math.isfinite(value) else math.inf), place.detach()


def bisect_root(target: float, rising: Callable[[float], float], highest: float) -> float:
    """Where a non-decreasing function reaches a value.

    Args:
        target: the value to reach.
        rising: the function.
        highest: the search runs from 0 to here.

    Returns:
        The argument, or an end of the range where the value is not reached within it.
    """
    low, high = 0.0, highest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2
