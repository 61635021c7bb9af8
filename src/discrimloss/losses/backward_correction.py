"""Backward correction: combines the losses of all classes so that the noise cancels on average."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from discrimloss.functional import Reduction
from discrimloss.losses.base import loss_classes
from discrimloss.losses.loss_correction import LossCorrection
from discrimloss.losses.transition import SMALLEST_PROBABILITY

SINGULAR_CONDITION = 1e6
"""A given matrix with a larger condition number is refused."""
LARGEST_CONDITION = 100.0
"""An estimated matrix is mixed with the identity until its condition number is at most this. For
symmetric noise and C classes, the condition number is 1 / (1 - rate * C / (C - 1)). It is 9 for a
rate of 0.8 and 10 classes."""


def backward_losses(
    log_probabilities: Tensor, target: Tensor, inverse: Tensor, smallest_probability: float
) -> Tensor:
    """Return ``(T^-1 l)_y`` with ``l = -log p``, shape (batch,).

    Probabilities are clipped from below. A clipped probability has no gradient.
    """
    losses = (-log_probabilities).clamp(max=-math.log(smallest_probability))
    return (inverse.to(losses.dtype)[target] * losses).sum(1)


def invertible(estimate: Tensor, largest_condition: float = LARGEST_CONDITION) -> Tensor:
    """Mix a matrix with the smallest percentage of the identity that makes it invertible."""
    identity = torch.eye(len(estimate), dtype=estimate.dtype, device=estimate.device)
    for percent in range(101):
        mixed = torch.lerp(estimate, identity, percent / 100)
        if float(torch.linalg.cond(mixed)) <= largest_condition:
            return mixed
    return identity


@loss_classes.register("backward")
class BackwardCorrection(LossCorrection):
    """Backward loss correction with a known or estimated transition matrix (Patrini et al. 2017).

    The loss of the label y is ``(T^-1 l)_y``, where l has the losses of all classes. Averaged over
    the noise, it is the loss of the true class. Most off-diagonal entries of the inverse are
    negative. A network that fits wrong labels can therefore lower the loss without a bound, except
    for `smallest_probability`. The paper also finds this correction weaker than the forward one.

    If an estimated T is close to singular, it is mixed with the identity, as the authors suggest.
    The fraction of the identity is our choice. A given T that is close to singular is an error.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        epochs: length of the run. Needed if T is estimated.
        transition: T, with one row for each true class, which sums to 1. By default T is estimated,
            as in the paper.
        noise_rate: instead of T, the fraction of wrong labels, if all wrong classes are equally
            likely. This is the paper's symmetric noise: 1 - rate on the diagonal, equal entries
            elsewhere.
        anchor_percentile: see `ForwardCorrection`. 97, as in the paper.
        warm_up_epochs: epochs of cross-entropy before the estimate, as in `ForwardCorrection`. By
            default 15 % of the run, which is our choice.
        smallest_probability: probabilities are clipped to at least this. 1e-7, as in the authors'
            code (giorgiop/loss-correction). It bounds the loss: the larger it is, the less the
            network gains from negative losses.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    inverse: Tensor

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        epochs: int | None = None,
        *,
        transition: tuple[tuple[float, ...], ...] | None = None,
        noise_rate: float | None = None,
        anchor_percentile: float = 97.0,
        warm_up_epochs: int | None = None,
        smallest_probability: float = SMALLEST_PROBABILITY,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            num_samples,
            num_classes,
            epochs,
            transition=transition,
            noise_rate=noise_rate,
            anchor_percentile=anchor_percentile,
            warm_up_epochs=warm_up_epochs,
            reduction=reduction,
        )
        if not 0.0 < smallest_probability < 1.0:
            raise ValueError(
                f"smallest_probability must be above 0 and below 1, not {smallest_probability}"
            )
        self.smallest_probability = smallest_probability
        self.register_buffer("inverse", torch.linalg.inv(self.transition), persistent=False)

    def check(self, transition: Tensor) -> None:
        """Raise a `ValueError` for a matrix that is singular or close to it."""
        condition = float(torch.linalg.cond(transition))
        if not condition <= SINGULAR_CONDITION:
            raise ValueError(
                "backward correction needs a transition matrix that can be inverted, but this one "
                f"has a condition number of {condition:.2g}: use forward correction instead"
            )

    def usable(self, estimate: Tensor) -> Tensor:
        """Return the estimate, mixed with the identity if necessary."""
        return invertible(estimate)

    def corrected_losses(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        """Return ``(T^-1 l)_y`` for each sample, shape (batch,)."""
        return backward_losses(log_probabilities, target, self.inverse, self.smallest_probability)

    def set_epoch(self, epoch: int) -> None:
        """Invert T, which may have changed."""
        super().set_epoch(epoch)
        self.inverse.copy_(torch.linalg.inv(self.transition))

    def hyperparameters(self) -> dict[str, Any]:
        """Return T once it is known, its source, and the options."""
        return {**super().hyperparameters(), "smallest_probability": self.smallest_probability}
