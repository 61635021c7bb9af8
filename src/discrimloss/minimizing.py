"""The smallest value of a smooth function of a few numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


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
