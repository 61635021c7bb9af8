"""The small-loss trick: leaves out the largest losses of a batch, more and more during training.

Shared by co-teaching, co-teaching+ and JoCoR: the forget rate of each epoch, the rows of a batch
that are kept, and a base class that trains two networks and records which samples were left out.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from discrimloss.losses.noise_rate import NoiseRate
from discrimloss.losses.sample_state import SampleMean
from discrimloss.state.gathering import gather_rows, own_rows, weighted_mean
from discrimloss.training.methods.base import Batch, Method, Setting

GRADUAL_EPOCHS = 10
LARGEST_GRADUAL_FRACTION = 0.25
Schedule = Literal["paper", "released"]
"""The schedule of the forget rate: `risen_forget_rate` or `released_forget_rate`."""
_ROUNDING = 1e-9  # in floats, (1 - 0.9) * 10 is a little less than 1


def gradual_length(given: int | None, epochs: int) -> int:
    """Return T_k, the number of epochs until the forget rate reaches the noise rate.

    All three papers use 10 of 200 epochs. Networks learn the correct labels in a number of passes,
    not in a fraction of the run, so we keep the 10. But a short run, of 12 epochs for example, must
    have time to train on the selected rows. T_k is therefore at most a quarter of the run.
    """
    if given is None:
        return max(1, min(GRADUAL_EPOCHS, int(LARGEST_GRADUAL_FRACTION * epochs)))
    if given < 1:
        raise ValueError(f"gradual_epochs must be at least 1, not {given}")
    return given


def risen_forget_rate(
    finished_epochs: int, noise_rate: float, gradual_epochs: int, exponent: float = 1.0
) -> float:
    """Return the fraction of a batch to leave out, 1 - R(T): ``tau * min(T**c / T_k, 1)``.

    T counts finished epochs, because the papers' algorithms update R(T) at the end of epoch T. The
    first epoch therefore keeps every row.
    """
    return noise_rate * min(math.pow(finished_epochs, exponent) / gradual_epochs, 1.0)


def released_forget_rate(
    epoch: int, noise_rate: float, gradual_epochs: int, exponent: float = 1.0
) -> float:
    """Return the fraction of a batch to leave out in an epoch, from 1, in the authors' code.

    Their list of rates rises from 0 to ``tau**c`` in ``T_k`` equal steps and stays at tau. The
    first epoch of training takes the second entry of the list. With ``T_k = 10`` the rate is
    tau / 9 in the first epoch and tau in the ninth; `risen_forget_rate` is 0 in the first epoch
    and reaches tau in the eleventh.
    Sources: bhanML/Co-teaching, xingruiyu/coteaching_plus and hongxin001/JoCoR.
    """
    if epoch >= gradual_epochs:
        return noise_rate
    return math.pow(noise_rate, exponent) * epoch / (gradual_epochs - 1)


def small_loss_mask(
    losses: Tensor, index: Tensor, forget_rate: float, candidates: Tensor | None = None
) -> Tensor:
    """Return which rows have the smallest losses, shape (batch,), bool.

    ``int((1 - forget_rate) * n)`` of n candidates are kept, but at least one if there are any.
    Ties are broken by the smaller sample index, so rows may be in any order.

    Args:
        losses: shape (batch,), of the whole batch.
        index: shape (batch,): the position of each row in the training set.
        forget_rate: the fraction to leave out.
        candidates: shape (batch,), boolean: the rows to select from; None for all.
    """
    if candidates is None:
        candidates = torch.ones_like(losses, dtype=torch.bool)
    by_index = index.argsort(stable=True)
    order = by_index[losses.masked_fill(~candidates, torch.inf)[by_index].argsort(stable=True)]
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    kept = (candidates.sum().double() * (1.0 - forget_rate) + _ROUNDING).floor().clamp(min=1.0)
    return (rank < kept) & candidates


def exchanged_loss(losses: tuple[Tensor, Tensor], kept: tuple[Tensor, Tensor]) -> Tensor:
    """Return the sum of each network's mean loss on the rows that the other one selected.

    The networks share no parameter, so each gets only the gradient of its own loss.

    Args:
        losses: for each network, the losses of the rows of this process.
        kept: for each network, which rows of all processes it selected.
    """
    first, second = losses
    by_first, by_second = kept
    return weighted_mean(first, by_second.to(first.dtype)) + weighted_mean(
        second, by_first.to(second.dtype)
    )


class SmallLossMethod(Method):
    """Two networks, a noise rate, and the fraction of visits in which a sample was left out.

    Args:
        setting: the task.
        noise_rate: the fraction of wrong labels; None to estimate it.
        gradual_epochs: as in `gradual_length`.
        schedule: the paper's schedule, or that of the authors' code.
    """

    needs: ClassVar[str] = "noise rate, given or estimated"

    def __init__(
        self,
        setting: Setting,
        *,
        noise_rate: float | None,
        gradual_epochs: int | None,
        schedule: Schedule = "paper",
    ) -> None:
        if schedule not in ("paper", "released"):
            raise ValueError(f"schedule must be 'paper' or 'released', not {schedule!r}")
        checked_rate = NoiseRate(noise_rate, setting.epochs)
        checked_length = gradual_length(gradual_epochs, setting.epochs)
        super().__init__(setting, num_networks=2)
        self.noise_rate = checked_rate
        self.gradual_epochs = checked_length
        self.schedule = schedule
        self.left_out = SampleMean(setting.num_samples)
        self.forget_rate = 0.0
        """Forget rate of the current epoch. `begin_epoch` sets it, so it is not saved."""

    def scheduled_forget_rate(self, epoch: int, noise_rate: float) -> float:
        """Return the fraction of a batch to leave out in an epoch."""
        if self.schedule == "released":
            return released_forget_rate(epoch, noise_rate, self.gradual_epochs)
        return risen_forget_rate(epoch - 1, noise_rate, self.gradual_epochs)

    def begin_epoch(self, epoch: int) -> None:
        """Update the noise rate and the forget rate."""
        super().begin_epoch(epoch)
        self.noise_rate.begin_epoch(epoch, self.history)
        self.forget_rate = self.scheduled_forget_rate(epoch, float(self.noise_rate))

    def predictions(self, batch: Batch) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return the outputs of both networks, and their task losses."""
        first, second = (network(batch.inputs) for network in self.networks)
        losses = (
            self.setting.task_losses(first, batch.target),
            self.setting.task_losses(second, batch.target),
        )
        return (first, second), losses

    def small_losses(
        self, batch: Batch, *losses: Tensor, candidates: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Select the rows with small losses in the batch of all processes, for each of the losses.

        The method's scores count how often a sample has one of the large losses among all rows.
        They do not depend on the candidates, and count in every epoch, even if the forget rate is
        0. All samples are therefore counted equally often.

        Args:
            batch: batch of this process.
            losses: losses of this process, shape (batch,).
            candidates: candidates of all processes, as in `small_loss_mask`.
        """
        index = gather_rows(batch.index)
        everyones = gather_rows(torch.stack([part.detach() for part in losses], dim=1)).unbind(1)
        small = tuple(small_loss_mask(column, index, self.forget_rate) for column in everyones)
        left_out = 1.0 - torch.stack(small).float().mean(dim=0)
        self.left_out.add(own_rows(left_out), batch.index)
        if candidates is None:
            return small
        return tuple(
            small_loss_mask(column, index, self.forget_rate, candidates) for column in everyones
        )

    def sample_scores(self) -> Tensor | None:
        """Return the fraction of visits in which the loss of a sample was too large."""
        return self.left_out.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Return the noise rate, its source, and the length of the schedule."""
        values = {**self.noise_rate.record(), "gradual_epochs": self.gradual_epochs}
        return values if self.schedule == "paper" else {**values, "schedule": self.schedule}

    def log_values(self) -> dict[str, float]:
        """Return the noise rate, and the fraction of a batch that is left out."""
        return {"noise_rate": float(self.noise_rate), "forget_rate": self.forget_rate}
