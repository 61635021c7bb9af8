"""CORES2: a confidence regulariser, and a sieve that leaves out samples it finds corrupted."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import IndexedLoss, loss_classes
from discrimloss.losses.peer_loss import risen_weight
from discrimloss.losses.sample_state import GivenLabels, SampleMean
from discrimloss.state.gathering import gather_rows, own_rows, weights_of_mean

SMALLEST = 1e-8
"""Added to a probability before its logarithm, as in the authors' code."""


@loss_classes.register("cores")
class CORES(IndexedLoss):
    """CORES2: cross-entropy minus the expected loss of a random label, and a sieve (Cheng 2021).

    The regulariser ``-beta sum_k P(k) CE(f(x), k)``, with ``P(k)`` the frequency of label ``k``
    among the samples that were not left out in the epoch before, pushes predictions to be
    confident. Later in the run, the sieve leaves out samples whose cross-entropy exceeds the mean
    of the cross-entropies of all classes. The loss is the mean over the others, as in the authors'
    code (haochenglouis/cores). That code divides the learning rate by ``1 + beta``; here the loss
    is divided, which for SGD differs in the weight decay only. The sieve is the authors' first
    phase; their second trains on the samples that it left out, without labels.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        epochs: length of the run.
        beta: factor of the regulariser, at the end of its rise. 2, from that repository.
        begin: fraction of the run without the regulariser; 10 of 100 epochs there.
        end: fraction of the run after which it has risen; 40 of 100 epochs there.
        sieve_from: fraction of the run after which samples are left out; 0.3: after the epochs
            0 to 30 of 100 there.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``. Samples that are left out count as 0.
    """

    needs_classes: ClassVar[str | None] = "compares the loss of a label with those of all classes"

    has_passed: Tensor
    frequency: Tensor
    counted_in: Tensor

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        epochs: int,
        *,
        beta: float = 2.0,
        begin: float = 0.1,
        end: float = 0.4,
        sieve_from: float = 0.3,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, num_classes, reduction=reduction)
        if not 0.0 <= beta < math.inf:
            raise ValueError(f"beta must be finite and at least 0, not {beta}")
        if not (0.0 <= begin <= end <= 1.0 and 0.0 <= sieve_from <= 1.0):
            raise ValueError(
                "begin, end and sieve_from must be fractions of the run, begin not after end, "
                f"not {begin}, {end} and {sieve_from}"
            )
        self.epochs, self.beta, self.begin, self.end = epochs, beta, begin, end
        self.last_unsieved_epoch = 1 + math.floor(sieve_from * epochs + 1e-9)
        self.left_out = SampleMean(num_samples)
        self.labels = GivenLabels(num_samples)
        self.register_buffer("has_passed", torch.ones(num_samples, dtype=torch.bool))
        self.register_buffer("frequency", torch.full((num_classes,), 1.0 / num_classes))
        self.register_buffer("counted_in", torch.tensor(0))

    def set_targets(self, target: Tensor) -> None:
        """Know the labels from the first epoch on; otherwise all classes count alike in it."""
        self.labels.set_all(target)

    def set_epoch(self, epoch: int) -> None:
        """Count the labels that were not left out; not again in a resumed epoch."""
        super().set_epoch(epoch)
        counted = self.labels.label[(self.labels.label >= 0) & self.has_passed].long()
        if epoch > int(self.counted_in) and len(counted):
            counts = torch.bincount(counted, minlength=len(self.frequency))
            self.frequency.copy_(counts / counts.sum())
            self.counted_in.fill_(epoch)

    @property
    def current_beta(self) -> float:
        """The factor of the regulariser in the current epoch."""
        return risen_weight(self.epoch, self.epochs, self.beta, self.begin, self.end)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """The regularised cross-entropies of the samples that pass the sieve."""
        of_classes = -(functional.softmax(at_least_float32(logits), 1) + SMALLEST).log()
        losses = of_classes.gather(1, target[:, None]).squeeze(1)
        self.labels.record(target, index)
        passed = gather_rows((losses <= of_classes.mean(1)).float())
        self.left_out.add(1.0 - own_rows(passed), index)
        if self.epoch <= self.last_unsieved_epoch:
            passed = torch.ones_like(passed)
        self.has_passed[gather_rows(index)] = passed > 0
        expected = (of_classes * self.frequency.to(of_classes)).sum(1)
        regularized = (losses - self.current_beta * expected) / (1.0 + self.current_beta)
        return weights_of_mean(passed).to(regularized) * regularized

    def sample_scores(self) -> Tensor | None:
        """The fraction of visits in which a sample did not pass the sieve, in use or not."""
        return self.left_out.values()

    def hyperparameters(self) -> dict[str, Any]:
        """The regulariser, its rise, and the last epoch without the sieve."""
        return {
            "beta": self.beta,
            "begin": self.begin,
            "end": self.end,
            "last_unsieved_epoch": self.last_unsieved_epoch,
        }

    def log_values(self) -> dict[str, float]:
        """``beta`` of the epoch."""
        return {"beta": self.current_beta}
