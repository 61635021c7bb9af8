"""DiscrimLoss in the harness: with samples held out, and with trust in labels by predictions."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from discrimloss.judging.label_trust import LEAST_TRUST, LabelTrust, smoothed
from discrimloss.losses.base import IndexedLoss
from discrimloss.losses.discrimloss_on import DiscrimLossOn
from discrimloss.losses.superloss_discrimloss import SuperLossDiscrimLoss
from discrimloss.state.exchange import process_count
from discrimloss.state.gathering import gather_rows
from discrimloss.training.methods.base import Batch, Setting, StepResult, methods
from discrimloss.training.methods.loss_method import LossMethod


@methods.register("discrimloss")
class DiscrimLossMethod(LossMethod):
    """DiscrimLoss: a learned weight and a moving threshold for every sample (Wu et al. 2022).

    The options are those of `discrimloss.DiscrimLoss`, whose defaults follow from the number of
    epochs, and two of the harness.

    Args:
        setting: what is known of the task.
        held_out: the fraction of samples that are in every epoch and never learned from, so that
            their losses show no memorising.
        predictions_from: ours. After this fraction of the epochs, labels are trusted by the
            predictions of the network and the losses (`LabelTrust`). The trust in a label is the
            weight of its sample; labels that are not trusted are left out. Targets of classes are
            smoothed. The weights of DiscrimLoss are still learned, but only recorded. The step
            shrinks with the square root of the fraction of trusted samples.
        options: hyperparameters of DiscrimLoss.
    """

    name: ClassVar[str] = "discrimloss"
    loss_class: ClassVar[type[IndexedLoss]] = DiscrimLossOn

    loss: DiscrimLossOn
    is_held_out: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
        held_out: float = 0.0,
        predictions_from: float | None = None,
        **options: Any,
    ) -> None:
        if not 0.0 <= held_out < 1.0:
            raise ValueError(f"held_out must be a fraction from 0 to below 1, not {held_out}")
        if predictions_from is not None and not 0.0 <= predictions_from <= 1.0:
            raise ValueError(
                "predictions_from must be a fraction of the run from 0 to 1, "
                f"not {predictions_from}"
            )
        super().__init__(setting, **options)
        self.predictions_from = predictions_from
        self.labels: LabelTrust | None = None
        if predictions_from is not None:
            self.labels = LabelTrust(setting.target, setting.num_classes)
        self.holds_out = held_out > 0.0
        draw = torch.rand(setting.num_samples, generator=torch.Generator().manual_seed(0))
        self.register_buffer("is_held_out", draw < held_out, persistent=False)

    def training_step(self, batch: Batch) -> StepResult:
        """The weighted loss, or the loss by the trust in the labels."""
        output = self.networks[0](batch.inputs)
        if self.holds_out:
            is_held_out = self.is_held_out[batch.index].view(-1, *[1] * (output.dim() - 1))
            output = torch.where(is_held_out, output.detach(), output)
        if self.labels is None:
            loss = self.loss(output, batch.target, batch.index)
        else:
            loss = self._by_trust(output, batch, self.labels)
        return self.result(loss, output, batch)

    def _by_trust(self, output: Tensor, batch: Batch, labels: LabelTrust) -> Tensor:
        labels.record(output, batch.index)
        inner = self.loss.inner_losses(output, batch.target, batch.index)
        if not labels.has_estimate:
            weighted: Tensor = self.loss.criterion(inner, batch.index)
            return weighted
        self.loss.criterion(inner.detach(), batch.index)
        trusted = labels.weights(gather_rows(batch.index))  # single precision: of many rows
        weights = labels.weights_now(batch.target, batch.index)
        # A mean over the trusted samples, times the root of their fraction. Fewer samples make a
        # noisier mean, which takes a smaller step, but not as much smaller as the fraction, or runs
        # with much noise would stop learning.
        rows = (trusted.sum() * len(trusted)).sqrt().clamp(min=LEAST_TRUST)
        losses = inner if labels.num_classes is None else smoothed(inner, output)
        return (weights * losses).sum() / rows * process_count()

    def begin_epoch(self, epoch: int) -> None:
        """Set the epoch of the criterion, and renew the trust in the labels."""
        super().begin_epoch(epoch)
        if self.labels is not None and self.predictions_from is not None:
            passed = epoch - 1
            if passed >= max(1.0, self.predictions_from * self.setting.epochs):
                self.labels.update(epoch, self._p_incorrect_by_losses)

    def _p_incorrect_by_losses(self) -> Tensor:
        return torch.from_numpy(self.loss.criterion.verdicts().p_incorrect)

    def sample_scores(self) -> Tensor:
        """The learned weights: large is distrusted; or one minus the trust in the labels."""
        if self.labels is not None and self.labels.has_estimate:
            return (1.0 - self.labels.trust).masked_fill(self.labels.visits == 0, torch.nan)
        return self.loss.sample_scores()

    def hyperparameters(self) -> dict[str, Any]:
        """The hyperparameters of the loss, and `predictions_from` if it is set."""
        values = super().hyperparameters()
        if self.predictions_from is not None:
            values["predictions_from"] = self.predictions_from
        return values

    def log_values(self) -> dict[str, float]:
        """The logged values of the loss, and the mean trust."""
        values = super().log_values()
        if self.labels is not None:
            values["mean_trust"] = float(self.labels.trust.mean())
        return values


@methods.register("superloss_discrimloss")
class SuperLossDiscrimLossMethod(DiscrimLossMethod):
    """DiscrimLoss on top of SuperLoss, a robust loss as the inner loss (Wu et al. 2022).

    See `discrimloss.losses.SuperLossDiscrimLoss`; ``held_out`` and ``predictions_from`` are those
    of method ``discrimloss``.

    Args:
        setting: what is known of the task.
        options: hyperparameters of SuperLoss and of DiscrimLoss, and those of the harness.
    """

    name: ClassVar[str] = "superloss_discrimloss"
    loss_class: ClassVar[type[IndexedLoss]] = SuperLossDiscrimLoss
