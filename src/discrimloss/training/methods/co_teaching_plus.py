"""Co-teaching+: co-teaching on the samples for which the networks disagree."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from discrimloss.functional import at_least_float32
from discrimloss.losses.base import cross_entropy
from discrimloss.state.gathering import gather_rows
from discrimloss.training.methods.base import Batch, Setting, StepResult, methods
from discrimloss.training.methods.small_loss import (
    SmallLossMethod,
    exchanged_loss,
)

WARMUP_FRACTION = 0.1


def rising_forget_rate(
    finished_epochs: int, noise_rate: float, gradual_epochs: int, epochs: int
) -> float:
    """Return the paper's second schedule: it rises to tau, then to twice tau at the end of the run.

    ``1 - lambda(e) = min(e / E_k, 1 + (e - E_k) / (E_max - E_k)) * tau``, and at most 1.
    """
    late = max(finished_epochs - gradual_epochs, 0) / max(epochs - gradual_epochs, 1)
    return min(noise_rate * min(finished_epochs / gradual_epochs, 1.0 + late), 1.0)


@methods.register("co_teaching_plus")
class CoTeachingPlus(SmallLossMethod):
    """Co-teaching+: co-teaching where the networks' predictions disagree (Yu et al. 2019).

    After a warm-up of plain co-teaching, training uses only disputed rows. These are the rows for
    which the two networks predict different classes. Among these, each network learns from the rows
    with the smallest losses of the other network. The paper does not say what to do if no row
    remains. Early in the run, the authors' code then uses the mean over the whole batch; later, it
    makes no update. We do the same, where "early" means that the forget rate still rises. In the
    authors' code, "early" is a fixed number of steps, which is about the same on MNIST. The first
    network is evaluated.

    We depart from the paper in one point: while the forget rate is 0, all rows are used. The
    purpose of disagreement is that the networks do not confirm each other's selection. Without
    noise there is no selection, and the paper has no such run. Steps from the few disputed rows
    would only reduce the accuracy.

    Args:
        setting: the task, which must be classification.
        noise_rate: tau, the fraction of labels to forget. The paper uses the true noise rate. By
            default it is estimated from the losses. Until the first estimate, nothing is forgotten.
        gradual_epochs: E_k, the number of epochs until the forget rate reaches tau: 10 of 200 in
            the paper. The default is 10, but at most a quarter of the run, because our runs are
            shorter.
        warmup_epochs: epochs of co-teaching at the start. The authors' code has 0 for MNIST and
            News, 5 for CIFAR-100, 20 for CIFAR-10 and 100 for Tiny-ImageNet, of 200. The default
            is a tenth of the run, as for CIFAR-10. If the noise rate is estimated, the warm-up
            continues until the last estimate, at 30 % of the run: a network that learns mostly from
            disputed samples has losses that look like noise even if there is none.
        late_schedule: the schedule after tau is reached. "level" stays at tau: the first of the two
            schedules in Algorithm 1, and that of the authors' code. "rising" continues to twice
            tau.
        form: "paper", or "released" for that of the authors' code (xingruiyu/coteaching_plus),
            which differs as follows. After the warm-up, it applies cross-entropy to probabilities
            as if they were logits, a second softmax. Losses then differ by at most 1, other rows
            are selected, and labels that a network is sure are wrong have almost no gradient. It
            divides the mean over the selected rows again by their number, even in the warm-up. This
            changes training with SGD, but not with optimizers such as Adam. Disputed rows are
            selected after the warm-up even if nothing is forgotten. The forget rate is
            `released_forget_rate`.
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
        form: Literal["paper", "released"] = "paper",
    ) -> None:
        setting.require_classes(
            "co_teaching_plus", "compares the classes that two networks predict"
        )
        if warmup_epochs is not None and warmup_epochs < 0:
            raise ValueError(f"warmup_epochs must be at least 0, not {warmup_epochs}")
        if late_schedule not in ("level", "rising"):
            raise ValueError(f"late_schedule must be 'level' or 'rising', not {late_schedule!r}")
        if form not in ("paper", "released"):
            raise ValueError(f"form must be 'paper' or 'released', not {form!r}")
        if form == "released" and late_schedule == "rising":
            raise ValueError("late_schedule = 'rising' is only in the paper: leave out the form")
        super().__init__(
            setting, noise_rate=noise_rate, gradual_epochs=gradual_epochs, schedule=form
        )
        self.form = form
        if warmup_epochs is None:
            warmup_epochs = math.ceil(WARMUP_FRACTION * setting.epochs)
            if not self.noise_rate.is_given:
                warmup_epochs = max(warmup_epochs, self.noise_rate.last - 1)
        self.warmup_epochs = warmup_epochs
        self.late_schedule = late_schedule
        # Rows of the epoch on which the networks disagreed, and all rows of it.
        self.register_buffer("disagreements", torch.zeros(2, dtype=torch.int64))
        self.register_buffer("counted_epoch", torch.tensor(0))

    def scheduled_forget_rate(self, epoch: int, noise_rate: float) -> float:
        """Return the forget rate 1 - lambda(e) of the paper."""
        if self.late_schedule == "level":
            return super().scheduled_forget_rate(epoch, noise_rate)
        return rising_forget_rate(epoch - 1, noise_rate, self.gradual_epochs, self.setting.epochs)

    def begin_epoch(self, epoch: int) -> None:
        """Start to count the disagreements of the epoch. A resumed epoch continues its count."""
        super().begin_epoch(epoch)
        if epoch != int(self.counted_epoch):
            self.disagreements.zero_()
            self.counted_epoch.fill_(epoch)

    def training_step(self, batch: Batch) -> StepResult:
        """Return the sum of each network's mean loss on disputed rows that the other selected."""
        outputs, losses = self.predictions(batch)
        first, second = (output.detach().argmax(dim=1) for output in outputs)
        disagree = gather_rows((first != second).to(torch.uint8)).bool()
        self.disagreements[0] += disagree.sum()
        self.disagreements[1] += len(disagree)
        if self.form == "paper":
            loss = exchanged_loss(losses, self._kept(batch, losses, disagree))
        else:
            loss = self._released_loss(batch, outputs, losses, disagree)
        return StepResult(loss, losses[0].detach(), outputs[0].detach())

    def _released_loss(
        self,
        batch: Batch,
        outputs: tuple[Tensor, Tensor],
        losses: tuple[Tensor, Tensor],
        disagree: Tensor,
    ) -> Tensor:
        """Return the loss of the authors' code: a second softmax, and two divisions by the rows."""
        if self.epoch > self.warmup_epochs:
            first, second = (at_least_float32(output).softmax(dim=1) for output in outputs)
            losses = (cross_entropy(first, batch.target), cross_entropy(second, batch.target))
        kept = self._kept(batch, losses, disagree)
        rows = kept[0].sum()  # the same number for both networks
        if self.epoch > self.warmup_epochs:  # if no row is disputed, divide only once
            rows = torch.where(disagree.any(), rows, 1)
        return exchanged_loss(losses, kept) / rows.clamp(min=1)

    def _kept(
        self, batch: Batch, losses: tuple[Tensor, Tensor], disagree: Tensor
    ) -> tuple[Tensor, Tensor]:
        keeps_all = self.forget_rate == 0.0 and self.form == "paper"
        if self.epoch <= self.warmup_epochs or keeps_all:
            by_first, by_second = self.small_losses(batch, *losses)
            return by_first, by_second
        by_first, by_second = self.small_losses(batch, *losses, candidates=disagree)
        if self.epoch <= self.gradual_epochs:
            none_disagrees = ~disagree.any()
            by_first, by_second = by_first | none_disagrees, by_second | none_disagrees
        return by_first, by_second

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the schedule and the length of the warm-up."""
        return {
            **super().hyperparameters(),
            "warmup_epochs": self.warmup_epochs,
            "late_schedule": self.late_schedule,
            "form": self.form,
        }

    def log_values(self) -> dict[str, float]:
        """Return the rates, and the fraction of the epoch's rows on which the networks disagree."""
        disagreed, rows = self.disagreements.tolist()
        return {**super().log_values(), "disagreement": disagreed / max(rows, 1)}
