"""MentorNet with the predefined curriculum (MentorNet PD)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from discrimloss.functional import Reduction
from discrimloss.loss import DiscrimLoss
from discrimloss.losses.base import IndexedLoss, cross_entropy, loss_classes
from discrimloss.losses.mentor import PERCENTAGES, WIDEST_DIFFERENCE, trained_mentor
from discrimloss.losses.noise_rate import NoiseRate
from discrimloss.losses.sample_state import EpochDraws, SampleMean, loss_history
from discrimloss.state.gathering import gather_rows, own_rows

_ROUNDING = 1e-9  # before `ceil`: in floats, 0.07 * 100 is a little more than 7


def moved_percentile(
    moving: Tensor, is_first: Tensor, losses: Tensor, percentile: float, decay: float
) -> Tensor:
    """Return lambda1, the moving average of a percentile of the batch losses.

    The percentile is the nearest loss in the batch. The authors' code starts from 0. Ours starts
    from the first percentile, which is meaningful from the first step.
    """
    current = torch.quantile(losses, percentile, interpolation="nearest")
    return torch.where(is_first, current, decay * moving + (1.0 - decay) * current)


@loss_classes.register("mentornet")
class MentorNet(IndexedLoss):
    """MentorNet PD: a small network weights each sample by its loss (Jiang et al. 2018).

    For classification only, because the mentor embeds the label. The mentor (`mentor.py`) is
    trained on synthetic losses to imitate a predefined curriculum, and does not change afterwards.
    In each step, its inputs are the loss of each sample, the difference to the moving percentile,
    the label and the percentage of the run. Its weights are constants in the gradient (Algorithm
    1). As in the authors' code, the loss is the sum of weight times loss, divided by the batch size
    instead of the sum of the weights. A batch with few trusted samples therefore has less effect.

    The curriculum starts with a burn-in in which all weights are 1 and the mentor is not used. In
    addition, samples are dropped at random: many at first, and few later.

    We depart from the authors' code (google/mentornet) in three points. Its percentage depends on
    the step, ours on the epoch. It drops an exact fraction of each batch; ours draws for each
    sample, as in the paper. It scales the weight decay by the mean weight of the batch, which a
    loss cannot do; here the decay is that of the optimizer.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        epochs: length of the run.
        percentile: p, the fraction of the losses below the threshold. The authors' commands set
            0.75 for 20 and 40 % noise and 0.5 for 80 %, but their program always uses 0.7. A value
            of 0.7 leaves out correct labels if few labels are wrong. By default it is 1 minus the
            noise rate.
        noise_rate: the fraction of wrong labels, for `percentile`. By default it is estimated from
            the losses.
        percentile_decay: decay of the moving average of the percentile. 0.5, as in the authors'
            program.
        burn_in: fraction of the run in which all weights are 1. 0.18, as in the curriculum that the
            authors' mentors imitate (0.2 in the paper).
        burn_in_drop_rate: fraction of samples dropped at first. 0.5, as in the authors' commands
            for MentorNet PD.
        burn_in_drops: fraction of the run in which `burn_in_drop_rate` applies. 0.17, as in these
            commands.
        drop_rate: fraction of samples dropped later. It does not depend on the mentor's weights.
            0.05, as in these commands.
        ramp: lambda2, the distance above the threshold at which the weight is 0. 1, as in the
            authors' code.
        ramp_from: fraction of the run from which `ramp` applies. Before it, lambda2 is 0. 0.9, as
            in the authors' code, which thereby mixes two curricula.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs: ClassVar[str] = "noise rate, given or estimated"
    needs_classes: ClassVar[str | None] = "embeds the label of each sample"

    moving_percentile: Tensor
    steps: Tensor
    is_kept: Tensor

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        epochs: int,
        *,
        percentile: float | None = None,
        noise_rate: float | None = None,
        percentile_decay: float = 0.5,
        burn_in: float = 0.18,
        burn_in_drop_rate: float = 0.5,
        burn_in_drops: float = 0.17,
        drop_rate: float = 0.05,
        ramp: float = 1.0,
        ramp_from: float = 0.9,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, num_classes, reduction=reduction)
        _require(
            percentile is None or noise_rate is None, "pass percentile or noise_rate, not both"
        )
        if percentile is not None:
            _require(
                0.0 < percentile <= 1.0, "percentile must be above 0 and at most 1", percentile
            )
        fractions = {
            "percentile_decay": percentile_decay,
            "burn_in": burn_in,
            "burn_in_drop_rate": burn_in_drop_rate,
            "burn_in_drops": burn_in_drops,
            "drop_rate": drop_rate,
        }
        for name, fraction in fractions.items():
            _require(0.0 <= fraction < 1.0, f"{name} must be at least 0 and below 1", fraction)
        _require(
            0.0 <= ramp <= WIDEST_DIFFERENCE, f"ramp must be from 0 to {WIDEST_DIFFERENCE}", ramp
        )
        _require(0.0 <= ramp_from <= 1.0, "ramp_from must be from 0 to 1", ramp_from)
        self.epochs = epochs
        self.noise_rate = NoiseRate(noise_rate, epochs) if percentile is None else None
        self.percentile = 1.0 if percentile is None else percentile
        """Not part of the state: `set_epoch` derives it if it is not given."""
        self.burn_in_epochs = math.ceil(burn_in * epochs - _ROUNDING)
        self.burn_in_drop_epochs = math.ceil(burn_in_drops * epochs - _ROUNDING)
        self.fractions, self.ramp, self.ramp_from = fractions, ramp, ramp_from
        self.mentor = trained_mentor(num_classes, ramp, ramp_from)
        self.draws = EpochDraws()
        self.distrust = SampleMean(num_samples)
        self.register_buffer("moving_percentile", torch.tensor(0.0))
        self.register_buffer("steps", torch.tensor(0))
        everyone = torch.ones(num_samples, dtype=torch.bool)
        self.register_buffer("is_kept", everyone, persistent=False)  # `set_epoch` draws it
        self.task_history: DiscrimLoss | None = None
        if self.noise_rate is not None and not self.noise_rate.is_given:
            self.task_history = loss_history(num_samples, epochs)
        self.set_epoch(1)

    @property
    def history(self) -> DiscrimLoss | None:
        """The record of the average task losses, or None if the noise rate is not estimated."""
        return self.task_history

    @property
    def is_burning_in(self) -> bool:
        """Whether the burn-in continues, so that the mentor is not used yet."""
        return self.epoch <= self.burn_in_epochs

    def set_epoch(self, epoch: int) -> None:
        """Estimate the noise rate if an estimate is due, and draw the samples to drop."""
        super().set_epoch(epoch)
        if self.task_history is not None:
            self.task_history.set_epoch(epoch)
        if self.noise_rate is not None:
            self.noise_rate.begin_epoch(epoch, self.task_history)
            self.percentile = 1.0 - float(self.noise_rate)
        is_first = epoch <= self.burn_in_drop_epochs
        drop_rate = self.fractions["burn_in_drop_rate" if is_first else "drop_rate"]
        draws = torch.rand(len(self.is_kept), generator=self.draws.generator(epoch))
        self.is_kept.copy_(draws >= drop_rate)

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the weight of each sample times its loss."""
        losses = cross_entropy(logits, target)
        weights = own_rows(self._everyones_weights(losses.detach(), target))
        if not self.is_burning_in:
            self.distrust.add(1.0 - weights, index)
        if self.task_history is not None:
            self.task_history(losses.detach(), index)
        weights = weights * self.is_kept[index]
        return weights.to(losses.dtype) * losses

    @torch.no_grad()
    def _everyones_weights(self, losses: Tensor, target: Tensor) -> Tensor:
        """Update the percentile, and return the mentor's weights of the whole batch."""
        losses, target = gather_rows(losses.float()), gather_rows(target)
        moved = moved_percentile(
            self.moving_percentile,
            self.steps == 0,
            losses,
            self.percentile,
            self.fractions["percentile_decay"],
        )
        self.moving_percentile.copy_(moved)
        self.steps += 1
        if self.is_burning_in:
            return torch.ones_like(losses)
        percentage = (self.epoch - 1) * PERCENTAGES // self.epochs
        with torch.autocast(losses.device.type, enabled=False):
            weights: Tensor = self.mentor(
                losses, self.moving_percentile, target, torch.full_like(target, percentage)
            )
        return weights

    def sample_scores(self) -> Tensor | None:
        """Return one minus the mean weight of the mentor after the burn-in."""
        return self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Return the options, the percentile in use, and its source."""
        rate = {} if self.noise_rate is None else self.noise_rate.record()
        return {
            "percentile": self.percentile,
            **rate,
            **self.fractions,
            "burn_in_epochs": self.burn_in_epochs,
            "burn_in_drop_epochs": self.burn_in_drop_epochs,
            "ramp": self.ramp,
            "ramp_from": self.ramp_from,
        }

    def log_values(self) -> dict[str, float]:
        """Return the threshold, and the percentile and noise rate behind it."""
        values = {"threshold": float(self.moving_percentile), "percentile": self.percentile}
        return (
            values if self.noise_rate is None else {**values, "noise_rate": float(self.noise_rate)}
        )


def _require(is_allowed: bool, what: str, value: float | None = None) -> None:
    if not is_allowed:
        raise ValueError(what if value is None else f"{what}, not {value}")
