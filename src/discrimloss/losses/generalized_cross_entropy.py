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
    """``L_q = (1 - p_y**q) / q`` from ``-log p_y``, elementwise.

    ``p_y**q`` has an infinite slope at 0. In ``log p_y`` the slope is ``-p_y**q``, which is finite
    everywhere, and `expm1` keeps the digits of a small loss.

    >>> generalized_cross_entropy(torch.tensor([0.25]).log().neg(), exponent=0.5)
    tensor([1.])
    """
    return -torch.expm1(-exponent * cross_entropies) / exponent


@loss_classes.register("gce")
class GeneralizedCrossEntropy(IndexedLoss):
    """Generalized cross-entropy, (1 - p_y^q) / q, and its truncated form (Zhang & Sabuncu 2018).

    The gradient is that of cross-entropy times ``p_y**q``: labels that the network finds unlikely
    count little. So do correct labels that are not learned yet, a fifth at chance among ten
    classes: with the same learning rate it needs more epochs than cross-entropy on clean labels
    (digits: 2 points behind after 20 epochs, 1 after 40, none after 120).

    The truncated form gives every label with ``p_y`` of at most ``k``
    the constant loss of ``p_y = k``, hence no gradient. Which labels those are is decided again at
    intervals, when some come back.

    Where we depart from the paper: it decides by a pass over the training set, with the network
    that did best on validation labels so far. We decide by the prediction at the last visit of each
    sample, which costs no pass and needs no validation labels. Samples that are left out still pass
    through the network, so their predictions stay up to date.

    Args:
        num_samples: size of the training set; needed for the truncated form and for
            `sample_scores`.
        epochs: length of the run; needed for the truncated form.
        exponent: ``q``, above 0 (near 0: cross-entropy) and up to 1 (the mean absolute error). 0.7,
            which the paper uses in all of its experiments.
        truncated: whether to use the truncated form. False: the paper has results for both, and
            this one has fewer options.
        truncation_threshold: ``k``, in (0, 1). 0.5, the paper's for all of its experiments.
        first_truncation: the fraction of the run at which labels are first left out, before the
            epoch at it. 1/3: epoch 40 of 120 for CIFAR-10, counted from 1, in the paper and in
            AlanChou/Truncated-Loss (a public reimplementation), which we scale to the run.
        truncation_interval: the fraction of the run after which it is decided again. 1/12: every
            10 of those 120 epochs, scaled likewise, and at least one epoch.
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
        """Decide which labels are left out, if it is time; not again in a resumed epoch."""
        super().set_epoch(epoch)
        if not self.truncated or epoch < self.first or epoch <= int(self.decided_in):
            return
        if (epoch - self.first) % self.interval == 0:
            self.is_kept.copy_(self.predictions > self.truncation_threshold)
            self.decided_in.fill_(epoch)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """The generalized cross-entropies, a constant for labels that are left out."""
        cross_entropies = at_least_float32(cross_entropy(logits, target))
        losses = generalized_cross_entropy(cross_entropies, self.exponent)
        self.distrust.add(self.exponent * losses, index)
        if not self.truncated:
            return losses
        self._record(cross_entropies.detach(), index)
        constant = (1.0 - self.truncation_threshold**self.exponent) / self.exponent
        # 0 * losses: every process needs every parameter in the graph.
        return losses.where(self.is_kept[index], constant + 0.0 * losses)

    def _record(self, cross_entropies: Tensor, index: Tensor) -> None:
        """Keep ``p_y`` of each sample. If a sample is in the batch twice, keep the lower one."""
        index = gather_rows(index)
        predictions = gather_rows(cross_entropies).neg().exp().to(self.predictions.dtype)
        self.predictions.index_fill_(0, index, 1.0)
        self.predictions.scatter_reduce_(0, index, predictions, "amin")

    def sample_scores(self) -> Tensor | None:
        """1 - p_y^q, mean over the visits."""
        return self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """The exponent; for the truncated form also its threshold and its epochs."""
        values: dict[str, Any] = {"exponent": self.exponent, "truncated": self.truncated}
        if self.truncated:
            values["truncation_threshold"] = self.truncation_threshold
            values["first_truncated_epoch"] = self.first
            values["truncation_interval_epochs"] = self.interval
        return values

    def log_values(self) -> dict[str, float]:
        """The fraction of labels that are left out."""
        return {"left_out": float((~self.is_kept).float().mean())} if self.truncated else {}
