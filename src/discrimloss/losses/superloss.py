"""SuperLoss: each task loss is weighted by a confidence that depends on the loss itself.

The loss is ``SL(l, sigma) = (l - tau) sigma + lambda (log sigma)^2`` (Castells et al. 2020). The
confidence ``sigma`` minimises it.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import IndexedLoss, TaskLoss, cross_entropy, loss_classes
from discrimloss.losses.lambert_w import BRANCH_POINT, lambert_w
from discrimloss.losses.sample_state import SampleMean
from discrimloss.state.gathering import gather_rows

Threshold = Literal["log_classes", "ema", "mean"] | float

THRESHOLDS = ("log_classes", "ema", "mean")
THRESHOLD_DECAY = 0.9  # alpha in the paper: decay of the moving average
CLASSES_REGULARIZATION = 1.0
RELATIVE_REGULARIZATION = 1.0 / math.log(10.0)
SMALLEST_REGULARIZATION = 1e-15  # keeps lambda above 0 if tau is 0


def log_confidences(
    losses: Tensor, threshold: float | Tensor, regularization: float | Tensor
) -> Tensor:
    """Return ``log sigma* = -W(max(-2/e, beta) / 2)``, ``beta = (l - tau) / lambda``. No gradient.

    >>> log_confidences(torch.tensor([0.0, 1.0, 9.0]), threshold=1.0, regularization=1.0)
    tensor([ 1.0000, -0.0000, -1.2022])
    """
    excess = (losses.detach() - threshold) / regularization
    return -lambert_w((0.5 * excess).clamp(min=BRANCH_POINT))


def super_losses(
    losses: Tensor,
    log_confidence: Tensor,
    threshold: float | Tensor,
    regularization: float | Tensor,
) -> Tensor:
    """Return ``SL``, elementwise.

    >>> super_losses(torch.tensor([3.0]), torch.tensor([0.5]).log(), 1.0, regularization=0.0)
    tensor([1.])
    """
    penalty = regularization * log_confidence.square()
    return (losses - threshold) * log_confidence.exp() + penalty


class SuperLossTerms(NamedTuple):
    """SuperLoss of a batch."""

    values: Tensor
    """Shape (batch,). Their derivative with respect to the task loss is the confidence. The
    confidence has no gradient, because it minimises the loss or is clamped."""
    log_confidence: Tensor
    """Shape (batch,), at most 1, without gradient."""


@loss_classes.register("superloss")
class SuperLoss(IndexedLoss):
    """SuperLoss: a confidence for every loss, in closed form by Lambert W (Castells et al. 2020).

    The confidence is above 1, and at most e, for losses below a threshold. It falls towards 0 for
    losses far above the threshold. SuperLoss works with any task loss. If ``tau`` is an average of
    losses, it is part of the state.

    Args:
        num_samples: size of the training set. Needed for `sample_scores`.
        num_classes: number of classes; None for regression.
        confidence_threshold: ``tau``, which separates easy from hard samples. ``"log_classes"`` is
            log C, the loss of a uniform prediction. ``"ema"`` is a moving average of the batch mean
            with the paper's decay 0.9. ``"mean"`` is the mean of all losses seen. A number is a
            constant. By default ``"log_classes"`` for classification, as in the paper, and
            ``"ema"`` for regression, one of the paper's two averages. tangminji/DiscrimLoss, the
            source of the published SuperLoss results, uses 0.5 for MNIST and ``"mean"`` for
            Clothing1M.
        confidence_regularization: ``lambda``. The larger it is, the closer all confidences are to
            1. For classification, the default is 1, as in the paper for CIFAR-10 (0.25 for
            CIFAR-100) and in that repository for MNIST (0.75 for Clothing1M). For regression, the
            default is ``tau / log 10``, our choice: lambda has the unit of the loss, so no constant
            suits every task, and this is its ratio to tau for CIFAR-10.
        task_loss: a function of ``(logits, target)`` that returns losses of shape (batch,).
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    tau: Tensor
    seen: Tensor

    def __init__(
        self,
        num_samples: int | None = None,
        num_classes: int | None = None,
        *,
        confidence_threshold: Literal["log_classes", "ema", "mean"] | float | None = None,
        confidence_regularization: float | None = None,
        task_loss: TaskLoss = cross_entropy,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, num_classes, task_loss=task_loss, reduction=reduction)
        threshold, regularization = confidence_threshold, confidence_regularization
        if threshold is None:
            threshold = "ema" if num_classes is None else "log_classes"
        if regularization is None and num_classes is not None:
            regularization = CLASSES_REGULARIZATION
        start = _threshold_at_start(threshold, num_classes)
        _check_regularization(regularization, threshold)
        self.threshold: Threshold = threshold
        self.regularization = regularization
        self.register_buffer("tau", torch.tensor(start, dtype=torch.float32))
        self.register_buffer("seen", torch.tensor(0))
        self.distrust = SampleMean(num_samples)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Update ``tau`` with the task losses of all processes, and return SuperLoss."""
        losses = self.task_losses(logits, target)
        if self.threshold in ("ema", "mean"):
            self._follow(gather_rows(losses.detach()).float())
        terms = self.terms(losses)
        self.distrust.add(-terms.log_confidence, index)
        return terms.values

    def terms(self, losses: Tensor) -> SuperLossTerms:
        """Return SuperLoss of task losses with the current ``tau``, at least float32."""
        losses = at_least_float32(losses)
        tau, regularization = self.tau.to(losses), self.regularization_now.to(losses)
        log_confidence = log_confidences(losses, tau, regularization)
        values = super_losses(losses, log_confidence, tau, regularization)
        return SuperLossTerms(values, log_confidence)

    @property
    def regularization_now(self) -> Tensor:
        """Return ``lambda``, a scalar on the device: a constant, or a multiple of ``tau``."""
        if self.regularization is not None:
            return torch.full_like(self.tau, self.regularization)
        return (RELATIVE_REGULARIZATION * self.tau.abs()).clamp(min=SMALLEST_REGULARIZATION)

    @torch.no_grad()
    def _follow(self, losses: Tensor) -> None:
        finite = losses.isfinite()  # a non-finite loss must not affect later ones
        number = finite.sum()
        mean = torch.where(finite, losses, 0.0).sum() / number.clamp(min=1)
        weight = number / (self.seen + number).clamp(min=1)
        if self.threshold == "ema":  # starts at the mean of the first batch
            weight = torch.where(self.seen == 0, 1.0, 1.0 - THRESHOLD_DECAY)
        tau = torch.lerp(self.tau, mean, weight.to(self.tau))
        self.tau.copy_(torch.where(number == 0, self.tau, tau))
        self.seen += number

    def sample_scores(self) -> Tensor | None:
        """Return the mean of ``-log sigma`` over the visits. -1 means the most trust."""
        return self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Return the option for ``tau``, and ``lambda``."""
        regularization = self.regularization
        if regularization is None:
            regularization = float(self.regularization_now)
        return {
            "confidence_threshold": self.threshold,
            "confidence_regularization": regularization,
        }

    def log_values(self) -> dict[str, float]:
        """Return ``tau``."""
        return {"confidence_threshold": float(self.tau)}


def _threshold_at_start(threshold: Threshold, num_classes: int | None) -> float:
    if isinstance(threshold, str) and threshold not in THRESHOLDS:
        raise ValueError(
            f"confidence_threshold must be one of {', '.join(THRESHOLDS)}, or a number, "
            f"not {threshold!r}"
        )
    if not isinstance(threshold, str):
        if not math.isfinite(threshold):
            raise ValueError(f"confidence_threshold must be finite, not {threshold}")
        return float(threshold)
    if threshold != "log_classes":
        return 0.0
    if num_classes is None:
        raise ValueError(
            "confidence_threshold 'log_classes' needs classes, which a regression does not have: "
            "use ema, mean or a number"
        )
    return math.log(num_classes)


def _check_regularization(regularization: float | None, threshold: Threshold) -> None:
    if regularization is not None and not 0.0 < regularization < math.inf:
        raise ValueError(
            f"confidence_regularization must be a finite number above 0, not {regularization}"
        )
    if regularization is None and not isinstance(threshold, str) and not threshold > 0.0:
        raise ValueError(
            f"with confidence_threshold {threshold}, a regression also needs "
            "confidence_regularization: its default needs a threshold above 0"
        )
