"""DiscrimLoss: a learned weight and a moving threshold for every training sample."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrimloss import functional as F
from discrimloss.hyperparameters import (
    Threshold,
    Variant,
    epoch_terms,
    require_whole_number,
    resolve_hyperparameters,
)
from discrimloss.sample_memory import SampleMemory
from discrimloss.state.processes import Gathered
from discrimloss.state.sample_ids import SampleIds
from discrimloss.state.shards import Placement
from discrimloss.state.table import MAX_SAMPLES, MAX_VISITS, NO, NOT_KNOWN, YES, as_sample_index
from discrimloss.thresholds import bounded_split_threshold, split_threshold

if TYPE_CHECKING:
    from discrimloss.judging.verdicts import Rule, Verdicts

RELEASED_MOMENTUM = 0.9


class DiscrimLoss(SampleMemory):
    """Weighs each sample's task loss, so that wrong labels lose their pull during training.

    Put it between an unreduced task loss and `backward()`, and tell it the epoch:

    >>> import torch
    >>> criterion = DiscrimLoss(num_samples=4, epochs=10)
    >>> criterion.set_epoch(1)
    >>> losses = torch.tensor([0.3, 4.0], requires_grad=True)
    >>> criterion(losses, index=torch.tensor([0, 2])).backward()
    >>> criterion.sample_weights
    tensor([1.0000, 1.0000, 1.6395, 1.0000])

    `num_samples` and `epochs` are enough; every other value has a default that follows from them
    (`docs/defaults.md`), and any of them may be given instead. In eval mode the module returns the
    task loss unchanged and learns nothing.

    With `torch.distributed` initialised, every process calls it with its own part of the batch. One
    small exchange makes the state what a single process would have, the same everywhere, and the
    gradients' average over the processes what a single process would compute
    (`docs/distributed.md`).

    Args:
        num_samples: rows of the table; indices run from 0 to ``num_samples - 1``.
        epochs: length of the training run.
        threshold: ``k1``. ``"bounded_split"``: the best split of all samples' average losses, once
            an epoch, robust against their tails; ``"split"``: the plain one; ``"ema"``: moving
            average of the batch mean; ``"mean"``: mean of all losses seen; or a number.
        switch_gain, switch_rate, switch_epoch: ``a``, ``p``, ``q`` of
            ``k_dyn = (a tanh(p (e - q)) + a + 1) k1``.
        suppressed_epochs: ``e_s``; 0 turns early suppression off.
        regularization: ``lambda``.
        history_decay: ``rho``; 0 turns the historical loss off.
        weight_lr: ``tau``, an absolute step size.
        relative_weight_lr: ``tau`` times the mean loss of the first epoch, which makes the weights
            independent of the loss's unit; used unless `weight_lr` is given.
        weight_range: bounds of the weight ``delta``. A sample's gradient is divided by it.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        variant: ``"paper"``, or ``"released"`` for what the authors' released code does instead.
        ids: names of the samples, in place of `num_samples`; batches then carry names instead of
            positions, and the table grows as new ones appear.
        sharded: whether each row of the table is kept by one process only, for tables too large
            for every process; build the criterion after `torch.distributed` is initialised.
        process_group: the processes that share the table; all of them unless given.
    """

    suppression: Tensor
    gradient_share: Tensor

    def __init__(
        self,
        num_samples: int | None = None,
        epochs: int | None = None,
        *,
        threshold: Threshold | None = None,
        switch_gain: float | None = None,
        switch_rate: float | None = None,
        switch_epoch: float | None = None,
        suppressed_epochs: int | None = None,
        regularization: float | None = None,
        history_decay: float | None = None,
        weight_lr: float | None = None,
        relative_weight_lr: float | None = None,
        weight_range: tuple[float, float] | None = None,
        reduction: F.Reduction = "mean",
        variant: Variant = "paper",
        ids: SampleIds | None = None,
        sharded: bool = False,
        process_group: Any = None,
    ) -> None:
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be one of mean, sum, none, not {reduction!r}")
        hyperparameters = resolve_hyperparameters(
            epochs,
            variant,
            {
                "threshold": threshold,
                "switch_gain": switch_gain,
                "switch_rate": switch_rate,
                "switch_epoch": switch_epoch,
                "suppressed_epochs": suppressed_epochs,
                "regularization": regularization,
                "history_decay": history_decay,
                "weight_lr": weight_lr,
                "relative_weight_lr": relative_weight_lr,
                "weight_range": weight_range,
            },
        )
        super().__init__(
            hyperparameters,
            variant,
            num_samples,
            ids=ids,
            sharded=sharded,
            process_group=process_group,
        )
        self.epochs = epochs
        self.reduction = reduction
        for name in ("suppression", "gradient_share"):  # follow from the epoch
            self.register_buffer(name, torch.tensor(0.0, dtype=torch.float32), persistent=False)
        self._refresh_epoch_terms(1)
        self.refresh_tracked_terms()

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch begins, counting from 1. Call it before the epoch's first batch."""
        if epoch == 0:
            raise ValueError("epochs count from 1: call set_epoch(epoch + 1) if yours start at 0")
        require_whole_number("epoch", epoch, 1, MAX_SAMPLES)
        epoch = int(epoch)
        if epoch != self.epoch and int(self.visits_seen) > 0:
            self._end_epoch(next_epoch=epoch)
        self.epoch_count.fill_(epoch)
        self.refresh_derived()

    def refresh_derived(self) -> None:
        """Bring everything that is not saved in line with what is."""
        self._refresh_epoch_terms(self.epoch)
        super().refresh_derived()

    def _end_epoch(self, next_epoch: int) -> None:
        last_stage_one_epoch = max(math.floor(self.hyperparameters.switch_epoch), 1)
        if self.epoch <= last_stage_one_epoch < next_epoch:
            self._record_learned_early()
        self.past_first_epoch.fill_(True)
        k1, shards = None, self.table.shards
        if self.hyperparameters.threshold == "split":
            k1 = split_threshold(self.average_chunks(), shards)
        elif self.hyperparameters.threshold == "bounded_split":
            k1 = bounded_split_threshold(self.average_chunks(), float(self.loss_scale), shards)
        if k1 is not None:
            self.k1.fill_(k1)

    def _record_learned_early(self) -> None:
        for rows in self.table.chunks():
            average = self._average_losses(rows)
            flags = torch.where(average < self.k1, YES, NO)
            flags = torch.where(average.isnan(), NOT_KNOWN, flags)
            self.table.learned_early[rows] = flags.to(torch.int8)

    def _refresh_epoch_terms(self, epoch: int) -> None:
        terms = epoch_terms(self.hyperparameters, self.variant, epoch)
        self.suppression.fill_(terms.suppression)
        self.rise.fill_(terms.rise)
        self.gradient_share.fill_(terms.gradient_share)

    def forward(self, losses: Tensor, index: Any) -> Tensor:
        """Weighted loss of a batch.

        Args:
            losses: shape (batch,), the task loss of each sample, not reduced.
            index: shape (batch,), integer, which sample each row is; with `ids`, their names.

        Returns:
            A scalar, or shape (batch,) with ``reduction="none"``; float32 at least. In several
            processes the scalars are scaled so that their mean is the loss of the whole batch.
        """
        if self.ids is not None:
            index = self.rows_of(index) if self.training else torch.arange(len(losses))
        index = as_sample_index(index, losses)
        if not self.training:
            return F.reduce(losses, self.reduction)
        batch = self.whole_batch(losses, index)
        if len(batch.losses) == 0:
            return F.reduce(losses, self.reduction)
        value, slope = self._visit(batch)
        # Value of the averaged loss, derivative of the fresh one: the bracket is zero, or NaN where
        # the loss is not finite, which lets a gradient scaler see it.
        fresh = F.at_least_float32(losses)
        value, slope = value.to(fresh), slope.to(fresh)
        rows = value + slope * (fresh - fresh.detach())
        if self.processes.count == 1 or self.reduction == "none":
            return F.reduce(rows, self.reduction)
        # The processes' gradients are averaged afterwards, which divides by their number.
        divisor = len(batch.losses) if self.reduction == "mean" else 1
        return rows.sum() * (self.processes.count / divisor)

    @torch.no_grad()
    def _visit(self, batch: Gathered) -> tuple[Tensor, Tensor]:
        """Bring the state up to date with a batch; gives the own rows' values and ``dL/dl``."""
        table, values = self.table, self.hyperparameters
        visits = F.group_visits(batch.losses, batch.index)
        place = table.shards.place(batch.index)

        old_history = table.history.index_select(0, place.rows)
        old_count = table.visits.index_select(0, place.rows)
        counts = place.take(visits.counts)
        history = F.update_history(old_history, place.take(visits.mean_loss), values.history_decay)
        history = torch.where(counts, history, old_history)
        count = (old_count.float() + counts).clamp(max=MAX_VISITS)
        table.history.index_copy_(0, place.rows, history)
        table.visits.index_copy_(0, place.rows, count.to(old_count.dtype))
        average = self._average(history, count)

        if self.variant == "released":  # whose k1 follows the averages
            averages = table.shards.whole_batch(average, place, len(batch.losses))
            averages = torch.where(batch.losses.isfinite(), averages, batch.losses)
            visits = F.group_visits(averages, batch.index)
        self.track(visits)
        log_weight = table.log_weight.index_select(0, place.rows)
        if self.variant == "released":
            value, slope = self._released_rows(average, log_weight, visits, place)
        else:
            terms = F.loss_terms(
                average, log_weight, self.threshold_now, self.suppression, values.regularization
            )
            moved = log_weight - self.step_size * terms.weight_gradient
            self._store_weights(log_weight, moved, counts, place)
            value, slope = terms.value, terms.model_gradient
        return table.shards.own_answers(value, slope, place, batch)

    def _released_rows(
        self, average: Tensor, log_weight: Tensor, visits: F.Visits, place: Placement
    ) -> tuple[Tensor, Tensor]:
        """As the released code: momentum, the gradient of the batch mean, a summed regulariser."""
        number = visits.number.clamp(min=1)
        # The regulariser is summed over the batch and added to a mean, so a row carries it
        # `number` times; as 0.5 * lambda, where the paper has lambda.
        regularization = 0.5 * self.hyperparameters.regularization * number
        terms = F.loss_terms(
            average, log_weight, self.threshold_now, self.suppression, regularization
        )
        counts = place.take(visits.counts)
        old_velocity = self.table.velocity.index_select(0, place.rows)
        velocity = RELEASED_MOMENTUM * old_velocity + terms.weight_gradient / number
        velocity = torch.where(counts, velocity, old_velocity)
        self.table.velocity.index_copy_(0, place.rows, velocity)
        self._store_weights(log_weight, log_weight - self.step_size * velocity, counts, place)
        return terms.value, terms.model_gradient * self.gradient_share

    def _store_weights(self, old: Tensor, moved: Tensor, counts: Tensor, place: Placement) -> None:
        lowest, highest = (math.log(bound) for bound in self.hyperparameters.weight_range)
        log_weight = torch.where(counts, moved.clamp(lowest, highest), old)
        self.table.log_weight.index_copy_(0, place.rows, log_weight)

    def _average(self, history: Tensor, visits: Tensor) -> Tensor:
        decay = self.hyperparameters.history_decay
        if self.variant == "released":  # corrected by the epoch, whoever was visited how often
            return F.average_loss(history, self.epoch_count.float(), decay)
        return F.average_loss(history, visits.float(), decay)

    @property
    def sample_weights(self) -> Tensor:
        """``delta`` of every sample, shape (num_samples,): 1 is neutral, large is distrusted."""
        self.grow_with_ids()
        return self.table.whole(self.table.log_weight).exp()

    @property
    def average_losses(self) -> Tensor:
        """``Avg(l)`` of every sample, shape (num_samples,); NaN where never visited."""
        self.grow_with_ids()
        return self.table.whole(self._average_losses(slice(None)))

    def _average_losses(self, rows: slice) -> Tensor:
        visits = self.table.visits[rows]
        average = self._average(self.table.history[rows], visits)
        return torch.where(visits > 0, average, torch.nan)

    def verdicts(self, rule: Rule = "calibrated", p_incorrect: Tensor | None = None) -> Verdicts:
        """Call every sample easy, hard or incorrect. Ask after the last epoch.

        Args:
            rule: ``"calibrated"`` calls a label incorrect where the estimated probability exceeds
                0.5; ``"threshold"``, the paper's rule, where ``Avg(l) > k2``. Under both, easy are
                the samples whose ``Avg(l)`` was below ``k1`` when stage 1 ended.
            p_incorrect: shape (num_samples,): probabilities that someone knows better than the
                losses tell, such as `discrimloss audit` from predictions. Not for sharded tables.
        """
        # What judges labels lies above the core, which knows it by its public address only.
        import discrimloss

        verdicts: Verdicts = discrimloss.judge_criterion(self, rule, p_incorrect)
        return verdicts

    def average_chunks(self) -> Iterator[Tensor]:
        """``Avg(l)`` of this process's samples, a chunk of the table at a time."""
        return (self._average_losses(rows) for rows in self.table.chunks())

    def extra_repr(self) -> str:
        """What `repr` shows."""
        values = ", ".join(
            f"{name}={getattr(self.hyperparameters, name)!r}"
            for name in self.hyperparameters.__dataclass_fields__
        )
        return f"num_samples={self.num_samples}, variant={self.variant!r}, {values}"
