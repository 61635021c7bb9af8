"""Stochastic label noise: new Gaussian noise on the targets in every epoch."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import IndexedLoss, loss_classes
from discrimloss.losses.sample_state import EpochDraws


def soft_cross_entropy(logits: Tensor, soft_target: Tensor) -> Tensor:
    """Return ``-sum(t log p)``, shape (batch,), for any real targets, shape (batch, classes)."""
    return -(soft_target * functional.log_softmax(at_least_float32(logits), dim=1)).sum(1)


@loss_classes.register("sln")
class StochasticLabelNoise(IndexedLoss):
    """Stochastic label noise (SLN): Gaussian noise on the one-hot targets (Chen et al. 2021).

    The target of a sample is its one-hot label plus Gaussian noise, which is drawn again in each
    epoch. The loss is the cross-entropy with this target. The noise has a mean of 0. The paper
    shows that its effect on the gradients grows with the network's confidence and with the
    sharpness of its outputs, and so limits both. Targets may be negative, and the loss has no
    bound: a network learns nothing if the noise is too large for its learning rate.

    This is the paper's SLN. `discrimloss train` adds the momentum model and the label correction,
    which need the network (``options.momentum_model``).

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        sigma: standard deviation of the noise. The authors tune it, with a learning rate of 0.001
            for CIFAR: 1 and 0.5 for CIFAR-10 (symmetric and other noise), 0.2 for CIFAR-100 and
            Clothing1M, and 0.1 for CIFAR-100 with instance-dependent noise. The default of their
            code (chenpf1025/SLN) is 0.5. Ours is the smallest of these values: with the learning
            rates of our recipes, up to 0.1, larger ones harm training on clean labels.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs_classes: ClassVar[str | None] = "adds noise to one-hot targets"

    noise: Tensor

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        *,
        sigma: float = 0.1,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, num_classes, reduction=reduction)
        if not 0.0 <= sigma < math.inf:
            raise ValueError(f"sigma must be 0 or more, not {sigma}")
        self.sigma = sigma
        self.draws = EpochDraws()
        noise = torch.zeros(num_samples, num_classes)
        self.register_buffer("noise", noise, persistent=False)  # derived from the seed
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Draw the noise of the epoch."""
        super().set_epoch(epoch)
        noise = torch.randn(self.noise.shape, generator=self.draws.generator(epoch))
        self.noise.copy_(self.sigma * noise)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the cross-entropies with the noisy targets."""
        label = functional.one_hot(target, self.noise.shape[1])
        return soft_cross_entropy(logits, label + self.noise[index])

    def hyperparameters(self) -> dict[str, Any]:
        """Return the standard deviation of the noise."""
        return {"sigma": self.sigma}
