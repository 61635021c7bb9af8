"""The base class of losses whose score is the probability that the label is not the true class."""

from __future__ import annotations

import torch
from torch import Tensor

from discrimloss.functional import Reduction
from discrimloss.losses.base import IndexedLoss
from discrimloss.losses.sample_state import SampleMean


class LabelProbabilityLoss(IndexedLoss):
    """A loss for classification that records ``1 - p_y`` of each sample.

    Args:
        num_samples: size of the training set. Needed for `sample_scores`.
        num_classes: number of columns of the logits, if the loss needs it in advance.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        num_samples: int | None = None,
        num_classes: int | None = None,
        *,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, num_classes, reduction=reduction)
        self.distrust = SampleMean(num_samples)

    def record(self, cross_entropies: Tensor, index: Tensor) -> None:
        """Record ``1 - p_y`` of a batch, from ``-log p_y``."""
        self.distrust.add(-torch.expm1(-cross_entropies.detach()), index)

    def sample_scores(self) -> Tensor | None:
        """Return the mean of 1 - p_y over the visits."""
        return self.distrust.values()
