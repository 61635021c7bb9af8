"""The unchanged task loss."""

from __future__ import annotations

from torch import Tensor

from discrimloss.functional import Reduction
from discrimloss.losses.base import IndexedLoss, TaskLoss, cross_entropy, loss_classes


@loss_classes.register("plain")
class CrossEntropy(IndexedLoss):
    """The task loss: cross-entropy, or the loss of a regression.

    Args:
        task_loss: a function of ``(logits, target)`` that returns losses of shape (batch,).
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self, *, task_loss: TaskLoss = cross_entropy, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(task_loss=task_loss, reduction=reduction)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the task losses."""
        return self.task_losses(logits, target)
