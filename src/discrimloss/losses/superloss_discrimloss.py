"""DiscrimLoss with SuperLoss as the inner loss. SuperLoss in turn takes the task loss."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from discrimloss.functional import Reduction
from discrimloss.losses.base import TaskLoss, cross_entropy, loss_classes
from discrimloss.losses.discrimloss_on import DiscrimLossOn
from discrimloss.losses.superloss import SuperLoss


@loss_classes.register("superloss_discrimloss")
class SuperLossDiscrimLoss(DiscrimLossOn):
    """DiscrimLoss with SuperLoss, a robust loss, as the inner loss (Wu et al. 2022).

    The inner loss of DiscrimLoss is SuperLoss minus the value of SuperLoss for a task loss of 0.
    The reason is that DiscrimLoss needs losses that start at 0. Its threshold rises by a fraction
    of ``|k1|``. The default ``k1``, the step size of the weights and the verdicts depend on the
    size of the losses in the first epoch. SuperLoss itself is negative for task losses below tau,
    and all of its values shift when tau changes. The subtraction does not change the gradient,
    because the subtracted value does not depend on the network.

    Args:
        num_samples: size of the training set.
        epochs: length of the run. The defaults of DiscrimLoss depend on it.
        num_classes: number of classes; None for regression.
        confidence_threshold, confidence_regularization: ``tau`` and ``lambda`` of `SuperLoss`, with
            its defaults. The paper of DiscrimLoss does not give its values.
        task_loss: a function of ``(logits, target)`` that returns losses of shape (batch,).
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        discrimloss_options: all other keyword arguments of `discrimloss.DiscrimLoss`, with our
            defaults (`docs/defaults.md`). ``hyperparameters=paper`` in `discrimloss train` uses the
            appendix's row for Clothing1M instead.
    """

    task_loss: SuperLoss

    def __init__(
        self,
        num_samples: int | None = None,
        epochs: int | None = None,
        num_classes: int | None = None,
        *,
        confidence_threshold: Literal["log_classes", "ema", "mean"] | float | None = None,
        confidence_regularization: float | None = None,
        task_loss: TaskLoss = cross_entropy,
        reduction: Reduction = "mean",
        **discrimloss_options: Any,
    ) -> None:
        superloss = SuperLoss(
            num_classes=num_classes,
            confidence_threshold=confidence_threshold,
            confidence_regularization=confidence_regularization,
            task_loss=task_loss,
        )
        super().__init__(
            num_samples,
            epochs,
            num_classes,
            task_loss=superloss,
            reduction=reduction,
            **discrimloss_options,
        )

    def inner_losses(self, logits: Tensor, target: Tensor, index: Any) -> Tensor:
        """Return SuperLoss minus its value for a task loss of 0."""
        values = super().inner_losses(logits, target, index)
        return values - self.task_loss.terms(torch.zeros_like(values[:1])).values

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of DiscrimLoss and of SuperLoss."""
        return {**super().hyperparameters(), **self.task_loss.hyperparameters()}

    def log_values(self) -> dict[str, float]:
        """Return the logged values of DiscrimLoss and of SuperLoss."""
        return {**super().log_values(), **self.task_loss.log_values()}
