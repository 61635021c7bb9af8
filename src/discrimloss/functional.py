"""The equations of DiscrimLoss as pure functions.

The docstrings use the symbols of the paper. Tensors may have any floating dtype and device. Terms
that depend only on the epoch are Python floats.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from discrimloss.visits import Visits

if TYPE_CHECKING:
    from discrimloss.criterion_state import CriterionState
    from discrimloss.hyperparameters import Hyperparameters
    from discrimloss.state.exchange import Batch

Reduction = Literal["mean", "sum", "none"]

THRESHOLD_DECAY = 0.9  # rho' of the paper: decay of the moving average behind threshold="ema"
LARGEST_RATIO = 30.0  # for the scale, losses are clipped to this multiple of the usual loss
SMALLEST_SCALE = 1e-15  # keeps step sizes finite where all losses are zero


def at_least_float32(values: Tensor) -> Tensor:
    """Convert `values` to float32, unless their precision is higher."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


class EpochTerms(NamedTuple):
    """Terms of the loss that depend only on the epoch."""

    suppression: float
    """``ES``."""
    rise: float
    """Distance of the threshold above ``k1``, as a fraction of ``|k1|``."""
    gradient_fraction: float
    """Factor of the model's gradient. 1 in the paper's form."""


def early_suppression(epoch: int, suppressed_epochs: int) -> float:
    """Return ``ES(e) = e / e_s`` for ``e < e_s``, else 1. It damps the first, unreliable epochs.

    Example:
        >>> [early_suppression(epoch, suppressed_epochs=4) for epoch in (1, 2, 4, 9)]
        [0.25, 0.5, 1.0, 1.0]
    """
    return epoch / suppressed_epochs if epoch < suppressed_epochs else 1.0


def threshold_rise(
    epoch: float, switch_gain: float, switch_rate: float, switch_epoch: float
) -> float:
    """Return ``a * (tanh(p * (e - q)) + 1)``, the rise of the threshold in units of ``|k1|``.

    It runs from 0 (stage 1, ``k_dyn = k1``) to ``2 a`` (stage 2, ``k_dyn = k2``).

    Example:
        >>> threshold_rise(epoch=10, switch_gain=0.25, switch_rate=1.0, switch_epoch=10)
        0.25
    """
    return switch_gain * (math.tanh(switch_rate * (epoch - switch_epoch)) + 1.0)


def dynamic_threshold(base: Tensor, rise: float | Tensor) -> Tensor:
    """Return ``k_dyn = k1 + rise * |k1|``.

    For ``k1 > 0`` this is the paper's ``(a tanh(p (e - q)) + a + 1) * k1``. For a negative ``k1``,
    which a robust task loss may have, the threshold still rises.
    """
    return base + rise * base.abs()


def update_history(history: Tensor, losses: Tensor, decay: float) -> Tensor:
    """Return ``rho * h + (1 - rho) * l``, without the correction for the start at zero."""
    return torch.lerp(history, losses, 1.0 - decay)


def history_mass(visits: Tensor, decay: float) -> Tensor:
    """Return ``1 - rho ** n``, the total weight of the losses in a history that starts at zero.

    Example:
        >>> history_mass(torch.tensor([1.0, 2.0]), decay=0.5)
        tensor([0.5000, 0.7500])
    """
    if decay == 0.0:
        return torch.ones_like(visits)
    return torch.expm1(visits * math.log(decay)).neg_()


def average_loss(history: Tensor, visits: Tensor, decay: float) -> Tensor:
    """Return ``Avg(l) = h / (1 - rho ** n)``, where ``n`` is the number of visits."""
    return history / history_mass(visits, decay)


class LossTerms(NamedTuple):
    """The loss of each row, and its derivatives."""

    value: Tensor
    """``L = ES * (Avg(l) - k_dyn) / delta + lambda * (log delta) ** 2``."""
    model_gradient: Tensor
    """``dL/dl = ES / delta``. The history is treated as a constant."""
    weight_gradient: Tensor
    """``dL/d(log delta)``. Steps in log space keep ``delta`` positive."""


