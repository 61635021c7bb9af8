"""SuperLoss on top of unreduced losses: pure functions, and a module that knows ``tau``.

``SL(l, sigma) = (l - tau) sigma + lambda (log sigma)^2`` (Castells et al. 2020), with the
confidence ``sigma`` that minimises it.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from discrimloss.functional import at_least_float32
from discrimloss.state.gathering import gather_rows
from discrimloss.state.table import FixedDtypeModule
from discrimloss.training.methods.lambert_w import BRANCH_POINT, lambert_w

Threshold = Literal["log_classes", "ema", "mean"] | float

THRESHOLDS = ("log_classes", "ema", "mean")
THRESHOLD_DECAY = 0.9  # alpha of their paper: the moving average behind threshold="ema"
CLASSES_REGULARIZATION = 1.0
RELATIVE_REGULARIZATION = 1.0 / math.log(10.0)
SMALLEST_REGULARIZATION = 1e-15  # keeps it above 0 where all losses are 0


def log_confidences(
    losses: Tensor, threshold: float | Tensor, regularization: float | Tensor
) -> Tensor:
    """``log sigma* = -W(max(-2/e, beta) / 2)`` with ``beta = (l - tau) / lambda``; no gradient.

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
    """``SL``, elementwise.

    >>> super_losses(torch.tensor([3.0]), torch.tensor([0.5]).log(), 1.0, regularization=0.0)
    tensor([1.])
    """
    penalty = regularization * log_confidence.square()
    return (losses - threshold) * log_confidence.exp() + penalty


class SuperLossTerms(NamedTuple):
    """SuperLoss of a batch."""

    values: Tensor
    """Shape (batch,). Their derivative by the task loss is the confidence: it minimises the value,
    so it counts as a constant; and where it is clamped, it is one."""
    log_confidence: Tensor
    """Shape (batch,), at most 1, without gradient."""


class SuperLoss(FixedDtypeModule):
    """SuperLoss of unreduced task losses. Its state is ``tau``, where that moves.

    Args:
        num_classes: None for a regression.
        threshold: ``tau``; None is ``"log_classes"`` or, for a regression, ``"ema"``.
        regularization: ``lambda``; None is 1 or, for a regression, ``tau / log 10``.
    """

    tau: Tensor
    seen: Tensor

    def __init__(
        self,
        num_classes: int | None,
        threshold: Threshold | None = None,
        regularization: float | None = None,
    ) -> None:
        super().__init__()
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

    def forward(self, losses: Tensor) -> SuperLossTerms:
        """Of this process's task losses, after ``tau`` has followed those of all processes."""
        if self.threshold in ("ema", "mean"):
            self._follow(gather_rows(losses.detach()).float())
        return self.terms(losses)

    def terms(self, losses: Tensor) -> SuperLossTerms:
        """With ``tau`` as it stands; float32 at least."""
        losses = at_least_float32(losses)
        tau, regularization = self.tau.to(losses), self.regularization_now.to(losses)
        log_confidence = log_confidences(losses, tau, regularization)
        values = super_losses(losses, log_confidence, tau, regularization)
        return SuperLossTerms(values, log_confidence)

    @property
    def regularization_now(self) -> Tensor:
        """``lambda``, a scalar on the device: constant, or following ``tau``."""
        if self.regularization is not None:
            return torch.full_like(self.tau, self.regularization)
        return (RELATIVE_REGULARIZATION * self.tau.abs()).clamp(min=SMALLEST_REGULARIZATION)

    @torch.no_grad()
    def _follow(self, losses: Tensor) -> None:
        finite = losses.isfinite()  # one bad loss must not spoil all that come after it
        number = finite.sum()
        mean = torch.where(finite, losses, 0.0).sum() / number.clamp(min=1)
        share = number / (self.seen + number).clamp(min=1)
        if self.threshold == "ema":  # which starts at the first batch's mean
            share = torch.where(self.seen == 0, 1.0, 1.0 - THRESHOLD_DECAY)
        tau = torch.lerp(self.tau, mean, share.to(self.tau))
        self.tau.copy_(torch.where(number == 0, self.tau, tau))
        self.seen += number

    def hyperparameters(self) -> dict[str, Any]:
        """What is in use, under the names that methods have for it."""
        regularization = self.regularization
        if regularization is None:
            regularization = float(self.regularization_now)
        return {
            "confidence_threshold": self.threshold,
            "confidence_regularization": regularization,
        }


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
            "confidence_threshold 'log_classes' does not fit a regression, which has no classes: "
            "take ema, mean or a number"
        )
    return math.log(num_classes)


def _check_regularization(regularization: float | None, threshold: Threshold) -> None:
    if regularization is not None and not 0.0 < regularization < math.inf:
        raise ValueError(
            f"confidence_regularization must be a finite number above 0, not {regularization}"
        )
    if regularization is None and not isinstance(threshold, str) and not threshold > 0.0:
        raise ValueError(
            f"with confidence_threshold {threshold} a regression needs confidence_regularization "
            "too: it follows from a threshold above 0 only"
        )
