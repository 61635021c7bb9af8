"""Self-paced learning: samples with small losses first, and others as a threshold grows."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from discrimloss.functional import Reduction
from discrimloss.losses.base import IndexedLoss, TaskLoss, cross_entropy, loss_classes
from discrimloss.losses.sample_state import SampleMean
from discrimloss.state.gathering import gather_rows

UNKNOWN = -math.inf
"""The recorded loss of a sample that was never in a batch."""


@loss_classes.register("self_paced")
class SelfPacedLearning(IndexedLoss):
    """Self-paced learning: only losses below a growing threshold count (Kumar et al. 2010).

    It works with any task loss. A sample whose loss is at least the threshold has the weight 0.
    This minimises the paper's objective: the sum of the weighted losses minus the threshold times
    the sum of the weights. The mean therefore divides by the batch size. The first threshold is set
    so that the fraction `first_fraction` of the samples counts. The threshold grows by a factor in
    each epoch until all samples count.

    We depart from the paper, which optimises the parameters to convergence between two thresholds.
    Here the threshold changes with each epoch. The first threshold depends on the losses at the
    last visits. The authors did not release code.

    Args:
        num_samples: size of the training set.
        epochs: length of the run.
        warmup: fraction of the run in which all samples count, so that losses become meaningful.
            0.1 is our choice. The paper also starts from an estimate with all samples.
        first_fraction: fraction of the samples below the first threshold. 0.5, as in the paper's
            experiments.
        growth: factor of the threshold in each epoch, above 1. 1.3, as in the paper's experiments.
        largest_fraction: largest fraction of the samples that may count, by the losses at the last
            visits. 1, as in the paper. With wrong labels, 1 minus the noise rate leaves out as many
            samples as there are wrong labels.
        task_loss: a function of ``(logits, target)`` that returns losses of shape (batch,).
        reduction: ``"mean"``, ``"sum"`` or ``"none"``. Left-out samples count as 0.
    """

    threshold: Tensor
    last_loss: Tensor
    decided_in: Tensor

    def __init__(
        self,
        num_samples: int,
        epochs: int,
        *,
        warmup: float = 0.1,
        first_fraction: float = 0.5,
        growth: float = 1.3,
        largest_fraction: float = 1.0,
        task_loss: TaskLoss = cross_entropy,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, task_loss=task_loss, reduction=reduction)
        if not 0.0 <= warmup <= 1.0:
            raise ValueError(f"warmup must be a fraction of the run, from 0 to 1, not {warmup}")
        if not 0.0 < first_fraction <= largest_fraction <= 1.0:
            raise ValueError(
                "first_fraction and largest_fraction must be fractions of the samples, above 0 "
                f"and in this order, not {first_fraction} and {largest_fraction}"
            )
        if not 1.0 < growth < math.inf:
            raise ValueError(f"growth must be a finite factor above 1, not {growth}")
        self.warmup_epochs = max(1, math.ceil(warmup * epochs))
        self.first_fraction, self.largest_fraction = first_fraction, largest_fraction
        self.growth = growth
        self.left_out = SampleMean(num_samples)
        self.register_buffer("threshold", torch.tensor(math.inf))
        self.register_buffer("last_loss", torch.full((num_samples,), UNKNOWN))
        self.register_buffer("decided_in", torch.tensor(0))

    def set_epoch(self, epoch: int) -> None:
        """Set the threshold of the epoch. A resumed epoch keeps its threshold."""
        super().set_epoch(epoch)
        if epoch <= self.warmup_epochs or epoch <= int(self.decided_in):
            return
        known = self.last_loss[self.last_loss.isfinite()].double()
        if not len(known):
            return
        threshold = self.threshold.double() * self.growth
        if int(self.decided_in) == 0:
            threshold = _just_above(known, self.first_fraction)
        if self.largest_fraction < 1.0:
            threshold = torch.minimum(threshold, _just_above(known, self.largest_fraction))
        self.threshold.copy_(threshold)
        self.decided_in.fill_(epoch)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the task losses below the threshold, and 0 for the others."""
        losses = self.task_losses(logits, target)
        counts = (losses.detach() < self.threshold).to(losses.dtype)
        self._record(losses.detach(), index)
        self.left_out.add(1.0 - counts, index)
        return counts * losses

    def _record(self, losses: Tensor, index: Tensor) -> None:
        """Record the loss of each sample. If it is in the batch twice, record the higher one."""
        index = gather_rows(index)
        self.last_loss.index_fill_(0, index, UNKNOWN)
        values = gather_rows(losses.to(self.last_loss.dtype))
        self.last_loss.scatter_reduce_(0, index, values, "amax")

    def sample_scores(self) -> Tensor | None:
        """Return the fraction of its visits in which a sample did not count."""
        return self.left_out.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Return the length of the warm-up and the settings of the threshold."""
        return {
            "warmup_epochs": self.warmup_epochs,
            "first_fraction": self.first_fraction,
            "growth": self.growth,
            "largest_fraction": self.largest_fraction,
        }

    def log_values(self) -> dict[str, float]:
        """Return the fraction of samples below the threshold at their last visit."""
        known = self.last_loss[self.last_loss.isfinite()]
        counting = (known < self.threshold).float().mean() if len(known) else torch.ones(())
        return {"counting_fraction": float(counting)}


def _just_above(losses: Tensor, fraction: float) -> Tensor:
    """Return the smallest threshold with at least the given fraction of losses below it."""
    rank = min(max(math.ceil(fraction * len(losses) - 1e-9), 1), len(losses))
    limit = losses.kthvalue(rank).values.float()
    return torch.nextafter(limit, torch.full_like(limit, math.inf)).double()
