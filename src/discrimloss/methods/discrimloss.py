"""DiscrimLoss on top of the task loss."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

import torch
from torch import Tensor

from discrimloss.loss import DiscrimLoss
from discrimloss.methods.base import Batch, Method, Setting, StepResult, methods
from discrimloss.verdicts import Verdicts


@methods.register("discrimloss")
class DiscrimLossMethod(Method):
    """DiscrimLoss: a learned weight and a moving threshold for every sample (Wu et al. 2022).

    The options are those of `discrimloss.DiscrimLoss`; what is not given follows from the number
    of epochs. ``held_out`` is a share of the samples that are looked at in every epoch and never
    learned from: what is known of them is not memorised.
    """

    is_held_out: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
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
    ) -> None:
        super().__init__(setting, keeps_history=False)  # it has one of its own
        if not 0.0 <= held_out < 1.0:
            raise ValueError(f"held_out must be a share from 0 to below 1, not {held_out}")
        self.holds_out = held_out > 0.0
        draw = torch.rand(setting.num_samples, generator=torch.Generator().manual_seed(0))
        self.register_buffer("is_held_out", draw < held_out, persistent=False)
        self.criterion = DiscrimLoss(
            setting.num_samples,
            setting.epochs,
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
        )

    def training_step(self, batch: Batch) -> StepResult:
        """The weighted loss; the criterion sees the batch of all processes."""
        output = self.networks[0](batch.inputs)
        losses = self.setting.task_losses(output, batch.target)
        if self.holds_out:
            losses = torch.where(self.is_held_out[batch.index], losses.detach(), losses)
        loss = self.criterion(self.inner_losses(losses), batch.index)
        return StepResult(loss, losses.detach(), output.detach())

    def inner_losses(self, task_losses: Tensor) -> Tensor:
        """What the criterion is put on, shape (batch,): here the task loss as it is."""
        return task_losses

    def begin_epoch(self, epoch: int) -> None:
        """Tell the criterion which epoch it is."""
        super().begin_epoch(epoch)
        self.criterion.set_epoch(epoch)

    def verdicts(self) -> Verdicts:
        """What the criterion says of every sample."""
        return self.criterion.verdicts()

    def sample_scores(self) -> Tensor:
        """The learned weights: large is distrusted."""
        weights = self.criterion.sample_weights
        return weights.masked_fill(self.criterion.table.visits == 0, torch.nan)

    def hyperparameters(self) -> dict[str, Any]:
        """Those of the criterion."""
        return {"variant": self.criterion.variant, **asdict(self.criterion.hyperparameters)}

    def log_values(self) -> dict[str, float]:
        """The thresholds, and the mean weight."""
        return {
            "k1": float(self.criterion.k1),
            "k_dyn": self.criterion.k_dyn,
            "k2": self.criterion.k2,
            "mean_weight": float(self.criterion.sample_weights.mean()),
        }
