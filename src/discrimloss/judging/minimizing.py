"""Where a smooth function is smallest, and where a rising one reaches a value."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

BISECTIONS = 20


def minimize(
    objective: Callable[[Tensor], Tensor], start: Tensor, iterations: int, tolerance: float
) -> tuple[float, Tensor]:
    """The smallest value near a starting point, and where it is.

    Args:
        objective: of a vector; differentiable.
        start: shape (numbers,), float64.
        iterations: the most that are made.
        tolerance: of the gradient; that of the value's change is a thousandth of it.

    Returns:
        The value, infinite where it is not a number, and the place.
    """
    place = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [place],
        max_iter=iterations,
        tolerance_grad=tolerance,
        tolerance_change=tolerance * 1e-3,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = objective(place)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        value = float(objective(place))
    return (value if math.isfinite(value) else math.inf), place.detach()


def where_it_reaches(goal: float, rising: Callable[[float], float], highest: float) -> float:
    """Where a function that does not fall, from 0 to `highest`, reaches `goal`; or the end."""
    low, high = 0.0, highest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < goal else (low, middle)
    return (low + high) / 2
