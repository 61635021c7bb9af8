"""Backward correction: the losses of all classes, mixed so that the noise cancels on average."""

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
"""A given matrix with a condition number above it is refused."""
LARGEST_CONDITION = 100.0
"""An estimated matrix is mixed with the identity until its condition number is no larger. That of
symmetric noise is 1 / (1 - rate * C / (C - 1)): 9 for 80 % of 10 classes."""


def backward_losses(
    log_probabilities: Tensor, target: Tensor, inverse: Tensor, smallest_probability: float
) -> Tensor:
    """``(T^-1 l)_y``, shape (batch,), of ``l = -log p``.

    A probability below the smallest counts as the smallest, and has no gradient.
    """
    losses = (-log_probabilities).clamp(max=-math.log(smallest_probability))
    return (inverse.to(losses.dtype)[target] * losses).sum(1)


def invertible(estimate: Tensor, largest_condition: float = LARGEST_CONDITION) -> Tensor:
    """The matrix, mixed with the least percentage of the identity that makes it invertible."""
    identity = torch.eye(len(estimate), dtype=estimate.dtype, device=estimate.device)
    for percent in range(101):
        mixed = torch.lerp(estimate, identity, percent / 100)
        if float(torch.linalg.cond(mixed)) <= largest_condition:
            return mixed
    return identity


@loss_classes.register("backward")
class BackwardCorrection(LossCorrection):
    """Backward loss correction with a known or estimated transition matrix (Patrini et al. 2017).

    The loss of the label y is ``(T^-1 l)_y``, where l has the losses of all classes: on average
    over the noise it is the loss of the true class. Most entries off the diagonal of the inverse
    are negative, so a network that fits wrong labels can lower it without a bound other than
    `smallest_probability`; the paper, too, finds it the weaker of its two corrections.

    Where an estimated T can hardly be inverted, it is mixed with the identity, as the authors
    suggest; by how little is ours. A given one is refused instead.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        epochs: length of the run; needed where T is estimated.
        transition: T, one row for each true class that sums to 1; None, as in the paper's
            experiments with an estimated T, if it is not known.
        noise_rate: instead of T, the fraction of wrong labels where each wrong class is as likely:
            the paper's symmetric noise, 1 - rate on the diagonal, equal entries elsewhere.
        anchor_percentile: as in `ForwardCorrection`: 97, the paper's; the likeliest
            sample for a class of which more than half would be passed over.
        warm_up_epochs: as in `ForwardCorrection`: epochs of cross-entropy before the estimate;
            None for 15 % of the run, ours.
        smallest_probability: probabilities are clipped to it; 1e-7 as in the authors' code
            (giorgiop/loss-correction). It bounds the loss: a larger one limits what the network
            gains from negative losses.
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
        """Raise a `ValueError` for a matrix without an inverse, or nearly so."""
        condition = float(torch.linalg.cond(transition))
        if not condition <= SINGULAR_CONDITION:
            raise ValueError(
                "backward correction needs a transition matrix that can be inverted, this one has "
                f"a condition number of {condition:.2g}; forward correction works with any"
            )

    def usable(self, estimate: Tensor) -> Tensor:
        """The estimate, mixed with the identity if necessary."""
        return invertible(estimate)

    def corrected_losses(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        """``(T^-1 l)_y``."""
        return backward_losses(log_probabilities, target, self.inverse, self.smallest_probability)

    def set_epoch(self, epoch: int) -> None:
        """Invert T, which may be a new one."""
        super().set_epoch(epoch)
        self.inverse.copy_(torch.linalg.inv(self.transition))

    def hyperparameters(self) -> dict[str, Any]:
        """T as it is inverted, once it is known, and its source."""
        return {**super().hyperparameters(), "smallest_probability": self.smallest_probability}
