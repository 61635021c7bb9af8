"""Generalized cross-entropy: between cross-entropy and the mean absolute error."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import IndexedLoss, cross_entropy, loss_classes
from discrimloss.losses.sample_state import SampleMean
from discrimloss.state.gathering import gather_rows


def generalized_cross_entropy(cross_entropies: Tensor, exponent: float) -> Tensor:
    """Return ``L_q = (1 - p_y**q) / q`` from ``-log p_y``, elementwise.

    The slope of ``p_y**q`` at 0 is infinite. As a function of ``log p_y`` the slope is ``-p_y**q``,
    which is always finite. `expm1` keeps small losses precise.

    >>> generalized_cross_entropy(torch.tensor([0.25]).log().neg(), exponent=0.5)
    tensor([1.])
    """
    return -torch.expm1(-exponent * cross_entropies) / exponent


@loss_classes.register("gce")
class GeneralizedCrossEntropy(IndexedLoss):
    """Generalized cross-entropy, (1 - p_y^q) / q, and its truncated form (Zhang & Sabuncu 2018).

    The gradient is that of cross-entropy times ``p_y**q``, so labels that the network finds
    unlikely have little effect. The same holds for correct labels that are not learned yet: at
    chance level with ten classes, they have a fifth of the gradient. With the same learning rate,
    the loss therefore needs more epochs than cross-entropy on clean labels (digits: 2 points behind
    after 20 epochs, 1 after 40, none after 120).

    The truncated form gives all labels with ``p_y`` of at most ``k`` the constant loss of
    ``p_y = k``, so they have no gradient. The set of these labels is updated at intervals, and
    labels can return.

    We depart from the paper in one point. The paper updates the set in a pass over the training
    set, with the network that is best on validation labels so far. We use the prediction at the
    last visit to each sample, which needs no extra pass and no validation labels. Left-out samples
    still pass through the network, so their predictions stay up to date.

    Args:
        num_samples: size of the training set. Needed for the truncated form and for
            `sample_scores`.
        epochs: length of the run. Needed for the truncated form.
        exponent: ``q``, above 0 (close to 0: cross-entropy) and at most 1 (mean absolute error).
            0.7, as in all experiments of the paper.
        truncated: whether to use the truncated form. By default False: the paper has results for
            both forms, and the form without truncation has fewer options.
        truncation_threshold: ``k``, in (0, 1). 0.5, as in all experiments of the paper.
        first_truncation: fraction of the run after which labels are first left out. 1/3: epoch 40
            of 120 for CIFAR-10, counted from 1, in the paper and in AlanChou/Truncated-Loss (a
            public reimplementation).
        truncation_interval: fraction of the run between updates, at least one epoch. 1/12: every 10
            of those 120 epochs.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs_classes: ClassVar[str | None] = "takes powers of class probabilities"

    predictions: Tensor
    is_kept: Tensor
    decided_in: Tensor

    def __init__(
        self,
        num_samples: int | None = None,
        epochs: int | None = None,
        *,
        exponent: float = 0.7,
        truncated: bool = False,
        truncation_threshold: float = 0.5,
        first_truncation: float = 1 / 3,
        truncation_interval: float = 1 / 12,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, reduction=reduction)
        if not 0.0 < exponent <= 1.0:
            raise ValueError(f"exponent must be above 0 and at most 1, not {exponent}")
        if not 0.0 < truncation_threshold < 1.0:
            raise ValueError(
                f"truncation_threshold must be above 0 and below 1, not {truncation_threshold}"
            )
        if not 0.0 <= first_truncation <= 1.0 or not 0.0 < truncation_interval <= 1.0:
            raise ValueError(
                "first_truncation and truncation_interval must be fractions of the run, in [0, 1] "
                f"and in (0, 1], not {first_truncation} and {truncation_interval}"
            )
        self.exponent = exponent
        self.truncated = truncated
        self.truncation_threshold = truncation_threshold
        self.distrust = SampleMean(num_samples)
        if truncated:
            if num_samples is None or epochs is None:
                raise ValueError("the truncated form needs num_samples and epochs")
            self.first = max(1, round(first_truncation * epochs))
            self.interval = max(1, round(truncation_interval * epochs))
            self.register_buffer("predictions", torch.ones(num_samples))
            self.register_buffer("is_kept", torch.ones(num_samples, dtype=torch.bool))
            self.register_buffer("decided_in", torch.tensor(0))

    def set_epoch(self, epoch: int) -> None:
        """Update the left-out labels if an update is due, but not again in a resumed epoch."""
        super().set_epoch(epoch)
        if not self.truncated or epoch < self.first or epoch <= int(self.decided_in):
            return
        if (epoch - self.first) % self.interval == 0:
            self.is_kept.copy_(self.predictions > self.truncation_threshold)
            self.decided_in.fill_(epoch)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the generalized cross-entropies, with a constant for left-out labels."""
        cross_entropies = at_least_float32(cross_entropy(logits, target))
        losses = generalized_cross_entropy(cross_entropies, self.exponent)
        self.distrust.add(self.exponent * losses, index)
        if not self.truncated:
            return losses
        self._record(cross_entropies.detach(), index)
        constant = (1.0 - self.truncation_threshold**self.exponent) / self.exponent
        # 0 * losses, because all parameters must be in the graph in every process.
        return losses.where(self.is_kept[index], constant + 0.0 * losses)

    def _record(self, cross_entropies: Tensor, index: Tensor) -> None:
        """Record ``p_y`` of each sample. If it is in the batch twice, record the lower one."""
        index = gather_rows(index)
        predictions = gather_rows(cross_entropies).neg().exp().to(self.predictions.dtype)
        self.predictions.index_fill_(0, index, 1.0)
        self.predictions.scatter_reduce_(0, index, predictions, "amin")

    def sample_scores(self) -> Tensor | None:
        """Return the mean of 1 - p_y^q over the visits."""
        return self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Return the exponent and, for the truncated form, its threshold and its epochs."""
        values: dict[str, Any] = {"exponent": self.exponent, "truncated": self.truncated}
        if self.truncated:
            values["truncation_threshold"] = self.truncation_threshold
            values["first_truncated_epoch"] = self.first
            values["truncation_interval_epochs"] = self.interval
        return values

    def log_values(self) -> dict[str, float]:
        """Return the fraction of left-out labels."""
        return {"left_out": float((~self.is_kept).float().mean())} if self.truncated else {}
