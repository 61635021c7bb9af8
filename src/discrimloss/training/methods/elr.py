"""Early-learning regularisation: hold the network to what it answered early on."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from discrimloss.functional import at_least_float32, mean_of_same
from discrimloss.state.gathering import gather_rows
from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods

LOWEST = 1e-4
"""Probabilities are held in [LOWEST, 1 - LOWEST], as in the authors' released code: the logarithm
stays finite, and an answer beyond that is pulled no further."""


def moved_targets(targets: Tensor, probabilities: Tensor, momentum: float) -> Tensor:
    """``beta t + (1 - beta) p``, `probabilities` normalised; both of shape (batch, classes)."""
    normalized = probabilities / probabilities.sum(1, keepdim=True)
    return momentum * targets + (1.0 - momentum) * normalized


def early_learning_penalty(probabilities: Tensor, targets: Tensor) -> Tensor:
    """``log(1 - <p, t>)``, shape (batch,): lower where answer and target agree."""
    return torch.log1p(-(probabilities * targets).sum(1))


@methods.register("elr")
class Elr(Method):
    """Early-learning regularisation, cross-entropy + lambda log(1 - <p, t>) (Liu et al. 2020).

    ``t`` is a moving average of the network's own probabilities for the sample (temporal
    ensembling). The penalty's gradient grows with the agreement of ``p`` and ``t``: it keeps up
    labels learned early, where cross-entropy's gradient is vanishing, and cancels the pull of wrong
    ones. This is the paper's ELR, one network; ELR+ adds a second one, weight averaging and mixup.

    Args:
        setting: what may be known of the task.
        regularization: ``lambda``. 3, the authors' for CIFAR-10 (hyperparameters in the paper's
            supplement, and the released configuration); 7 for CIFAR-100.
        target_momentum: ``beta`` of the targets, in [0, 1). 0.7, from the same places; 0.9 for
            CIFAR-100.
    """

    targets: Tensor

    def __init__(
        self, setting: Setting, *, regularization: float = 3.0, target_momentum: float = 0.7
    ) -> None:
        num_classes = setting.require_classes("elr", "averages class probabilities")
        if not 0.0 <= regularization < math.inf:
            raise ValueError(f"regularization must be finite and at least 0, not {regularization}")
        if not 0.0 <= target_momentum < 1.0:
            raise ValueError(
                f"target_momentum must be at least 0 and below 1, not {target_momentum}"
            )
        super().__init__(setting)
        self.regularization = regularization
        self.target_momentum = target_momentum
        self.register_buffer("targets", torch.zeros(setting.num_samples, num_classes))

    def training_step(self, batch: Batch) -> StepResult:
        """The mean of cross-entropy and penalty; the targets move first, as the authors do it."""
        output = self.networks[0](batch.inputs)
        losses = self.setting.task_losses(output, batch.target)
        logits = at_least_float32(output)
        probabilities = F.softmax(logits, 1).clamp(LOWEST, 1.0 - LOWEST)
        self._move_targets(probabilities.detach(), batch.index)
        penalty = early_learning_penalty(probabilities, self.targets[batch.index])
        loss = (losses + self.regularization * penalty).mean()
        return StepResult(loss, losses.detach(), output.detach())

    def _move_targets(self, probabilities: Tensor, index: Tensor) -> None:
        index = gather_rows(index)
        rows = mean_of_same(gather_rows(probabilities.to(self.targets.dtype)), index)
        self.targets[index] = moved_targets(self.targets[index], rows, self.target_momentum)

    def _targets_of_labels(self) -> Tensor:
        """``t_y`` of every sample; NaN where there was no visit.

        After n visits a target sums to ``1 - beta**n``, having started at 0; this is made up for.
        """
        own = self.targets.gather(1, self.setting.target.to(self.targets.device)[:, None])
        return own.flatten() / self.targets.sum(1)  # 0 / 0 is NaN

    def sample_scores(self) -> Tensor:
        """1 - t_y: what the averaged answers leave to other classes than the label's."""
        return 1.0 - self._targets_of_labels()

    def hyperparameters(self) -> dict[str, Any]:
        """Both of them."""
        return {
            "regularization": self.regularization,
            "target_momentum": self.target_momentum,
        }

    def log_values(self) -> dict[str, float]:
        """How much the targets agree with the labels, in the mean."""
        agreement = self._targets_of_labels()
        return {"target_agreement": float(agreement.nan_to_num(0.0).mean())}
