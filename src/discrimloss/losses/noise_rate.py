"""The noise rate that some methods need, given or estimated."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from discrimloss.judging.calibration import calibrate
from discrimloss.loss import DiscrimLoss

FIRST_ESTIMATE, LAST_ESTIMATE = 0.15, 0.3
"""The fractions of the run at which the first and the last estimate are made. Earlier, the losses
of correct and wrong labels are still alike. Later, a method that uses the rate would only see its
own effect."""
HIGHEST_ESTIMATE = 0.9


def rate_of_averages(history: DiscrimLoss) -> float | None:
    """Estimate the noise rate from the average losses alone, for methods that always need one.

    Verdicts also require that the latest loss contradicts a label. Early in a run with many wrong
    labels this is rarely the case, so verdicts have no noise rate. The average losses, however,
    already form two groups.

    Returns:
        The rate, or None if no sample has a loss.
    """
    calibration = calibrate(history.average_chunks, float(history.loss_scale), history.table.shards)
    rates = [calibration(chunk[chunk.isfinite()]) for chunk in history.average_chunks()]
    sums = torch.tensor([sum(float(part.double().sum()) for part in rates), sum(map(len, rates))])
    total, number = history.table.shards.total(sums.double()).tolist()
    return total / number if number else None


class NoiseRate(nn.Module):
    """A noise rate that is given, or estimated from the loss history of the samples.

    The estimate is 0 at first, so a method trusts every label. Then it is the noise rate of the
    calibrated verdicts (`docs/verdicts.md`) or, if they have none, that of `rate_of_averages`. For
    part of the run, it is updated at the beginning of each epoch. If the method already uses the
    estimate, it can only fall. The reason is that left-out samples have larger losses: an estimate
    that may rise would grow with the number of left-out samples until nothing is learned.

    Args:
        given: the fraction of wrong labels, in [0, 1). None to estimate it.
        epochs: length of the run.
        waits_for_last: whether the method uses only the last estimate.
    """

    value: Tensor
    is_estimated: Tensor
    estimated_in: Tensor

    def __init__(self, given: float | None, epochs: int, *, waits_for_last: bool = False) -> None:
        super().__init__()
        self.may_rise = waits_for_last
        if given is not None and not 0.0 <= given < 1.0:
            raise ValueError(
                f"noise_rate must be a fraction of the labels, at least 0 and below 1, not {given}"
            )
        self.is_given = given is not None
        self.first = 1 + math.ceil(FIRST_ESTIMATE * epochs)
        self.last = max(self.first, math.ceil(LAST_ESTIMATE * epochs))
        self.register_buffer("value", torch.tensor(given or 0.0, dtype=torch.float64))
        self.register_buffer("is_estimated", torch.tensor(False))
        self.register_buffer("estimated_in", torch.tensor(0))

    def begin_epoch(self, epoch: int, history: DiscrimLoss | None) -> None:
        """Estimate the rate if an estimate is due. A resumed epoch keeps its estimate."""
        is_due = self.first <= epoch <= self.last and epoch > int(self.estimated_in)
        if self.is_given or history is None or not is_due:
            return
        estimate = history.verdicts().noise_rate
        if estimate is None:
            estimate = rate_of_averages(history)
        if estimate is not None:
            is_bound = bool(self.is_estimated) and not self.may_rise
            highest = float(self) if is_bound else HIGHEST_ESTIMATE
            self.value.fill_(min(estimate, highest))
            self.is_estimated.fill_(True)
        self.estimated_in.fill_(epoch)

    def __float__(self) -> float:
        return float(self.value)

    def record(self) -> dict[str, Any]:
        """Return the rate and its source, for the summary. None before the first estimate."""
        if self.is_given:
            return {"noise_rate": float(self), "noise_rate_source": "given"}
        if not bool(self.is_estimated):
            return {"noise_rate": None, "noise_rate_source": "not estimated yet"}
        return {"noise_rate": float(self), "noise_rate_source": "estimated"}
