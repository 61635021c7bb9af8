"""MentorNet with the predefined curriculum (MentorNet PD)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from discrimloss.losses.sample_state import EpochDraws, SampleMean
from discrimloss.state.gathering import gather_rows, own_rows
from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods
from discrimloss.training.methods.mentor import PERCENTAGES, WIDEST_DIFFERENCE, trained_mentor
from discrimloss.training.methods.noise_rate import NoiseRate

_ROUNDING = 1e-9  # 0.07 * 100 is a little more than 7


def moved_percentile(
    moving: Tensor, is_first: Tensor, losses: Tensor, percentile: float, decay: float
) -> Tensor:
    """The moving average of a percentile of the batches' losses: lambda1.

    The percentile is a loss that occurred, the nearest one. The authors' code starts from 0, ours
    from the first percentile, so that it is of use from the first step.
    """
    current = torch.quantile(losses, percentile, interpolation="nearest")
    return torch.where(is_first, current, decay * moving + (1.0 - decay) * current)


@methods.register("mentornet")
class MentorNet(Method):
    """MentorNet PD: a small network weighs each sample by its loss (Jiang et al. 2018).

    A classification only, because the mentor embeds the label. The mentor (`mentor.py`) is trained
    on synthetic losses to imitate a predefined curriculum, and does not change afterwards. In each
    step it is told the loss of each sample, how far that is from the moving percentile, the label
    and how much of the run is over; its weights are held constant in the gradient (Algorithm 1).
    The loss is the mean of weight times loss, divided by the size of the batch as in the authors'
    code, not by the sum of the weights: a batch with few trusted samples moves the network less.

    In the first part of the run, the burn-in, the mentor is not asked: each sample is left out at
    random, weighs 1 otherwise. The authors' code gives the percentage by the step, ours by the
    epoch, and leaves out an exact part of each batch where ours tosses a coin for each sample, as
    the paper has it.

    Args:
        setting: what may be known of the task.
        percentile: p, the share of the losses that lie below the threshold. The authors' commands
            take 0.75 at 20 and 40 % noise and 0.5 at 80 %, which leaves out right labels where
            few are wrong; None, our default, is 1 minus the noise rate.
        noise_rate: the share of wrong labels, for `percentile`; None estimates it from the losses.
        percentile_decay: of the moving average of the percentile; 0.5 as in the authors' program.
        burn_in: the part of the run without the mentor; 0.2 as in section 3 of the paper. (The
            authors' commands for MentorNet PD have none; their dropout in that part remains.)
        burn_in_drop_rate: how many samples are left out in the burn-in; the 0.5 of the authors'
            commands for MentorNet PD.
        drop_rate: the same after the burn-in, whatever the mentor says; 0.05 in these commands.
        ramp: lambda2, how far above the threshold the weight reaches 0; 1 as in the authors' code.
        ramp_from: the part of the run from which `ramp` holds; before, lambda2 is 0. 0.9 as in the
            authors' code, which thereby mixes two curricula.
    """

    needs: ClassVar[str] = "noise rate, given or estimated"

    moving_percentile: Tensor
    steps: Tensor
    is_kept: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
        percentile: float | None = None,
        noise_rate: float | None = None,
        percentile_decay: float = 0.5,
        burn_in: float = 0.2,
        burn_in_drop_rate: float = 0.5,
        drop_rate: float = 0.05,
        ramp: float = 1.0,
        ramp_from: float = 0.9,
    ) -> None:
        num_classes = setting.require_classes("mentornet", "embeds the label of each sample")
        _require(
            percentile is None or noise_rate is None, "give percentile or noise_rate, not both"
        )
        if percentile is not None:
            _require(0.0 < percentile <= 1.0, "percentile must be above 0, at most 1", percentile)
        shares = {
            "percentile_decay": percentile_decay,
            "burn_in": burn_in,
            "burn_in_drop_rate": burn_in_drop_rate,
            "drop_rate": drop_rate,
        }
        for name, share in shares.items():
            _require(0.0 <= share < 1.0, f"{name} must be at least 0 and below 1", share)
        _require(
            0.0 <= ramp <= WIDEST_DIFFERENCE, f"ramp must be from 0 to {WIDEST_DIFFERENCE}", ramp
        )
        _require(0.0 <= ramp_from <= 1.0, "ramp_from must be from 0 to 1", ramp_from)
        rate = NoiseRate(noise_rate, setting.epochs) if percentile is None else None
        super().__init__(setting)
        self.noise_rate = rate
        self.percentile = 1.0 if percentile is None else percentile
        """Not state: `begin_epoch` derives it where it is not given."""
        self.burn_in_epochs = math.ceil(burn_in * setting.epochs - _ROUNDING)
        self.shares, self.ramp, self.ramp_from = shares, ramp, ramp_from
        self.mentor = trained_mentor(num_classes, ramp, ramp_from)
        self.draws = EpochDraws()
        self.distrust = SampleMean(setting.num_samples)
        self.register_buffer("moving_percentile", torch.tensor(0.0))
        self.register_buffer("steps", torch.tensor(0))
        everyone = torch.ones(setting.num_samples, dtype=torch.bool)
        self.register_buffer("is_kept", everyone, persistent=False)  # `begin_epoch` draws it

    @property
    def is_burning_in(self) -> bool:
        """Whether the mentor is not asked yet."""
        return self.epoch <= self.burn_in_epochs

    def begin_epoch(self, epoch: int) -> None:
        """Estimate the noise rate, if it is time, and draw who is left out."""
        super().begin_epoch(epoch)
        if self.noise_rate is not None:
            self.noise_rate.begin_epoch(epoch, self.history)
            self.percentile = 1.0 - float(self.noise_rate)
        drop_rate = self.shares["burn_in_drop_rate" if self.is_burning_in else "drop_rate"]
        draws = torch.rand(self.setting.num_samples, generator=self.draws.generator(epoch))
        self.is_kept.copy_(draws >= drop_rate)

    def training_step(self, batch: Batch) -> StepResult:
        """The mean of weight times loss."""
        output = self.networks[0](batch.inputs)
        losses = self.setting.task_losses(output, batch.target)
        weights = own_rows(self._everyones_weights(losses.detach(), batch.target))
        if not self.is_burning_in:
            self.distrust.add(1.0 - weights, batch.index)
        weights = weights * self.is_kept[batch.index]
        loss = (weights.to(losses.dtype) * losses).mean()
        return StepResult(loss, losses.detach(), output.detach())

    @torch.no_grad()
    def _everyones_weights(self, losses: Tensor, target: Tensor) -> Tensor:
        """What the mentor says of the whole batch, after the percentile has moved."""
        losses, target = gather_rows(losses.float()), gather_rows(target)
        moved = moved_percentile(
            self.moving_percentile,
            self.steps == 0,
            losses,
            self.percentile,
            self.shares["percentile_decay"],
        )
        self.moving_percentile.copy_(moved)
        self.steps += 1
        if self.is_burning_in:
            return torch.ones_like(losses)
        percentage = (self.epoch - 1) * PERCENTAGES // self.setting.epochs
        with torch.autocast(losses.device.type, enabled=False):
            weights: Tensor = self.mentor(
                losses, self.moving_percentile, target, torch.full_like(target, percentage)
            )
        return weights

    def sample_scores(self) -> Tensor | None:
        """One minus the mean weight that the mentor gave, after the burn-in."""
        return self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """The options, the percentile in use, and where it is from."""
        rate = {} if self.noise_rate is None else self.noise_rate.record()
        return {
            "percentile": self.percentile,
            **rate,
            **self.shares,
            "burn_in_epochs": self.burn_in_epochs,
            "ramp": self.ramp,
            "ramp_from": self.ramp_from,
        }

    def log_values(self) -> dict[str, float]:
        """The threshold, and what it follows from."""
        values = {"threshold": float(self.moving_percentile), "percentile": self.percentile}
        return (
            values if self.noise_rate is None else {**values, "noise_rate": float(self.noise_rate)}
        )


def _require(is_allowed: bool, what: str, value: float | None = None) -> None:
    if not is_allowed:
        raise ValueError(what if value is None else f"{what}, not {value}")
