"""Symmetric cross-entropy: cross-entropy plus reverse cross-entropy."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import cross_entropy, loss_classes
from discrimloss.losses.label_probability import LabelProbabilityLoss

LOG_ZERO = math.log(1e-4)
"""``A``, the value of ``log 0``: both repositories below clip the one-hot label at 1e-4."""


def reverse_cross_entropy(cross_entropies: Tensor, log_zero: float = LOG_ZERO) -> Tensor:
    """Return ``-sum(p log y)`` with ``log 0 = A``, that is ``-A (1 - p_y)``, from ``-log p_y``.

    >>> reverse_cross_entropy(torch.tensor([0.25]).log().neg(), log_zero=-4.0)
    tensor([3.])
    """
    return log_zero * torch.expm1(-cross_entropies)


@loss_classes.register("symmetric_cross_entropy")
class SymmetricCrossEntropy(LabelProbabilityLoss):
    """Symmetric cross-entropy, alpha CE + beta RCE (Wang et al. 2019).

    The reverse cross-entropy RCE swaps the prediction and the label. Up to a factor, it is the mean
    absolute error, which is robust but learns slowly. Cross-entropy makes learning faster.

    Args:
        num_samples: size of the training set. Needed for `sample_scores`.
        alpha: factor of cross-entropy. 0.1, the value for CIFAR-10 in the code of
            YisenWang/symmetric_cross_entropy_for_noisy_labels; 0.01 for MNIST, 6 for CIFAR-100.
        beta: factor of the reverse cross-entropy. 1 for MNIST and CIFAR-10 and 0.1 for CIFAR-100 in
            the same code.
        log_zero: ``A``, below 0. log(1e-4), as in the same code and in
            HanxunH/Active-Passive-Losses. The paper's text has -4.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs_classes: ClassVar[str | None] = "swaps class probabilities and labels"

    def __init__(
        self,
        num_samples: int | None = None,
        *,
        alpha: float = 0.1,
        beta: float = 1.0,
        log_zero: float = LOG_ZERO,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, reduction=reduction)
        if not (0.0 <= alpha < math.inf and 0.0 <= beta < math.inf):
            raise ValueError(f"alpha and beta must be finite and at least 0, not {alpha}, {beta}")
        if not -math.inf < log_zero < 0.0:
            raise ValueError(f"log_zero must be finite and below 0, not {log_zero}")
        self.alpha, self.beta, self.log_zero = alpha, beta, log_zero

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the weighted sum of both cross-entropies."""
        losses = cross_entropy(at_least_float32(logits), target)
        self.record(losses, index)
        return self.alpha * losses + self.beta * reverse_cross_entropy(losses, self.log_zero)

    def hyperparameters(self) -> dict[str, Any]:
        """Return both factors and ``A``."""
        return {"alpha": self.alpha, "beta": self.beta, "log_zero": self.log_zero}
