"""Self-adaptive training: targets that change from the labels to the predictions."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import IndexedLoss, cross_entropy, loss_classes
from discrimloss.losses.sample_state import GivenLabels
from discrimloss.losses.stochastic_label_noise import soft_cross_entropy
from discrimloss.state.gathering import gather_rows, weights_of_mean
from discrimloss.visits import mean_of_same


@loss_classes.register("self_adaptive_training")
class SelfAdaptiveTraining(IndexedLoss):
    """Self-adaptive training: soft targets that follow the predictions (Huang et al. 2020).

    The target of each sample starts as its one-hot label. After some epochs of cross-entropy, it
    becomes a moving average of the network's predictions. The loss is the cross-entropy with the
    target. The weight of a sample is the largest entry of its target, normalised to a mean of 1 in
    the batch.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        epochs: length of the run.
        target_momentum: ``alpha`` of the targets, in [0, 1). 0.9, as in the authors' code
            (LayneH/self-adaptive-training).
        start: fraction of the run with the labels as targets. 0.3: the scripts of the same
            repository for CIFAR-10 and CIFAR-100 use epoch 60 of 200.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs_classes: ClassVar[str | None] = "averages class probabilities"

    targets: Tensor

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        epochs: int,
        *,
        target_momentum: float = 0.9,
        start: float = 0.3,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, num_classes, reduction=reduction)
        if not 0.0 <= target_momentum < 1.0:
            raise ValueError(
                f"target_momentum must be at least 0 and below 1, not {target_momentum}"
            )
        if not 0.0 <= start <= 1.0:
            raise ValueError(f"start must be a fraction of the run, from 0 to 1, not {start}")
        self.target_momentum = target_momentum
        self.plain_epochs = round(start * epochs)
        self.register_buffer("targets", torch.zeros(num_samples, num_classes))  # 0 until changed
        self.labels = GivenLabels(num_samples)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the cross-entropy with the labels or, after `start`, with the updated targets."""
        self.labels.record(target, index)
        if self.epoch <= self.plain_epochs:
            return cross_entropy(logits, target)
        self._move_targets(functional.softmax(at_least_float32(logits.detach()), 1), target, index)
        weights = weights_of_mean(self.targets[gather_rows(index)].amax(1))
        return weights * soft_cross_entropy(logits, self.targets[index])

    def _move_targets(self, probabilities: Tensor, target: Tensor, index: Tensor) -> None:
        index, target = gather_rows(index), gather_rows(target)
        rows = mean_of_same(gather_rows(probabilities.to(self.targets.dtype)), index)
        old = self.targets[index]
        label = functional.one_hot(target, old.shape[1]).to(old.dtype)
        old = torch.where(old.sum(1, keepdim=True) > 0, old, label)
        self.targets[index] = self.target_momentum * old + (1.0 - self.target_momentum) * rows

    def sample_scores(self) -> Tensor:
        """Return 1 - t_y, the target's weight of other classes. NaN until targets change."""
        labels = self.labels.label.long().clamp(min=0)
        own = self.targets.gather(1, labels[:, None]).flatten()
        return (1.0 - own).masked_fill(self.targets.sum(1) == 0, torch.nan)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the momentum, and the number of epochs with the labels as targets."""
        return {"target_momentum": self.target_momentum, "plain_epochs": self.plain_epochs}

    def log_values(self) -> dict[str, float]:
        """Return the mean target entry of the labels."""
        scores = self.sample_scores()
        return {"target_agreement": float(1.0 - scores.nan_to_num(0.0).mean())}
