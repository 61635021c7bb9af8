"""The mathematics of DiscrimLoss as pure functions: no state, no side effects.

Symbols of the paper stand in the docstrings. Everything here works elementwise on tensors of any
floating dtype and device; what depends on the epoch alone is a Python float.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Reduction = Literal["mean", "sum", "none"]

LARGEST_LOSS = 1e15  # larger ones count as this much, so that sums of squares stay finite


def at_least_float32(values: Tensor) -> Tensor:
    """`values` in single precision, or in the wider one that they have."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def early_suppression(epoch: int, suppressed_epochs: int) -> float:
    """``ES(e) = e / e_s`` for ``e < e_s``, else 1: mutes the first, unreliable epochs.

    >>> [early_suppression(epoch, suppressed_epochs=4) for epoch in (1, 2, 4, 9)]
    [0.25, 0.5, 1.0, 1.0]
    """
    return epoch / suppressed_epochs if epoch < suppressed_epochs else 1.0


def threshold_rise(
    epoch: float, switch_gain: float, switch_rate: float, switch_epoch: float
) -> float:
    """``a * (tanh(p * (e - q)) + 1)``: by how much of ``|k1|`` the threshold stands above ``k1``.

    Runs from 0 (stage 1, ``k_dyn = k1``) to ``2 a`` (stage 2, ``k_dyn = k2``).

    >>> threshold_rise(epoch=10, switch_gain=0.25, switch_rate=1.0, switch_epoch=10)
    0.25
    """
    return switch_gain * (math.tanh(switch_rate * (epoch - switch_epoch)) + 1.0)


def dynamic_threshold(base: Tensor, rise: float | Tensor) -> Tensor:
    """``k_dyn = k1 + rise * |k1|``.

    For ``k1 > 0`` this is the paper's ``(a tanh(p (e - q)) + a + 1) * k1``; for a negative ``k1``
    (a robust loss underneath) the threshold still rises instead of falling.
    """
    return base + rise * base.abs()


def update_history(history: Tensor, losses: Tensor, decay: float) -> Tensor:
    """``h <- rho * h + (1 - rho) * l``, not yet corrected for its start at zero."""
    return torch.lerp(history, losses, 1.0 - decay)


def history_mass(visits: Tensor, decay: float) -> Tensor:
    """``1 - rho ** n``: the share of a history that comes from losses and not from its zero start.

    >>> history_mass(torch.tensor([1.0, 2.0]), decay=0.5)
    tensor([0.5000, 0.7500])
    """
    if decay == 0.0:
        return torch.ones_like(visits)
    return -torch.expm1(visits * math.log(decay))


def average_loss(history: Tensor, visits: Tensor, decay: float) -> Tensor:
    """``Avg(l) = h / (1 - rho ** n)``, with ``n`` the visits of each sample and not the epochs."""
    return history / history_mass(visits, decay)


class LossTerms(NamedTuple):
    """What one row contributes: a value, and its derivatives."""

    value: Tensor
    """``L = ES * (Avg(l) - k_dyn) / delta + lambda * (log delta) ** 2``."""
    model_gradient: Tensor
    """``dL/dl = ES / delta``: the history is a constant, so only the fresh loss is followed."""
    weight_gradient: Tensor
    """``dL/d(log delta)``: the paper's ``ES * (k_dyn - Avg(l)) / delta ** 2`` times ``delta``,
    because log space keeps a weight positive however large a step is."""


def loss_terms(
    average: Tensor,
    log_weight: Tensor,
    threshold: float | Tensor,
    suppression: float | Tensor = 1.0,
    regularization: float | Tensor = 0.0,
) -> LossTerms:
    """The loss with both derivatives in closed form, from ``Avg(l)`` and ``log delta``."""
    slope = model_gradient(log_weight, suppression)
    value = (average - threshold) * slope
    pull = -value
    if isinstance(regularization, Tensor) or regularization != 0.0:
        value = value + regularization * log_weight.square()
        pull = pull + 2.0 * regularization * log_weight
    return LossTerms(value, slope, pull)


def discrim_loss(
    average: Tensor,
    log_weight: Tensor,
    threshold: float | Tensor,
    suppression: float | Tensor = 1.0,
    regularization: float | Tensor = 0.0,
) -> Tensor:
    """The value of `loss_terms` alone.

    >>> discrim_loss(torch.tensor([3.0]), torch.tensor([2.0]).log(), threshold=1.0)
    tensor([1.])
    """
    return loss_terms(average, log_weight, threshold, suppression, regularization).value


