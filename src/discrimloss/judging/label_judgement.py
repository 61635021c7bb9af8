"""What a run says of every label, whether it is a class or a number."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LabelJudgement:
    """What is thought of every label; all of shape (samples,)."""

    score: Tensor
    """Float32: log-odds that the label is wrong. They rank where the probability rounds to 1."""
    suggested: Tensor
    """What the label probably should be: int64 classes, or float32 numbers."""

    @property
    def p_incorrect(self) -> Tensor:
        """Float32: probability that the label is wrong."""
        return self.score.double().sigmoid().float()

    @property
    def noise_rate(self) -> float:
        """The share of wrong labels: the mean of their probabilities."""
        return float(self.score.double().sigmoid().mean())
