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
    """DiscrimLoss: a learned weight and a moving threshold for every sample (Wu et al. 2022).

    `discrimloss.DiscrimLoss`, which takes losses and an index, behind the call that all losses
    here share. `task_loss` may be any unreduced loss, another one of `discrimloss.losses` among
    them: ``DiscrimLossOn(N, E, task_loss=GeneralizedCrossEntropy())``.

    Args:
        num_samples: size of the training set.
        epochs: length of the run, from which the defaults follow.
        num_classes: number of classes; None for a regression. Used by the next two options.
        class_aware: compare samples with their own class, or range of the target, and act only
            once labels are memorised. Ours; off, because the paper's form is the default here.
        predictions: correct labels by what the network predicts. Ours; implies `class_aware`.
        task_loss: ``(logits, target)`` to losses of shape (batch,), or a loss of this package.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        discrimloss_options: all other keyword arguments of `discrimloss.DiscrimLoss`; what is not
            given follows from `epochs`.
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
        """Like `IndexedLoss.forward`; with ``ids=...``, `index` holds the names of the samples."""
        if not self.training:
            return super().forward(logits, target)
        if self.num_samples is not None:
            index = checked_rows(index, target, self.num_samples, type(self).__name__)
        # The criterion reduces, as it knows how many rows the other processes have.
        return self._weighted(logits, target, index)

    def _weighted(self, logits: Tensor, target: Tensor, index: Any) -> Tensor:
        """The criterion's loss of the inner losses, and of what else it is to know."""
        known = {"target": target} if self.class_aware else {}
        if self.predictions:
            known["predictions" if self.num_classes is None else "logits"] = logits
        loss: Tensor = self.criterion(self.inner_losses(logits, target, index), index, **known)
        return loss

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """The weighted losses."""
        self.criterion.reduction = "none"
        try:
            losses = self._weighted(logits, target, index)
        finally:
            self.criterion.reduction = self.reduction
        return losses

    def inner_losses(self, logits: Tensor, target: Tensor, index: Any) -> Tensor:
        """The losses that DiscrimLoss weights, shape (batch,)."""
        if isinstance(self.task_loss, IndexedLoss):
            return self.task_loss.unreduced(logits, target, index)
        return self.task_losses(logits, target)

    def task_losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """The task loss of each sample, shape (batch,)."""
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
        """Give the labels of all samples to the inner loss."""
        if isinstance(self.task_loss, IndexedLoss):
            self.task_loss.set_targets(target)

    @property
    def history(self) -> DiscrimLoss:
        """The criterion itself: ``history.verdicts()`` are its verdicts."""
        return self.criterion

    def sample_scores(self) -> Tensor:
        """The learned weights: 1 is neutral, large is distrusted.

        With predictions, what the averaged predictions leave to other classes than the label's; of
        a regression, one minus the trust in the target.
        """
        if self.predictions and self.criterion.table.has_column("predicted_visits"):
            scores = self.criterion.labels_distrust()
            return scores.masked_fill(self.criterion.table.visits == 0, torch.nan)
        weights = self.criterion.sample_weights
        return weights.masked_fill(self.criterion.table.visits == 0, torch.nan)

    def hyperparameters(self) -> dict[str, Any]:
        """The variant and the hyperparameters of the criterion."""
        forms = {"class_aware": self.class_aware, "predictions": self.predictions}
        forms = {name: True for name, is_on in forms.items() if is_on}
        values = asdict(self.criterion.hyperparameters)
        return {"variant": self.criterion.variant, **forms, **values}

    def log_values(self) -> dict[str, float]:
        """The thresholds, and the mean weight."""
        return {
            "k1": float(self.criterion.k1),
            "k_dyn": self.criterion.k_dyn,
            "k2": self.criterion.k2,
            "mean_weight": float(self.criterion.sample_weights.mean()),
        }

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Own ones, and the hyperparameters of `discrimloss.DiscrimLoss`."""
        names = {"variant", *(field.name for field in fields(Hyperparameters))}
        names |= {"class_aware", "predictions"}
        inherited = keyword_options(DiscrimLoss) | keyword_options(DiscrimLossOn)
        return super().options() | {n: o for n, o in inherited.items() if n in names}
