"""Co-teaching: two networks that select each other's samples."""

from __future__ import annotations

import math
from typing import Any

from discrimloss.training.methods.base import Batch, Setting, StepResult, methods
from discrimloss.training.methods.small_loss import (
    Schedule,
    SmallLossMethod,
    exchanged_loss,
    released_forget_rate,
    risen_forget_rate,
)


@methods.register("co_teaching")
class CoTeaching(SmallLossMethod):
    """Co-teaching: each network learns from the other's small-loss samples (Han et al. 2018).

    Fits any task loss. Each network picks the fraction ``R(T)`` of the batch on which its own loss
    is smallest (Algorithm 1, steps 4 and 5), the other one learns from the mean over these (steps 6
    and 7). The authors move two optimizers; here one moves both networks by the sum of the two
    losses, which is the same because they share no parameter (only ``clip_norm``, if a recipe sets
    it, sees them together). The first network is the one that is evaluated.

    Args:
        setting: what is known of the task.
        noise_rate: tau, the fraction of labels to forget in the end. The paper takes the true noise
            rate (tau = epsilon) and refers to estimates where it is not known; None, our
            default, estimates it from the losses. Until there is an estimate nothing is forgotten.
        gradual_epochs: T_k, epochs until the forget rate has risen to tau. The paper takes 10 of
            200 epochs after trying 5, 10 and 15; None, our default, is 10, but at most a quarter of
            the run, because our runs are shorter.
        exponent: c in ``R(T) = 1 - tau * min(T**c / T_k, 1)``, the paper's study of schedules; 1,
            among the 0.5, 1 and 2 tried there, is the schedule of Algorithm 1.
        schedule: "paper", as above; or "released", that of the authors' code (bhanML/Co-teaching):
            tau / (T_k - 1) in the first epoch already, tau in epoch T_k - 1, and c as the exponent
            of tau instead of T.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        noise_rate: float | None = None,
        gradual_epochs: int | None = None,
        exponent: float = 1.0,
        schedule: Schedule = "paper",
    ) -> None:
        if not 0.0 < exponent < math.inf:
            raise ValueError(f"exponent must be a finite number above 0, not {exponent}")
        super().__init__(
            setting, noise_rate=noise_rate, gradual_epochs=gradual_epochs, schedule=schedule
        )
        self.exponent = exponent

    def scheduled_forget_rate(self, epoch: int, noise_rate: float) -> float:
        """1 - R(T), with the exponent."""
        length = (self.gradual_epochs, self.exponent)
        if self.schedule == "released":
            return released_forget_rate(epoch, noise_rate, *length)
        return risen_forget_rate(epoch - 1, noise_rate, *length)

    def training_step(self, batch: Batch) -> StepResult:
        """The mean loss of each network on what the other kept, summed."""
        outputs, losses = self.predictions(batch)
        by_first, by_second = self.small_losses(batch, *losses)
        loss = exchanged_loss(losses, (by_first, by_second))
        return StepResult(loss, losses[0].detach(), outputs[0].detach())

    def hyperparameters(self) -> dict[str, Any]:
        """The hyperparameters of the schedule."""
        return {**super().hyperparameters(), "exponent": self.exponent}
