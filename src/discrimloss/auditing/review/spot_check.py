"""Estimates the number of wrong labels from decisions on random samples."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from discrimloss.auditing.review.decisions import DROP, KEEP, RELABEL, SKIP
from discrimloss.judging.noise_interval import INTERVAL_DEVIATIONS


@dataclass(frozen=True)
class SpotCheck:
    """Decisions on the first samples of a random order."""

    checked: int
    """Number of samples that were kept, relabelled or dropped."""
    wrong: int
    """Number of samples that were relabelled or dropped."""

    @property
    def interval(self) -> tuple[float, float]:
        """Interval that contains the noise rate with a probability of about 90 % (Wilson)."""
        if not self.checked:
            return 0.0, 1.0
        rate, squared = self.wrong / self.checked, INTERVAL_DEVIATIONS**2
        centre = rate + squared / (2 * self.checked)
        spread = math.sqrt(rate * (1 - rate) / self.checked + squared / (4 * self.checked**2))
        scale = 1 + squared / self.checked
        low = (centre - INTERVAL_DEVIATIONS * spread) / scale
        high = (centre + INTERVAL_DEVIATIONS * spread) / scale
        return max(low, 0.0), min(high, 1.0)


def count_spot_check(actions: Iterable[str | None]) -> SpotCheck:
    """Count the decisions on samples in random order, up to the first without a decision.

    Later decisions do not count, because a reviewer may choose samples that look wrong.

    >>> count_spot_check(["keep", "relabel", "skip", "keep", None, "drop"])
    SpotCheck(checked=3, wrong=1)

    Args:
        actions: the decision on each sample, or None. Skipped samples are left out.
    """
    checked = wrong = 0
    for action in actions:
        if action not in (KEEP, RELABEL, DROP, SKIP):
            break
        checked += action != SKIP
        wrong += action in (RELABEL, DROP)
    return SpotCheck(checked, wrong)
