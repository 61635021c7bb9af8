"""What is estimated for every label: the result of all estimates from predictions."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LabelErrors:
    """Estimates for every label; tensors of shape (samples,)."""

    score: Tensor
    """Float32: log-odds that the label is wrong. They rank labels whose probability rounds to 1."""
    suggested: Tensor
    """What the label probably should be: int64 classes or float32 regression targets. It differs
    from the given label wherever the score is above 0."""
    noise_interval: tuple[float, float] | None = None
    """Where the fraction of wrong labels lies with 90 % probability; None where the predictions
    say too little about it."""
    other: Tensor | None = None
    """Int64: the likeliest class besides the given one; None for regression targets."""

    @property
    def p_incorrect(self) -> Tensor:
        """Float32: probability that the label is wrong."""
        return self.score.double().sigmoid().float()

    @property
    def noise_rate(self) -> float:
        """The estimated fraction of wrong labels: the mean of their probabilities."""
        return float(self.score.double().sigmoid().mean())
