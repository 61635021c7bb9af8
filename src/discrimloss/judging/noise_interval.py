"""The interval of an estimated noise rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

INTERVAL_DEVIATIONS = 1.645
"""Standard deviations to each side that contain 90 % of a normal distribution."""
RELATIVE_MISFIT, ABSOLUTE_MISFIT = 0.2, 0.005
"""Standard deviation of the noise rate because real predictions differ from the model. It has two
terms: a fraction of the rate, and a constant. Both were chosen from trials with cross-validated
logistic regressions, forests and nearest neighbours on small tables."""
WIDEST_INTERVAL = 0.5
"""Widest interval. A wider one carries no information about the labels."""


def noise_interval(
    p_incorrect: Tensor,
    variance: float,
    highest_plausible: float = 0.0,
    plausible: tuple[float, float] | None = None,
) -> tuple[float, float] | None:
    """Return an interval that contains the fraction of wrong labels with about 90 % probability.

    A low end below `ABSOLUTE_MISFIT` becomes 0, because the labels may then all be correct.

    Args:
        p_incorrect: shape (samples,), float64.
        variance: variance of the noise rate, from the uncertainty of the fitted parameters.
        highest_plausible: the interval extends at least to this noise rate.
        plausible: the interval contains at least these noise rates.

    Returns:
        The interval, or None if it is wider than `WIDEST_INTERVAL`.
    """
    rate = float(p_incorrect.mean())
    # Even with known parameters, each label is wrong or not at random.
    by_chance = float((p_incorrect * (1.0 - p_incorrect)).sum()) / len(p_incorrect) ** 2
    misfit = (RELATIVE_MISFIT * rate) ** 2 + ABSOLUTE_MISFIT**2
    deviation = math.sqrt(max(variance, 0.0) + by_chance + misfit)
    # The arcsine of the rate's square root has the same variance near 0 as elsewhere. Its slope is
    # infinite at 0. The bound of the divisor makes the interval end at the plain margin there.
    plain_margin = INTERVAL_DEVIATIONS * deviation
    margin = plain_margin / (2.0 * math.sqrt(max(rate * (1.0 - rate), plain_margin / 4.0)))
    angle = math.asin(math.sqrt(rate))
    low = math.sin(max(angle - margin, 0.0)) ** 2
    high = max(math.sin(min(angle + margin, math.pi / 2)) ** 2, highest_plausible)
    if plausible is not None:
        low, high = min(low, plausible[0]), max(high, plausible[1])
    if low < ABSOLUTE_MISFIT:
        low = 0.0
    return (low, high) if high - low <= WIDEST_INTERVAL else None
