"""CORES2: a confidence regulariser, and a sieve that leaves out samples with suspicious labels."""

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
"""Added to probabilities before taking the logarithm, as in the authors' code."""


@loss_classes.register("cores")
class CORES(IndexedLoss):
    """CORES2: cross-entropy minus the expected loss of a random label, and a sieve (Cheng 2021).

    The regulariser ``-beta sum_k P(k) CE(f(x), k)`` makes predictions confident. ``P(k)`` is the
    frequency of label ``k`` among the samples that were not left out in the previous epoch. Later
    in the run, the sieve leaves out samples whose cross-entropy exceeds the mean cross-entropy of
    all classes. The loss is the mean over the remaining samples, as in the authors' code
    (haochenglouis/cores). That code divides the learning rate by ``1 + beta``. Here the loss is
    divided, which for SGD differs only in the weight decay. The sieve is the authors' first phase.
    Their second phase trains on the left-out samples without labels; it is not included.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        epochs: length of the run.
        beta: factor of the regulariser after its rise. 2, as in the authors' code.
        begin: fraction of the run before the regulariser rises. 0.1: the authors' code uses 10 of
            100 epochs.
        end: fraction of the run after which the rise is complete. 0.4: the authors' code uses 40 of
            100 epochs.
        sieve_from: fraction of the run after which samples are left out. 0.3: the authors' code
            leaves out none in epochs 0 to 30 of 100.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``. Left-out samples count as 0.
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
        """Pass the labels of all samples. Without them, epoch 1 assumes equal class frequencies."""
        self.labels.set_all(target)

    def set_epoch(self, epoch: int) -> None:
        """Count the labels of the samples that were not left out. A resumed epoch does not."""
        super().set_epoch(epoch)
        counted = self.labels.label[(self.labels.label >= 0) & self.has_passed].long()
        if epoch > int(self.counted_in) and len(counted):
            counts = torch.bincount(counted, minlength=len(self.frequency))
            self.frequency.copy_(counts / counts.sum())
            self.counted_in.fill_(epoch)

    @property
    def current_beta(self) -> float:
        """Return the factor of the regulariser in the current epoch."""
        return risen_weight(self.epoch, self.epochs, self.beta, self.begin, self.end)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the regularised cross-entropies, 0 for samples that the sieve leaves out."""
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
        """Return the fraction of visits at which a sample fails the sieve, even before its use."""
        return self.left_out.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Return the regulariser, its rise, and the last epoch without the sieve."""
        return {
            "beta": self.beta,
            "begin": self.begin,
            "end": self.end,
            "last_unsieved_epoch": self.last_unsieved_epoch,
        }

    def log_values(self) -> dict[str, float]:
        """Return ``beta`` of the epoch."""
        return {"beta": self.current_beta}
