"""Estimates the noise rate of each class, with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discrimloss.judging.noise_interval import (
    ABSOLUTE_MISFIT,
    INTERVAL_DEVIATIONS,
    RELATIVE_MISFIT,
)

UNSEEN_ERRORS = 0.5
"""Variance added to a class's number of wrong labels, because small classes are uncertain."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class ClassRate:
    """The estimated noise of the labels of a given class."""

    name: str
    count: int
    """Number of samples labelled with the class."""
    rate: float
    """Mean of their probabilities of being wrong."""
    interval: Interval | None
    """Contains the fraction of wrong labels with a probability of about 90 %. None if there is no
    interval for all labels."""


def class_rate(
    name: str,
    p_incorrect: npt.NDArray[np.floating],
    noise_rate: float | None,
    noise_interval: Sequence[float] | None,
) -> ClassRate:
    """Return the noise rate of a class, from the probabilities of its labels.

    The interval is wider than that of all labels, because a class has fewer labels, and each is
    wrong at random.

    Args:
        name: name of the class.
        p_incorrect: probabilities of the samples with this label, at least one.
        noise_rate: noise rate of all labels.
        noise_interval: interval of all labels, or None.
    """
    p = np.asarray(p_incorrect, dtype=np.float64)
    rate = float(p.mean())
    if noise_rate is None or noise_interval is None:
        return ClassRate(name, len(p), rate, None)
    by_chance = (float((p * (1.0 - p)).sum()) + UNSEEN_ERRORS) / len(p) ** 2
    misfit = (RELATIVE_MISFIT * rate) ** 2 + ABSOLUTE_MISFIT**2
    # The arcsine of the rate's square root has the same variance near 0 as elsewhere.
    plain_margin = INTERVAL_DEVIATIONS * math.sqrt(by_chance + misfit)
    own = plain_margin / (2.0 * math.sqrt(max(rate * (1.0 - rate), plain_margin / 4.0)))
    low, high = (abs(_angle(end) - _angle(noise_rate)) for end in noise_interval)
    below = math.sin(max(_angle(rate) - math.hypot(own, low), 0.0)) ** 2
    above = math.sin(min(_angle(rate) + math.hypot(own, high), math.pi / 2)) ** 2
    return ClassRate(name, len(p), rate, (below, above))


def class_rates(
    given_label: Sequence[str] | npt.NDArray[np.object_],
    p_incorrect: npt.NDArray[np.floating],
    noise_rate: float | None,
    noise_interval: Sequence[float] | None,
) -> list[ClassRate]:
    """Return the noise rates of all given classes, noisiest first.

    Args:
        given_label: names, one per sample.
        p_incorrect: probabilities, one per sample.
        noise_rate: noise rate of all labels.
        noise_interval: interval of all labels, or None.
    """
    names, place = np.unique(np.asarray(given_label).astype(str), return_inverse=True)
    order = np.argsort(place, kind="stable")
    parts = np.split(np.asarray(p_incorrect)[order], np.cumsum(np.bincount(place))[:-1])
    found = [
        class_rate(str(name), part, noise_rate, noise_interval)
        for name, part in zip(names, parts, strict=True)
    ]
    return sorted(found, key=lambda one: (-one.rate, one.name))


def _angle(rate: float) -> float:
    return math.asin(math.sqrt(min(max(rate, 0.0), 1.0)))
