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

    It works with any task loss. Each network selects the fraction ``R(T)`` of the batch with its
    own smallest losses (Algorithm 1, steps 4 and 5). The other network learns from the mean over
    these rows (steps 6 and 7). The authors use two optimizers. Here one optimizer updates both
    networks with the sum of the two losses. This is equivalent, because the networks share no
    parameters; only ``clip_norm``, if set, applies to both together. The first network is
    evaluated.

    Args:
        setting: the task.
        noise_rate: tau, the final fraction of labels to forget. The paper uses the true noise rate
            (tau = epsilon), or an estimate if it is unknown. By default it is estimated from the
            losses. Until the first estimate, nothing is forgotten.
        gradual_epochs: T_k, the number of epochs until the forget rate reaches tau. The paper uses
            10 of 200 epochs, after trying 5, 10 and 15. The default is 10, but at most a quarter of
            the run, because our runs are shorter.
        exponent: c in ``R(T) = 1 - tau * min(T**c / T_k, 1)``. 1 is the schedule of Algorithm 1;
            the paper also tries 0.5 and 2.
        schedule: "paper", as above, or "released", as in the authors' code (bhanML/Co-teaching):
            tau / (T_k - 1) in the first epoch, tau in epoch T_k - 1, and c as the exponent of tau
            instead of T.
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
        """Return the forget rate 1 - R(T) of the paper, with its exponent."""
        length = (self.gradual_epochs, self.exponent)
        if self.schedule == "released":
            return released_forget_rate(epoch, noise_rate, *length)
        return risen_forget_rate(epoch - 1, noise_rate, *length)

    def training_step(self, batch: Batch) -> StepResult:
        """Return the sum of each network's mean loss on the rows that the other one selected."""
        outputs, losses = self.predictions(batch)
        by_first, by_second = self.small_losses(batch, *losses)
        loss = exchanged_loss(losses, (by_first, by_second))
        return StepResult(loss, losses[0].detach(), outputs[0].detach())

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the schedule."""
        return {**super().hyperparameters(), "exponent": self.exponent}
