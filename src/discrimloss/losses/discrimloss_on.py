"""DiscrimLoss on top of another loss, called with logits and targets."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import torch
from torch import Tensor

from discrimloss.functional import Reduction
from discrimloss.hyperparameters import Hyperparameters
from discrimloss.loss import DiscrimLoss
from discrimloss.losses.base import (
    IndexedLoss,
    TaskLoss,
    checked_rows,
    cross_entropy,
    loss_classes,
)
from discrimloss.options import Option
from discrimloss.registry import keyword_options


@loss_classes.register("discrimloss")
class DiscrimLossOn(IndexedLoss):
    """DiscrimLoss: a learned weight for every sample, and a moving threshold (Wu et al. 2022).

    This is `discrimloss.DiscrimLoss` with the arguments that all losses of this package take.
    `task_loss` may be any unreduced loss, including another loss of `discrimloss.losses`:
    ``DiscrimLossOn(N, E, task_loss=GeneralizedCrossEntropy())``.

    Args:
        num_samples: size of the training set.
        epochs: length of the run. The defaults depend on it.
        num_classes: number of classes; None for regression. Used by the next two options.
        class_aware: whether to compare each sample with its own class, or its own range of the
            regression target. Weights then act only once the network memorises labels. This extends
            the paper. By default False, the form of the paper.
        predictions: whether to correct labels by the network's predictions. This extends the paper
            and implies `class_aware`.
        task_loss: a function of ``(logits, target)`` that returns losses of shape (batch,), or a
            loss of this package.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        discrimloss_options: all other keyword arguments of `discrimloss.DiscrimLoss`. The defaults
            depend on `epochs`.
    """

    def __init__(
        self,
        num_samples: int | None = None,
        epochs: int | None = None,
        num_classes: int | None = None,
        *,
        class_aware: bool = False,
        predictions: bool = False,
        task_loss: TaskLoss = cross_entropy,
        reduction: Reduction = "mean",
        **discrimloss_options: Any,
    ) -> None:
        super().__init__(num_samples, num_classes, task_loss=task_loss, reduction=reduction)
        self.class_aware, self.predictions = class_aware or predictions, predictions
        if self.class_aware:
            task = "regression" if num_classes is None else "classification"
            discrimloss_options = {**discrimloss_options, "num_classes": num_classes, "task": task}
        self.criterion = DiscrimLoss(
            num_samples, epochs, reduction=reduction, **discrimloss_options
        )

    def forward(self, logits: Tensor, target: Tensor, index: Any = None) -> Tensor:
        """Return the loss of a batch. With ``ids=...``, `index` contains the ids of the samples."""
        if not self.training:
            return super().forward(logits, target)
        if self.num_samples is not None:
            index = checked_rows(index, target, self.num_samples, type(self).__name__)
        # The criterion reduces, because it knows the number of rows of the other processes.
        return self._weighted(logits, target, index)

    def _weighted(self, logits: Tensor, target: Tensor, index: Any) -> Tensor:
        """Return the criterion's loss of a batch, with targets and predictions if it uses them."""
        known = {"target": target} if self.class_aware else {}
        if self.predictions:
            known["predictions" if self.num_classes is None else "logits"] = logits
        loss: Tensor = self.criterion(self.inner_losses(logits, target, index), index, **known)
        return loss

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the weighted losses."""
        self.criterion.reduction = "none"
        try:
            losses = self._weighted(logits, target, index)
        finally:
            self.criterion.reduction = self.reduction
        return losses

    def inner_losses(self, logits: Tensor, target: Tensor, index: Any) -> Tensor:
        """Return the losses that DiscrimLoss weights, shape (batch,)."""
        if isinstance(self.task_loss, IndexedLoss):
            return self.task_loss.unreduced(logits, target, index)
        return self.task_losses(logits, target)

    def task_losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the task loss of each sample, shape (batch,)."""
        if isinstance(self.task_loss, IndexedLoss):
            return self.task_loss.task_losses(logits, target)
        return super().task_losses(logits, target)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of both losses."""
        super().set_epoch(epoch)
        self.criterion.set_epoch(epoch)
        if isinstance(self.task_loss, IndexedLoss):
            self.task_loss.set_epoch(epoch)

    def set_targets(self, target: Tensor) -> None:
        """Pass the labels of all samples to the inner loss."""
        if isinstance(self.task_loss, IndexedLoss):
            self.task_loss.set_targets(target)

    @property
    def history(self) -> DiscrimLoss:
        """The criterion. ``history.verdicts()`` returns its verdicts."""
        return self.criterion

    def sample_scores(self) -> Tensor:
        """Return the learned weights. 1 is neutral, and larger weights mean less trust.

        With predictions, return the averaged probability that the label is not the true class. For
        regression, return one minus the trust in the target.
        """
        if self.predictions and self.criterion.table.has_column("predicted_visits"):
            scores = self.criterion.labels_distrust()
            return scores.masked_fill(self.criterion.table.visits == 0, torch.nan)
        weights = self.criterion.sample_weights
        return weights.masked_fill(self.criterion.table.visits == 0, torch.nan)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the variant and the hyperparameters of the criterion."""
        forms = {"class_aware": self.class_aware, "predictions": self.predictions}
        forms = {name: True for name, is_on in forms.items() if is_on}
        values = asdict(self.criterion.hyperparameters)
        return {"variant": self.criterion.variant, **forms, **values}

    def log_values(self) -> dict[str, float]:
        """Return the thresholds and the mean weight."""
        return {
            "k1": float(self.criterion.k1),
            "k_dyn": self.criterion.k_dyn,
            "k2": self.criterion.k2,
            "mean_weight": float(self.criterion.sample_weights.mean()),
        }

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Return the options of this class and the hyperparameters of `discrimloss.DiscrimLoss`."""
        names = {"variant", *(field.name for field in fields(Hyperparameters))}
        names |= {"class_aware", "predictions"}
        inherited = keyword_options(DiscrimLoss) | keyword_options(DiscrimLossOn)
        return super().options() | {n: o for n, o in inherited.items() if n in names}
