"""DiscrimLoss on top of SuperLoss, which is on top of the task loss."""

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
    """DiscrimLoss on top of SuperLoss, a robust loss as the inner loss (Wu et al. 2022).

    The inner loss of DiscrimLoss is SuperLoss minus the value of SuperLoss for a task loss of 0.
    SuperLoss alone is negative where the task loss is below tau, and all of its values shift when
    tau changes. But DiscrimLoss needs losses that start at 0: its threshold rises by a fraction of
    ``|k1|``, and the default ``k1``, the step size of the weights and the verdicts follow the size
    of the losses in the first epoch. The subtraction does not change the gradient, because the
    subtracted value does not depend on the network.

    Args:
        num_samples: size of the training set.
        epochs: length of the run, from which the defaults of DiscrimLoss follow.
        num_classes: number of classes; None for a regression.
        confidence_threshold, confidence_regularization: ``tau`` and ``lambda`` of `SuperLoss`, with
            its defaults; the paper of DiscrimLoss does not give the values it used.
        task_loss: ``(logits, target)`` to losses of shape (batch,).
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        discrimloss_options: all other keyword arguments of `discrimloss.DiscrimLoss`, with its
            defaults, which are ours (`docs/defaults.md`); ``hyperparameters=paper`` in
            `discrimloss train` takes the appendix's row for Clothing1M instead.
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
        """SuperLoss, measured from its value for a task loss of 0."""
        values = super().inner_losses(logits, target, index)
        return values - self.task_loss.terms(torch.zeros_like(values[:1])).values

    def hyperparameters(self) -> dict[str, Any]:
        """The hyperparameters of DiscrimLoss and of SuperLoss."""
        return {**super().hyperparameters(), **self.task_loss.hyperparameters()}

    def log_values(self) -> dict[str, float]:
        """The logged values of DiscrimLoss and of SuperLoss."""
        return {**super().log_values(), **self.task_loss.log_values()}