def loss_terms(
    average: Tensor,
    log_weight: Tensor,
    threshold: float | Tensor,
    suppression: float | Tensor = 1.0,
    regularization: float | Tensor = 0.0,
) -> LossTerms:
    """Compute the loss and both derivatives in closed form from ``Avg(l)`` and ``log delta``."""
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
    """Return the loss ``L`` of `loss_terms`.

    Example:
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
    """Return the derivative of `discrim_loss` with respect to ``log delta``.

    It is negative for a difficult sample, so that gradient descent raises ``delta``.

    Example:
        >>> weight_gradient(torch.tensor([3.0]), torch.tensor([2.0]).log(), threshold=1.0)
        tensor([-1.])
    """
    return loss_terms(average, log_weight, threshold, suppression, regularization).weight_gradient


def model_gradient(log_weight: Tensor, suppression: float | Tensor = 1.0) -> Tensor:
    """Return ``dL/dl = ES / delta``, the factor of a sample's gradient.

    Example:
        >>> model_gradient(torch.tensor([4.0]).log(), suppression=0.5)
        tensor([0.1250])
    """
    return torch.exp(-log_weight) * suppression


def reduce(losses: Tensor, reduction: Reduction) -> Tensor:
    """Reduce losses as PyTorch does, except that the mean of an empty batch is 0 and not NaN."""
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" or losses.shape[0] == 0 else losses.mean()


# --------------------------------------------------- thresholds and scales of groups
# Each group of samples has its own threshold and loss scale. `group` is the group of each row,
# shape (rows,) and int64. None means that there is a single group.


def of_group(values: Tensor, group: Tensor | None) -> Tensor:
    """Return the value of each row's group. Without groups, return `values`, which broadcast."""
    return values if group is None else values.index_select(0, group)


def sum_by_group(values: Tensor, group: Tensor | None, groups: int) -> Tensor:
    """Return the sum of the rows of each group, shape (groups,).

    Example:
        >>> sum_by_group(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 2, 0]), groups=3)
        tensor([5., 0., 2.])
    """
    if group is None:
        return values.sum(0, keepdim=True)
    return values.new_zeros(groups).index_add_(0, group, values)


def median_by_group(values: Tensor, group: Tensor | None, groups: int) -> Tensor:
    """Return the lower median of the rows of each group, shape (groups,). 0 for an empty group.

    Example:
        >>> group = torch.tensor([0, 0, 2, 0])
        >>> median_by_group(torch.tensor([4.0, 1.0, 9.0, 2.0]), group, groups=3)
        tensor([2., 0., 9.])
    """
    if group is None:
        return values.median().unsqueeze(0)
    by_value = values.argsort()
    order = by_value.index_select(0, group.index_select(0, by_value).argsort(stable=True))
    rows = sum_by_group(torch.ones_like(group), group, groups)
    middle = rows.cumsum(0) - rows + (rows - 1).clamp(min=0) // 2
    medians = values.index_select(0, order.index_select(0, middle.clamp(max=len(values) - 1)))
    return torch.where(rows > 0, medians, 0.0)


def loss_scale(mean_abs: Tensor, mean_square: Tensor) -> Tensor:
    """Return the typical size of the losses: their mean, with each loss weighted by its own size.

    If a model learns within its first epoch, a plain mean is too small. The weighted mean stays
    near the loss of an untrained model.
    """
    scale = mean_square / mean_abs.clamp(min=SMALLEST_SCALE)
    return scale.clamp(min=SMALLEST_SCALE)


def step_size(
    scale: Tensor, visits: Tensor, hyperparameters: Hyperparameters, smallest_group: int
) -> Tensor:
    """Return ``tau``, the step size of the weights of each group. 0 for groups that are too small.

    Args:
        scale: shape (groups,): the loss scales.
        visits: shape (groups,): number of tracked visits.
        hyperparameters: hyperparameters of the criterion.
        smallest_group: groups with fewer visits are too small.
    """
    if hyperparameters.weight_lr is not None:
        size = torch.full_like(scale, hyperparameters.weight_lr)
    else:
        size = hyperparameters.relative_weight_lr / scale
    return size.masked_fill(visits < smallest_group, 0.0) if smallest_group else size


class TrackedLosses(NamedTuple):
    """Statistics tracked over batches, shape (groups,) each. Unset where `visits` is 0."""

    k1: Tensor
    """The base threshold."""
    visits: Tensor
    """int64. Number of tracked visits."""
    mean_abs: Tensor
    """Mean of ``|l|``, for the loss scale."""
    mean_square: Tensor
    """Mean of ``l ** 2``, for the loss scale."""


