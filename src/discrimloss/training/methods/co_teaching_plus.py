"""Co-teaching+: co-teaching on the samples about which the networks disagree."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from discrimloss.state.gathering import gather_rows
from discrimloss.training.methods.base import Batch, Setting, StepResult, methods
from discrimloss.training.methods.small_loss import (
    SmallLossMethod,
    exchanged_loss,
    risen_forget_rate,
)

WARMUP_FRACTION = 0.1


def rising_forget_rate(
    finished_epochs: int, noise_rate: float, gradual_epochs: int, epochs: int
) -> float:
    """The second schedule of the paper: up to tau, then to twice tau at the end of the run.

    ``1 - lambda(e) = min(e / E_k, 1 + (e - E_k) / (E_max - E_k)) * tau``, and at most 1.
    """
    late = max(finished_epochs - gradual_epochs, 0) / max(epochs - gradual_epochs, 1)
    return min(noise_rate * min(finished_epochs / gradual_epochs, 1.0 + late), 1.0)


@methods.register("co_teaching_plus")
class CoTeachingPlus(SmallLossMethod):
    """Co-teaching+: co-teaching where the networks' predictions disagree (Yu et al. 2019).

    After a warm-up of plain co-teaching, a batch shrinks to the rows for which the two networks
    predict different classes. Each network learns from those among them that have the smallest
    losses of the other network. The paper does not say what to do if no row is left. The authors'
    code then takes the mean over the whole batch early on and changes nothing later; so do we, and
    "early" is as long as the forget rate still rises (theirs is a number of steps that comes to
    about that on MNIST). Their code also puts the softmax through a second softmax and divides
    twice by the number of rows, which the paper does not; nor do we. The first network is
    evaluated.

    Where we depart: as long as nothing is forgotten, all rows are used. Disagreement is there to
    keep the networks from confirming each other's selection. Without noise there is no selection,
    and the paper has no such run; steps made from the few disputed rows only cost accuracy.

    Args:
        setting: what is known of the task; classification only.
        noise_rate: tau, the fraction of labels to forget. The paper takes the true noise rate;
            None, our default, estimates it from the losses. Until there is an estimate nothing is
            forgotten.
        gradual_epochs: E_k, epochs until the forget rate has risen to tau: 10 of the paper's 200.
            None, our default, is 10, but at most a quarter of the run, because our runs are
            shorter.
        warmup_epochs: epochs of co-teaching at the start. The authors' code has 0 for MNIST and
            News, 5 for CIFAR-100, 20 for CIFAR-10 and 100 for Tiny-ImageNet, of 200; None, our
            default, is a tenth of the run, which is CIFAR-10's. If the noise rate is estimated, it
            goes on until the last estimate, at 30 % of the run: a network that learns from little
            else than disputed samples has losses that look like noise where there is none.
        late_schedule: what follows once tau is reached. "level" stays there, the first of the two
            schedules in Algorithm 1 and the one of the authors' code; "rising" goes on to twice
            tau.
    """

    disagreements: Tensor
    counted_epoch: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
        noise_rate: float | None = None,
        gradual_epochs: int | None = None,
        warmup_epochs: int | None = None,
        late_schedule: Literal["level", "rising"] = "level",
    ) -> None:
        setting.require_classes(
            "co_teaching_plus", "compares the classes that two networks predict"
        )
        if warmup_epochs is not None and warmup_epochs < 0:
            raise ValueError(f"warmup_epochs must be at least 0, not {warmup_epochs}")
        if late_schedule not in ("level", "rising"):
            raise ValueError(f"late_schedule must be 'level' or 'rising', not {late_schedule!r}")
        super().__init__(setting, noise_rate=noise_rate, gradual_epochs=gradual_epochs)
        if warmup_epochs is None:
            warmup_epochs = math.ceil(WARMUP_FRACTION * setting.epochs)
            if not self.noise_rate.is_given:
                warmup_epochs = max(warmup_epochs, self.noise_rate.last - 1)
        self.warmup_epochs = warmup_epochs
        self.late_schedule = late_schedule
        # Rows of the epoch on which the networks disagreed, and all rows of it.
        self.register_buffer("disagreements", torch.zeros(2, dtype=torch.int64))
        self.register_buffer("counted_epoch", torch.tensor(0))

    def scheduled_forget_rate(self, finished_epochs: int, noise_rate: float) -> float:
        """1 - lambda(e)."""
        if self.late_schedule == "level":
            return risen_forget_rate(finished_epochs, noise_rate, self.gradual_epochs)
        return rising_forget_rate(
            finished_epochs, noise_rate, self.gradual_epochs, self.setting.epochs
        )

    def begin_epoch(self, epoch: int) -> None:
        """Count the disagreements of the epoch, which a resumed one continues."""
        super().begin_epoch(epoch)
        if epoch != int(self.counted_epoch):
            self.disagreements.zero_()
            self.counted_epoch.fill_(epoch)

    def training_step(self, batch: Batch) -> StepResult:
        """The mean loss of each network on what the other kept where they disagree, summed."""
        outputs, losses = self.predictions(batch)
        first, second = (output.detach().argmax(dim=1) for output in outputs)
        disagree = gather_rows((first != second).to(torch.uint8)).bool()
        self.disagreements[0] += disagree.sum()
        self.disagreements[1] += len(disagree)
        loss = exchanged_loss(losses, self._kept(batch, losses, disagree))
        return StepResult(loss, losses[0].detach(), outputs[0].detach())

    def _kept(
        self, batch: Batch, losses: tuple[Tensor, Tensor], disagree: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self.epoch <= self.warmup_epochs or self.forget_rate == 0.0:
            by_first, by_second = self.small_losses(batch, *losses)
            return by_first, by_second
        by_first, by_second = self.small_losses(batch, *losses, candidates=disagree)
        if self.epoch <= self.gradual_epochs:
            none_disagrees = ~disagree.any()
            by_first, by_second = by_first | none_disagrees, by_second | none_disagrees
        return by_first, by_second

    def hyperparameters(self) -> dict[str, Any]:
        """The hyperparameters of the schedule, and the length of the warm-up."""
        return {
            **super().hyperparameters(),
            "warmup_epochs": self.warmup_epochs,
            "late_schedule": self.late_schedule,
        }

    def log_values(self) -> dict[str, float]:
        """The rates, and the fraction of rows of the epoch on which the networks disagreed."""
        disagreed, rows = self.disagreements.tolist()
        return {**super().log_values(), "disagreement": disagreed / max(rows, 1)}
