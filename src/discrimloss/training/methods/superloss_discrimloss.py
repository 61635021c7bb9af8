"""DiscrimLoss on top of SuperLoss, which is on top of the task loss."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from discrimloss.training.methods.base import Setting, methods
from discrimloss.training.methods.confidence import SuperLoss
from discrimloss.training.methods.discrimloss import DiscrimLossMethod


@methods.register("superloss_discrimloss")
class SuperLossDiscrimLossMethod(DiscrimLossMethod):
    """DiscrimLoss on top of SuperLoss, a robust loss as the inner loss (Wu et al. 2022).

    What DiscrimLoss gets is SuperLoss less its value for a task loss of 0. SuperLoss is negative
    wherever the task loss is below tau, 0 at a uniform guess, and all of it moves when tau does.
    DiscrimLoss measures from 0: its threshold rises by a share of ``|k1|``, and the default
    ``k1``, the weights' step size and the verdicts go by the size of the first epoch's losses.
    From 0, where nothing is left to learn, all of that means what it means for a task loss. The
    gradient is the same: what is taken off does not depend on the network.

    Args:
        setting: what may be known of the task.
        confidence_threshold, confidence_regularization: SuperLoss's ``tau`` and ``lambda``, with
            the defaults of method ``superloss``; the paper of DiscrimLoss does not say which it
            took.
        variant, threshold, switch_gain, switch_rate, switch_epoch, suppressed_epochs,
            regularization, history_decay, weight_lr, relative_weight_lr, weight_range, held_out,
            predictions_from: those of method ``discrimloss``, with its defaults, which are ours
            (`docs/defaults.md`); ``hyperparameters=paper`` takes the appendix's row for Clothing1M
            instead.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        confidence_threshold: Literal["log_classes", "ema", "mean"] | float | None = None,
        confidence_regularization: float | None = None,
        variant: Literal["paper", "released"] = "paper",
        threshold: Literal["bounded_split", "split", "ema", "mean"] | float | None = None,
        switch_gain: float | None = None,
        switch_rate: float | None = None,
        switch_epoch: float | None = None,
        suppressed_epochs: int | None = None,
        regularization: float | None = None,
        history_decay: float | None = None,
        weight_lr: float | None = None,
        relative_weight_lr: float | None = None,
        weight_range: tuple[float, float] | None = None,
        held_out: float = 0.0,
        predictions_from: float | None = None,
    ) -> None:
        superloss = SuperLoss(setting.num_classes, confidence_threshold, confidence_regularization)
        super().__init__(
            setting,
            variant=variant,
            threshold=threshold,
            switch_gain=switch_gain,
            switch_rate=switch_rate,
            switch_epoch=switch_epoch,
            suppressed_epochs=suppressed_epochs,
            regularization=regularization,
            history_decay=history_decay,
            weight_lr=weight_lr,
            relative_weight_lr=relative_weight_lr,
            weight_range=weight_range,
            held_out=held_out,
            predictions_from=predictions_from,
        )
        self.superloss = superloss

    def inner_losses(self, task_losses: Tensor) -> Tensor:
        """SuperLoss, counted from what it is for a task loss of 0."""
        values: Tensor = self.superloss(task_losses).values
        return values - self.superloss.terms(torch.zeros_like(values[:1])).values

    def hyperparameters(self) -> dict[str, Any]:
        """Those of both."""
        return {**super().hyperparameters(), **self.superloss.hyperparameters()}

    def log_values(self) -> dict[str, float]:
        """Those of DiscrimLoss, and ``tau``."""
        return {**super().log_values(), "confidence_threshold": float(self.superloss.tau)}