def track_losses(
    tracked: TrackedLosses,
    visits: Visits,
    group: Tensor | None,
    scale_is_fixed: Tensor,
    threshold: str | float,
) -> TrackedLosses:
    """Update ``k1`` and the loss scales with a batch.

    ``k1`` is the mean of all losses seen (``threshold="mean"``), constant (a number), or a moving
    average of the batch means. Batches change a split threshold only in the first epoch.

    Args:
        tracked: the statistics so far.
        visits: the batch.
        group: shape (rows,), the group of each row of the batch.
        scale_is_fixed: shape (groups,), bool. Whether the first epoch of a group is over.
        threshold: see `DiscrimLoss`.

    Returns:
        The new statistics. A group without visits in the batch keeps its old ones.
    """
    groups = len(tracked.k1)
    group_of_mean = None if group is None else group.index_select(0, visits.order)
    number = sum_by_group(visits.present.long(), group_of_mean, groups)
    divisor = number.clamp(min=1)

    def batch_mean(means: Tensor) -> Tensor:
        return sum_by_group(means, group_of_mean, groups) / divisor

    if threshold not in ("ema", "mean"):  # only the first epoch counts
        number = number.masked_fill(scale_is_fixed, 0)
    seen = tracked.visits + number
    share = number.float() / seen.clamp(min=1)
    is_first = tracked.visits == 0

    k1 = tracked.k1
    if isinstance(threshold, str):
        mean = batch_mean(visits.means)
        if threshold == "mean":
            moved = torch.lerp(k1, mean, share)
        else:
            moved = torch.where(is_first, mean, torch.lerp(k1, mean, 1.0 - THRESHOLD_DECAY))
        k1 = torch.where(number == 0, k1, moved)

    # A single extreme target must not set the scale of all others. So losses are clipped to a
    # multiple of the usual loss: the scale so far, or the median in the first batch.
    sizes = visits.means.abs()
    median = median_by_group(visits.mean_loss.abs(), group, groups)
    usual = torch.where(median > 0, median, batch_mean(sizes))
    usual = torch.where(is_first, usual, tracked.mean_abs)
    sizes = torch.minimum(sizes, of_group(LARGEST_RATIO * usual, group_of_mean))
    scale_fraction = share.masked_fill(scale_is_fixed, 0.0)
    return TrackedLosses(
        k1=k1,
        visits=seen,
        mean_abs=torch.lerp(tracked.mean_abs, batch_mean(sizes), scale_fraction),
        mean_square=torch.lerp(tracked.mean_square, batch_mean(sizes.square()), scale_fraction),
    )


# ------------------------------------------------------------------------ the form


class PaperForm:
    """The equations of the paper. `released.ReleasedForm` has those of the released code.

    Args:
        hyperparameters: hyperparameters of the criterion.
    """

    has_velocity = False

    def __init__(self, hyperparameters: Hyperparameters) -> None:
        self.hyperparameters = hyperparameters

    def epoch_terms(self, epoch: int) -> EpochTerms:
        """Return the terms of the loss that depend only on the epoch."""
        values = self.hyperparameters
        rise = threshold_rise(epoch, values.switch_gain, values.switch_rate, values.switch_epoch)
        return EpochTerms(early_suppression(epoch, values.suppressed_epochs), rise, 1.0)

    def entering(self, log_weight: Tensor, criterion: CriterionState) -> Tensor:
        """Return the weights that a batch starts from: those of its samples, unchanged."""
        return log_weight

    def average(self, history: Tensor, visits: Tensor, epoch: Tensor) -> Tensor:
        """Return ``Avg(l)``, corrected by the number of visits to each sample."""
        return average_loss(history, visits.float(), self.hyperparameters.history_decay)

    def tracked_visits(
        self, visits: Visits, average: Tensor, batch: Batch, criterion: CriterionState
    ) -> Visits:
        """Return the visits from which thresholds are computed: those of the batch, unchanged."""
        return visits

    def terms(
        self,
        average: Tensor,
        log_weight: Tensor,
        threshold: Tensor,
        visits: Visits,
        batch: Batch,
        criterion: CriterionState,
    ) -> LossTerms:
        """Return the loss and its derivatives."""
        suppression = criterion.tracker.suppression
        regularization = self.hyperparameters.regularization
        return loss_terms(average, log_weight, threshold, suppression, regularization)