def weight_gradient(
    average: Tensor,
    log_weight: Tensor,
    threshold: float | Tensor,
    suppression: float | Tensor = 1.0,
    regularization: float | Tensor = 0.0,
) -> Tensor:
    """The derivative of `discrim_loss` with respect to ``log delta``, in closed form.

    Negative for a difficult sample, so that a step against it raises ``delta``.

    >>> weight_gradient(torch.tensor([3.0]), torch.tensor([2.0]).log(), threshold=1.0)
    tensor([-1.])
    """
    return loss_terms(average, log_weight, threshold, suppression, regularization).weight_gradient


def model_gradient(log_weight: Tensor, suppression: float | Tensor = 1.0) -> Tensor:
    """``dL/dl = ES / delta``, what a sample's own gradient is multiplied by.

    >>> model_gradient(torch.tensor([4.0]).log(), suppression=0.5)
    tensor([0.1250])
    """
    return torch.exp(-log_weight) * suppression


def reduce(losses: Tensor, reduction: Reduction) -> Tensor:
    """As PyTorch's losses do, but the mean of an empty batch is 0: NaN would poison a run."""
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" or losses.shape[0] == 0 else losses.mean()


def squash(losses: Tensor, scale: float | Tensor) -> Tensor:
    """``l / (|l| + s)``: losses into (-1, 1), in order, so that no tail can dominate a variance."""
    return losses / (losses.abs() + scale)


def unsquash(squashed: Tensor, scale: float | Tensor) -> Tensor:
    """The inverse of `squash`."""
    return scale * squashed / (1.0 - squashed.abs())


class Visits(NamedTuple):
    """One batch as visits: what each row's sample sees, the same for rows of the same sample."""

    mean_loss: Tensor
    """Shape (rows,). Mean of the finite losses of the row's sample in this batch; 0 if none."""
    counts: Tensor
    """Shape (rows,), bool. Whether the row's sample has a finite loss in this batch."""
    means: Tensor
    """Shape (rows,). The mean loss of each sample once, in one of its rows' places; else 0."""
    present: Tensor
    """Shape (rows,), bool. Which places of `means` hold a sample that counts."""

    @property
    def number(self) -> Tensor:
        """Scalar, int64. How many samples count."""
        return self.present.sum()

    def batch_mean(self, means: Tensor) -> Tensor:
        """Mean over the samples (not rows) that count, of something made from `means`."""
        return means.sum() / self.number.clamp(min=1)


def group_visits(losses: Tensor, index: Tensor) -> Visits:
    """Merge rows of the same sample into one visit, without a data-dependent shape.

    Rows are put in order of sample and loss first, so that sums come out the same to the last bit
    in whatever order the rows arrive.
    """
    # One sort instead of two: the index in the upper half of the key, the loss's bits in the lower.
    # Bits do not order losses by size, but they do order them the same way every time.
    order = ((index << 32) + losses.float().view(torch.int32)).argsort()
    sorted_index, sorted_losses = index.index_select(0, order), losses.index_select(0, order)
    sorted_group = torch.searchsorted(sorted_index, sorted_index)  # first row of the same sample
    group = torch.empty_like(order).index_copy_(0, order, sorted_group)

    finite = (sorted_losses - sorted_losses) == 0
    zeros = torch.zeros_like(losses)
    usable = torch.where(finite, sorted_losses, zeros).clamp(-LARGEST_LOSS, LARGEST_LOSS)
    total = zeros.index_add(0, sorted_group, usable)
    count = zeros.index_add(0, sorted_group, finite.to(losses.dtype))
    means = total / count.clamp(min=1)  # 0 in the places that are no sample's first row
    present = count > 0
    return Visits(
        mean_loss=means.index_select(0, group),
        counts=present.index_select(0, group),
        means=means,
        present=present,
    )


def mean_of_same(rows: Tensor, index: Tensor) -> Tensor:
    """Each row replaced by the mean over the rows of the same sample; almost always itself."""
    same = (index[:, None] == index).to(rows.dtype)
    return same @ rows / same.sum(1, keepdim=True)
