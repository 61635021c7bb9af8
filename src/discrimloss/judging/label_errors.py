"""The estimates for every label, which every method with predictions returns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from discrimloss.judging.judgeable import with_mean_probability

HARDLY_ANY_NOISE = 0.025
"""An interval that begins below this noise rate does not exclude that all labels are correct."""


@dataclass(frozen=True)
class LabelErrors:
    """Estimates for every label, tensors of shape (samples,)."""

    score: Tensor
    """Float32: log-odds that the label is wrong. They rank labels whose probability rounds to 1."""
    suggested: Tensor
    """The most probable label: int64 classes or float32 regression targets. It differs from the
    given label if the score is above 0."""
    noise_interval: tuple[float, float] | None = None
    """Interval that contains the fraction of wrong labels with 90 % probability. None if the
    predictions say too little about it."""
    other: Tensor | None = None
    """Int64: the most likely class other than the given one. None for regression targets."""

    @property
    def p_incorrect(self) -> Tensor:
        """Float32: probability that the label is wrong."""
        return self.score.double().sigmoid().float()

    @property
    def noise_rate(self) -> float:
        """The estimated fraction of wrong labels: the mean of their probabilities."""
        return float(self.score.double().sigmoid().mean())

    @property
    def evident_rate(self) -> float:
        """The noise rate, or the low end of its interval if labels may be almost all correct."""
        low = self.noise_rate if self.noise_interval is None else self.noise_interval[0]
        return low if low < HARDLY_ANY_NOISE else self.noise_rate

    def at_noise_rate(self, rate: float) -> LabelErrors:
        """Return the same ranking, with probabilities whose mean is a known noise rate.

        The result has no interval, because the rate is not estimated.

        Args:
            rate: the noise rate, between 0 and 1, exclusive.
        """
        score = with_mean_probability(self.score, rate)
        suggested = self.suggested
        if self.other is not None:
            suggested = torch.where(score > 0, self.other, suggested)
        return replace(self, score=score, suggested=suggested, noise_interval=None)


def require_noise_rate(rate: float | None) -> None:
    """Raise a ValueError unless a noise rate is None or a fraction of the labels."""
    if rate is not None and not 0.0 < rate < 1.0:
        raise ValueError(
            f"noise_rate must be a fraction between 0 and 1, such as 0.15 for 15 %, not {rate}"
        )


def note_on_given_rate(rate: float, estimate: float | None) -> str:
    """Return the note of verdicts with a given noise rate.

    Args:
        rate: the given noise rate.
        estimate: the estimate without it; None if there is none.
    """
    otherwise = "the rate is unknown" if estimate is None else f"the estimate is {estimate:.1%}"
    return f"The noise rate of {rate:.1%} was given. Without it, {otherwise}.".replace("%", " %")
