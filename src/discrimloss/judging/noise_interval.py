"""How certain an estimated noise rate is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

INTERVAL_DEVIATIONS = 1.645
"""Standard deviations of a normal distribution to each side that hold 90 %."""
RELATIVE_MISFIT, ABSOLUTE_MISFIT = 0.2, 0.005
"""How far the noise rate is off because real predictions differ from the model, as a standard
deviation: a fraction of the rate, and a constant. Chosen from trials with cross-validated logistic
regressions, forests and nearest neighbours on small tables."""
WIDEST_INTERVAL = 0.5
"""A wider interval for the noise rate says nothing about the labels."""


def noise_interval(
    p_incorrect: Tensor,
    variance: float,
    highest_plausible: float = 0.0,
    plausible: tuple[float, float] | None = None,
) -> tuple[float, float] | None:
    """An interval that holds the fraction of wrong labels with a probability of about 90 %.

    Args:
        p_incorrect: shape (samples,), float64.
        variance: of the noise rate, from the uncertainty of the fitted parameters.
        highest_plausible: the interval reaches at least up to this noise rate.
        plausible: the interval holds at least these noise rates.

    Returns:
        The interval, or None where it is wider than `WIDEST_INTERVAL`.
    """
    rate = float(p_incorrect.mean())
    # Even with known parameters, each label is wrong or not at random.
    by_chance = float((p_incorrect * (1.0 - p_incorrect)).sum()) / len(p_incorrect) ** 2
    misfit = (RELATIVE_MISFIT * rate) ** 2 + ABSOLUTE_MISFIT**2
    deviation = math.sqrt(max(variance, 0.0) + by_chance + misfit)
    # The arcsine of the root has the same variance near 0 as elsewhere. At a rate of 0 its slope is
    # infinite: the smallest spread makes the interval end at the plain margin there.
    plain_margin = INTERVAL_DEVIATIONS * deviation
    margin = plain_margin / (2.0 * math.sqrt(max(rate * (1.0 - rate), plain_margin / 4.0)))
    angle = math.asin(math.sqrt(rate))
    low = math.sin(max(angle - margin, 0.0)) ** 2
    high = max(math.sin(min(angle + margin, math.pi / 2)) ** 2, highest_plausible)
    if plausible is not None:
        low, high = min(low, plausible[0]), max(high, plausible[1])
    return (low, high) if high - low <= WIDEST_INTERVAL else None
