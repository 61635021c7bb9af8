"""DiscrimLoss on top of the task loss."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

import torch
from torch import Tensor

from discrimloss.judging.label_trust import LEAST_TRUST, LabelTrust, smoothed
from discrimloss.judging.verdicts import Verdicts
from discrimloss.loss import DiscrimLoss
from discrimloss.state.exchange import process_count
from discrimloss.state.gathering import gather_rows
from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods


@methods.register("discrimloss")
class DiscrimLossMethod(Method):
    """DiscrimLoss: a learned weight and a moving threshold for every sample (Wu et al. 2022).

    The options are those of `discrimloss.DiscrimLoss`; what is not given follows from the number
    of epochs. ``held_out`` is a share of the samples that are looked at in every epoch and never
    learned from: what is known of them is not memorised.

    ``predictions_from`` is ours: after this share of the epochs, labels are judged from the
    network's answers and the losses (`LabelTrust`). Those that are not trusted are not learned
    from, the others as much as they are trusted; of classes, targets are smoothed. The learned
    weights go on for the records. The step shrinks with the square root of the share of trusted
    samples.
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
        predictions_from: float | None = None,
    ) -> None:
        super().__init__(setting, keeps_history=False)  # it has one of its own
        if not 0.0 <= held_out < 1.0:
            raise ValueError(f"held_out must be a share from 0 to below 1, not {held_out}")
        if predictions_from is not None and not 0.0 <= predictions_from <= 1.0:
            raise ValueError(
                f"predictions_from must be a share of the run from 0 to 1, not {predictions_from}"
            )
        self.predictions_from = predictions_from
        self.labels: LabelTrust | None = None
        if predictions_from is not None:
            self.labels = LabelTrust(setting.target, setting.num_classes)
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
        if self.holds_out:
            is_held_out = self.is_held_out[batch.index].view(-1, *[1] * (output.dim() - 1))
            output = torch.where(is_held_out, output.detach(), output)
        losses = self.setting.task_losses(output, batch.target)
        inner = self.inner_losses(losses)
        if self.labels is None:
            loss = self.criterion(inner, batch.index)
        else:
            loss = self._by_trust(inner, output, batch, self.labels)
        return StepResult(loss, losses.detach(), output.detach())

    def _by_trust(self, inner: Tensor, output: Tensor, batch: Batch, labels: LabelTrust) -> Tensor:
        labels.record(output, batch.index)
        if not labels.has_estimate:
            weighted: Tensor = self.criterion(inner, batch.index)
            return weighted
        self.criterion(inner.detach(), batch.index)
        trusted = labels.weights(gather_rows(batch.index))  # single precision: of many rows
        weights = labels.weights_now(batch.target, batch.index)
        # A mean over the trusted samples, times the root of their share. Fewer samples make a
        # noisier mean, which takes a smaller step; not one as much smaller as the share, or runs
        # with much noise would come to a standstill.
        rows = (trusted.sum() * len(trusted)).sqrt().clamp(min=LEAST_TRUST)
        losses = inner if labels.num_classes is None else smoothed(inner, output)
        return (weights * losses).sum() / rows * process_count()

    def inner_losses(self, task_losses: Tensor) -> Tensor:
        """What the criterion is put on, shape (batch,): here the task loss as it is."""
        return task_losses

    def begin_epoch(self, epoch: int) -> None:
        """Tell the criterion which epoch it is."""
        super().begin_epoch(epoch)
        self.criterion.set_epoch(epoch)
        if self.labels is not None and self.predictions_from is not None:
            passed = epoch - 1
            if passed >= max(1.0, self.predictions_from * self.setting.epochs):
                self.labels.update(epoch, self._p_incorrect_by_losses)

    def _p_incorrect_by_losses(self) -> Tensor:
        return torch.from_numpy(self.verdicts().p_incorrect)

    def verdicts(self) -> Verdicts:
        """What the criterion says of every sample."""
        return self.criterion.verdicts()

    def sample_scores(self) -> Tensor:
        """The learned weights: large is distrusted; or one less the trust in the labels."""
        if self.labels is not None and self.labels.has_estimate:
            return (1.0 - self.labels.trust).masked_fill(self.labels.visits == 0, torch.nan)
        weights = self.criterion.sample_weights
        return weights.masked_fill(self.criterion.table.visits == 0, torch.nan)

    def hyperparameters(self) -> dict[str, Any]:
        """Those of the criterion."""
        said: dict[str, Any] = {"variant": self.criterion.variant}
        said |= asdict(self.criterion.hyperparameters)
        if self.predictions_from is not None:
            said["predictions_from"] = self.predictions_from
        return said

    def log_values(self) -> dict[str, float]:
        """The thresholds, and the mean weight."""
        values = {
            "k1": float(self.criterion.k1),
            "k_dyn": self.criterion.k_dyn,
            "k2": self.criterion.k2,
            "mean_weight": float(self.criterion.sample_weights.mean()),
        }
        if self.labels is not None:
            values["mean_trust"] = float(self.labels.trust.mean())
        return values
