"""The thresholds and the loss scale that DiscrimLoss tracks over the batches of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from discrimloss import functional as F
from discrimloss.histogram import bounded_split_thresholds, split_thresholds
from discrimloss.released import ReleasedForm
from discrimloss.state.exchange import WHOLE_TABLE, Shards
from discrimloss.state.fixed_dtype import FixedDtypeModule


class LossTracker(FixedDtypeModule):
    """The state outside of the table: the epoch, and ``k1`` and the loss scale of each group.

    This class declares the state and the terms derived from it. `functional.track_losses` updates
    it with a batch. Every term is a tensor, so that a compiled step is not compiled again when a
    value changes.

    Args:
        form: the paper's form or the released code's, with the hyperparameters.
        groups: number of groups of samples with a threshold and a loss scale of their own.
        smallest_group: weights of groups with fewer visits do not change.
    """

    epoch_count: Tensor
    """Scalar, int64. The current epoch, from 1."""
    k1: Tensor
    """Shape (groups,). The base threshold."""
    visits_seen: Tensor
    """Shape (groups,), int64. Number of tracked visits. While 0, `k1` and loss scale are unset."""
    first_mean_abs: Tensor
    """Shape (groups,). Mean of ``|l|`` over the first epoch of a group."""
    first_mean_square: Tensor
    """Shape (groups,). Mean of ``l ** 2`` over the first epoch of a group."""
    past_first_epoch: Tensor
    """Shape (groups,), bool. Whether the first epoch with visits to the group is over."""
    suppression: Tensor
    """Scalar. ``ES`` of the epoch. Not saved, like all following terms."""
    rise: Tensor
    """Scalar. Distance of the threshold above ``k1`` in this epoch, as a fraction of ``|k1|``."""
    gradient_fraction: Tensor
    """Scalar. Factor of the model's gradient in this epoch. 1 in the paper's form."""
    threshold_now: Tensor
    """Shape (groups,). ``k_dyn``."""
    step_size: Tensor
    """Shape (groups,). ``tau``."""

    def __init__(
        self, form: F.PaperForm | ReleasedForm, groups: int = 1, smallest_group: int = 0
    ) -> None:
        super().__init__()
        self.form = form
        self.smallest_group = smallest_group
        self.hyperparameters = form.hyperparameters
        constant = self.hyperparameters.threshold
        start = 0.0 if isinstance(constant, str) else float(constant)
        self.register_buffer("epoch_count", torch.tensor(1))
        self.register_buffer("k1", torch.full((groups,), start, dtype=torch.float32))
        self.register_buffer("visits_seen", torch.zeros(groups, dtype=torch.int64))
        for name in ("first_mean_abs", "first_mean_square"):
            self.register_buffer(name, torch.zeros(groups, dtype=torch.float32))
        self.register_buffer("past_first_epoch", torch.zeros(groups, dtype=torch.bool))
        for name in ("suppression", "rise", "gradient_fraction"):
            term = torch.zeros((), dtype=torch.float32)
            self.register_buffer(name, term, persistent=False)
        for name in ("threshold_now", "step_size"):
            term = torch.zeros(groups, dtype=torch.float32)
            self.register_buffer(name, term, persistent=False)
        self.is_moving = True
        """Whether a batch can still change the state. A plain bool, so no step waits for it."""
        self._refresh(epoch=1)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.k1)

    @property
    def loss_scale(self) -> Tensor:
        """Shape (groups,). The loss scale; see `functional.loss_scale`."""
        return F.loss_scale(self.first_mean_abs, self.first_mean_square)

    def end_epoch(
        self,
        averages: Iterable[Tensor],
        group_chunks: Iterable[Tensor] | None = None,
        shards: Shards = WHOLE_TABLE,
    ) -> None:
        """Freeze the loss scales of the groups seen so far, and set ``k1`` from the whole table.

        Args:
            averages: ``Avg(l)`` of this process's samples, in chunks.
            group_chunks: the group of each of them, in the same chunks; None for one group.
            shards: how the samples are divided among processes. All processes must call this.
        """
        self.past_first_epoch |= self.visits_seen > 0
        if self.hyperparameters.threshold == "split":
            k1 = split_thresholds(averages, group_chunks, self.groups, shards)
        elif self.hyperparameters.threshold == "bounded_split":
            k1 = bounded_split_thresholds(averages, self.loss_scale, group_chunks, shards)
        else:
            return
        k1 = k1.to(self.k1)
        self.k1.copy_(torch.where(k1.isnan(), self.k1, k1))

    def lower_scales(self, mean_abs: Tensor, mean_square: Tensor) -> None:
        """Decrease the loss scales of groups whose losses have become smaller.

        If regression targets are far from zero, the first losses are large until the network has
        learned the mean. This carries no information about individual targets.

        Args:
            mean_abs: shape (groups,): mean size of the latest losses; NaN where there are none.
            mean_square: the same of their squares.
        """
        is_lower = (mean_square / mean_abs < self.loss_scale) & (mean_abs > 0)
        self.first_mean_abs.copy_(torch.where(is_lower, mean_abs, self.first_mean_abs))
        self.first_mean_square.copy_(torch.where(is_lower, mean_square, self.first_mean_square))

    def start_epoch(self, epoch: int) -> None:
        """Set the epoch, and recompute the terms that are not saved."""
        self.epoch_count.fill_(epoch)
        is_settled = bool(self.past_first_epoch.all())
        self.is_moving = self.hyperparameters.follows_batches or not is_settled
        self._refresh(epoch)

    def _refresh(self, epoch: int) -> None:
        terms, values = self.form.epoch_terms(epoch), self.hyperparameters
        self.suppression.fill_(terms.suppression)
        self.rise.fill_(terms.rise)
        self.gradient_fraction.fill_(terms.gradient_fraction)
        if not isinstance(values.threshold, str):
            self.k1.fill_(values.threshold)
        self.threshold_now.copy_(F.dynamic_threshold(self.k1, self.rise))
        self.step_size.copy_(
            F.step_size(self.loss_scale, self.visits_seen, values, self.smallest_group)
        )

    def spread_first_group(self) -> None:
        """Copy the state of the first group to all groups."""
        for buffer in (
            self.k1,
            self.visits_seen,
            self.first_mean_abs,
            self.first_mean_square,
            self.past_first_epoch,
        ):
            buffer.copy_(buffer[:1].expand_as(buffer).clone())

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self.start_epoch(int(self.epoch_count))
