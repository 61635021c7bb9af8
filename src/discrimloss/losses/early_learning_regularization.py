"""Early-learning regularization: keeps predictions close to those of early training."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import IndexedLoss, cross_entropy, loss_classes
from discrimloss.losses.sample_state import GivenLabels
from discrimloss.state.gathering import gather_rows
from discrimloss.visits import mean_of_same

LOWEST = 1e-4
"""Probabilities are clipped to [LOWEST, 1 - LOWEST], as in the authors' released code. The
logarithm then stays finite. A clipped prediction has no gradient."""


def moved_targets(targets: Tensor, probabilities: Tensor, momentum: float) -> Tensor:
    """Return ``beta t + (1 - beta) p`` with normalised ``p``, shape (batch, classes)."""
    normalized = probabilities / probabilities.sum(1, keepdim=True)
    return momentum * targets + (1.0 - momentum) * normalized


def early_learning_penalty(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Return ``log(1 - <p, t>)``, shape (batch,). Lower if prediction and target agree."""
    return torch.log1p(-(probabilities * targets).sum(1))


@loss_classes.register("elr")
class EarlyLearningRegularization(IndexedLoss):
    """Early-learning regularization, cross-entropy + lambda log(1 - <p, t>) (Liu et al. 2020).

    ``t`` is a moving average of the network's own probabilities for the sample (temporal
    ensembling). The gradient of the penalty grows with the agreement of ``p`` and ``t``. For
    samples that are learned early, the gradient of cross-entropy vanishes, and the penalty keeps
    what was learned. For wrong labels, the penalty cancels the gradient of cross-entropy. This is
    the paper's ELR with one network. ELR+, which adds a second network, weight averaging and mixup,
    is not included.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        regularization: ``lambda``. 3, the authors' value for CIFAR-10 (in the paper's supplement
            and in the configuration in shengliu66/ELR). They use 7 for CIFAR-100, and 1 for
            CIFAR-10 with asymmetric noise.
        target_momentum: ``beta`` of the targets, in [0, 1). 0.7, from the same sources. They use
            0.9 for CIFAR-100 and for asymmetric noise.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs_classes: ClassVar[str | None] = "averages class probabilities"

    targets: Tensor

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        *,
        regularization: float = 3.0,
        target_momentum: float = 0.7,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, num_classes, reduction=reduction)
        if not 0.0 <= regularization < math.inf:
            raise ValueError(f"regularization must be finite and at least 0, not {regularization}")
        if not 0.0 <= target_momentum < 1.0:
            raise ValueError(
                f"target_momentum must be at least 0 and below 1, not {target_momentum}"
            )
        self.regularization = regularization
        self.target_momentum = target_momentum
        self.register_buffer("targets", torch.zeros(num_samples, num_classes))
        self.labels = GivenLabels(num_samples)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return cross-entropy plus penalty. Update the targets first, as in the authors' code."""
        probabilities = functional.softmax(at_least_float32(logits), 1)
        probabilities = probabilities.clamp(LOWEST, 1.0 - LOWEST)
        self._move_targets(probabilities.detach(), index)
        self.labels.record(target, index)
        penalty = early_learning_penalty(probabilities, self.targets[index])
        return cross_entropy(logits, target) + self.regularization * penalty

    def _move_targets(self, probabilities: Tensor, index: Tensor) -> None:
        index = gather_rows(index)
        rows = mean_of_same(gather_rows(probabilities.to(self.targets.dtype)), index)
        self.targets[index] = moved_targets(self.targets[index], rows, self.target_momentum)

    def _targets_of_labels(self) -> Tensor:
        """Return ``t_y`` of every sample. NaN for samples without a visit.

        A target starts at 0, so after n visits it sums to ``1 - beta**n``. The division corrects
        this.
        """
        labels = self.labels.label.long().clamp(min=0)
        own = self.targets.gather(1, labels[:, None]).flatten()
        return own / self.targets.sum(1)  # 0 / 0 is NaN

    def sample_scores(self) -> Tensor:
        """Return 1 - t_y, the averaged probability that the label is not the true class."""
        return 1.0 - self._targets_of_labels()

    def hyperparameters(self) -> dict[str, Any]:
        """Return both hyperparameters."""
        return {
            "regularization": self.regularization,
            "target_momentum": self.target_momentum,
        }

    def log_values(self) -> dict[str, float]:
        """Return the mean of ``t_y``, the agreement of targets and labels."""
        agreement = self._targets_of_labels()
        return {"target_agreement": float(agreement.nan_to_num(0.0).mean())}
