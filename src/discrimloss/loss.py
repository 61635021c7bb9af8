"""DiscrimLoss: a learned weight and a moving threshold for every training sample."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

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
from discrimloss.state import (
    MAX_SAMPLES,
    MAX_VISITS,
    NO,
    NOT_KNOWN,
    YES,
    FixedDtypeModule,
    SampleTable,
    as_sample_index,
    checked_index,
)
from discrimloss.thresholds import bounded_split_threshold, split_threshold
from discrimloss.verdicts import Rule, Verdicts, judge_samples

THRESHOLD_DECAY = 0.9  # rho' of the paper: the EMA behind threshold="ema"
RELEASED_MOMENTUM = 0.9
LARGEST_RATIO = 30.0  # of a loss to the usual one, in the loss scale of the first epoch
SMALLEST_SCALE = 1e-15  # keeps step sizes finite where all losses are zero


class DiscrimLoss(FixedDtypeModule):
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
    """

    epoch_count: Tensor
    k1: Tensor
    visits_seen: Tensor
    first_mean_abs: Tensor
    first_mean_square: Tensor
    past_first_epoch: Tensor
    suppression: Tensor
    rise: Tensor
    gradient_share: Tensor
    step_size: Tensor
    threshold_now: Tensor

    def __init__(
        self,
        num_samples: int,
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
    ) -> None:
        super().__init__()
        require_whole_number("num_samples", num_samples, 1, MAX_SAMPLES)
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be one of mean, sum, none, not {reduction!r}")
        self.hyperparameters = resolve_hyperparameters(
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
        self.epochs = epochs
        self.reduction = reduction
        self.variant = variant
        self.table = SampleTable(int(num_samples), with_velocity=variant == "released")

        constant = self.hyperparameters.threshold
        start = 0.0 if isinstance(constant, str) else float(constant)
        self.register_buffer("epoch_count", torch.tensor(1))
        self.register_buffer("k1", torch.tensor(start, dtype=torch.float32))
        self.register_buffer("visits_seen", torch.tensor(0))
        self.register_buffer("first_mean_abs", torch.tensor(0.0, dtype=torch.float32))
        self.register_buffer("first_mean_square", torch.tensor(0.0, dtype=torch.float32))
        self.register_buffer("past_first_epoch", torch.tensor(False))
        # Not saved, because they follow from the rest. Tensors, so that a compiled step need not be
        # compiled again every epoch.
        for name in ("suppression", "rise", "gradient_share", "step_size", "threshold_now"):
            self.register_buffer(name, torch.tensor(0.0, dtype=torch.float32), persistent=False)
        self._past_first_epoch = False
        self._refresh_epoch_terms(1)
        self._refresh_tracked_terms()

    @property
    def epoch(self) -> int:
        """The current epoch, counted from 1."""
        return int(self.epoch_count)

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch begins, counting from 1. Call it before the epoch's first batch."""
        if epoch == 0:
            raise ValueError("epochs count from 1: call set_epoch(epoch + 1) if yours start at 0")
        require_whole_number("epoch", epoch, 1, MAX_SAMPLES)
        epoch = int(epoch)
        if epoch != self.epoch and int(self.visits_seen) > 0:
            self._end_epoch(next_epoch=epoch)
        self.epoch_count.fill_(epoch)
        self._refresh_derived()

    def _refresh_derived(self) -> None:
        """Bring everything that is not saved in line with what is."""
        self._past_first_epoch = bool(self.past_first_epoch)
        if not isinstance(self.hyperparameters.threshold, str):
            self.k1.fill_(self.hyperparameters.threshold)
        self._refresh_epoch_terms(self.epoch)
        self._refresh_tracked_terms()

    def _end_epoch(self, next_epoch: int) -> None:
        last_stage_one_epoch = max(math.floor(self.hyperparameters.switch_epoch), 1)
        if self.epoch <= last_stage_one_epoch < next_epoch:
            self._record_learned_early()
        self.past_first_epoch.fill_(True)
        k1 = None
        if self.hyperparameters.threshold == "split":
            k1 = split_threshold(self._average_chunks())
        elif self.hyperparameters.threshold == "bounded_split":
            k1 = bounded_split_threshold(self._average_chunks(), float(self.loss_scale))
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

    def forward(self, losses: Tensor, index: Tensor) -> Tensor:
        """Weighted loss of a batch.

        Args:
            losses: shape (batch,), the task loss of each sample, not reduced.
            index: shape (batch,), integer, which sample each row is.

        Returns:
            A scalar, or shape (batch,) with ``reduction="none"``; float32 at least.
        """
        index = as_sample_index(index, losses)
        if not self.training or losses.shape[0] == 0:
            return F.reduce(losses, self.reduction)
        # The table stays where it was put; a batch from elsewhere visits it and comes back.
        home = self.k1.device
        rows = checked_index(index.to(home), len(self.table))
        value, slope = self._visit(losses.detach().to(home, torch.float32), rows)
        # Value of the averaged loss, derivative of the fresh one: the bracket is zero, or NaN where
        # the loss is not finite, which lets a gradient scaler see it.
        fresh = F.at_least_float32(losses)
        value, slope = value.to(fresh), slope.to(fresh)
        return F.reduce(value + slope * (fresh - fresh.detach()), self.reduction)

    @torch.no_grad()
    def _visit(self, losses: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Bring the state up to date with a batch; returns each row's value and ``dL/dl``."""
        table, values = self.table, self.hyperparameters
        visits = F.group_visits(losses, index)

        old_history = table.history.index_select(0, index)
        old_count = table.visits.index_select(0, index)
        history = F.update_history(old_history, visits.mean_loss, values.history_decay)
        history = torch.where(visits.counts, history, old_history)
        count = (old_count.float() + visits.counts).clamp(max=MAX_VISITS)
        table.history.index_copy_(0, index, history)
        table.visits.index_copy_(0, index, count.to(old_count.dtype))
        average = self._average(history, count)

        if self.variant == "released":  # whose k1 follows the averages
            visits = F.group_visits(torch.where(losses.isfinite(), average, losses), index)
        # Eager steps skip what would change nothing. A compiled step must not: it would be compiled
        # again, whole model and all, when the answer changes after the first epoch.
        if torch.compiler.is_compiling() or self._tracks_losses:
            self._track_losses(visits)
        log_weight = table.log_weight.index_select(0, index)
        if self.variant == "released":
            return self._released_rows(average, log_weight, visits, index)
        terms = F.loss_terms(
            average, log_weight, self.threshold_now, self.suppression, values.regularization
        )
        moved = log_weight - self.step_size * terms.weight_gradient
        self._store_weights(log_weight, moved, visits, index)
        return terms.value, terms.model_gradient

    def _released_rows(
        self, average: Tensor, log_weight: Tensor, visits: F.Visits, index: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As the released code: momentum, the gradient of the batch mean, a summed regulariser."""
        number = visits.number.clamp(min=1)
        # The regulariser is summed over the batch and added to a mean, so a row carries it
        # `number` times; as 0.5 * lambda, where the paper has lambda.
        regularization = 0.5 * self.hyperparameters.regularization * number
        terms = F.loss_terms(
            average, log_weight, self.threshold_now, self.suppression, regularization
        )
        old_velocity = self.table.velocity.index_select(0, index)
        velocity = RELEASED_MOMENTUM * old_velocity + terms.weight_gradient / number
        velocity = torch.where(visits.counts, velocity, old_velocity)
        self.table.velocity.index_copy_(0, index, velocity)
        self._store_weights(log_weight, log_weight - self.step_size * velocity, visits, index)
        return terms.value, terms.model_gradient * self.gradient_share

    def _store_weights(self, old: Tensor, moved: Tensor, visits: F.Visits, index: Tensor) -> None:
        lowest, highest = (math.log(bound) for bound in self.hyperparameters.weight_range)
        log_weight = torch.where(visits.counts, moved.clamp(lowest, highest), old)
        self.table.log_weight.index_copy_(0, index, log_weight)

    @property
    def _tracks_losses(self) -> bool:
        """Whether ``k1`` or the loss scale still follow the batches."""
        return not self._past_first_epoch or self.hyperparameters.threshold in ("ema", "mean")

    def _track_losses(self, visits: F.Visits) -> None:
        threshold = self.hyperparameters.threshold
        number = visits.number
        if threshold not in ("ema", "mean"):  # nothing to follow but the first epoch
            number = torch.where(self.past_first_epoch, 0, number)
        seen = self.visits_seen + number
        share = number / seen.clamp(min=1)
        if isinstance(threshold, str):
            batch_mean = visits.batch_mean(visits.means)
            if threshold == "mean":
                k1 = torch.lerp(self.k1, batch_mean, share)
            else:
                k1 = torch.lerp(self.k1, batch_mean, 1.0 - THRESHOLD_DECAY)
                k1 = torch.where(self.visits_seen == 0, batch_mean, k1)
            self.k1.copy_(torch.where(number == 0, self.k1, k1))
        self._track_loss_scale(visits, torch.where(self.past_first_epoch, 0.0, share))
        self._refresh_tracked_terms()
        self.visits_seen.copy_(seen)

    def _track_loss_scale(self, visits: F.Visits, share: Tensor) -> None:
        sizes = visits.means.abs()
        # One absurd target among thousands must not set the scale for all of them: a loss counts
        # for no more than a multiple of what is usual, which the first batch has yet to show.
        median = visits.mean_loss.abs().median()
        usual = torch.where(median > 0, median, visits.batch_mean(sizes))
        usual = torch.where(self.visits_seen == 0, usual, self.first_mean_abs)
        sizes = torch.minimum(sizes, LARGEST_RATIO * usual)
        for tracker, seen_now in (
            (self.first_mean_abs, visits.batch_mean(sizes)),
            (self.first_mean_square, visits.batch_mean(sizes.square())),
        ):
            tracker.copy_(torch.lerp(tracker, seen_now, share))

    def _refresh_tracked_terms(self) -> None:
        """``k_dyn``; and ``tau``, absolute where given, else relative to the first epoch's loss."""
        self.threshold_now.copy_(F.dynamic_threshold(self.k1, self.rise))
        values = self.hyperparameters
        if values.weight_lr is not None:
            self.step_size.fill_(values.weight_lr)
        else:
            self.step_size.copy_(values.relative_weight_lr / self.loss_scale)

    def _average(self, history: Tensor, visits: Tensor) -> Tensor:
        decay = self.hyperparameters.history_decay
        if self.variant == "released":  # corrected by the epoch, whoever was visited how often
            return F.average_loss(history, self.epoch_count.float(), decay)
        return F.average_loss(history, visits.float(), decay)

    @property
    def loss_scale(self) -> Tensor:
        """Size of the losses of the first epoch: their mean, each counted by its own size.

        A plain mean would be small for a model that learns within its first epoch, and call its
        ordinary losses large from then on; this one stays near what an untrained model loses.
        """
        scale = self.first_mean_square / self.first_mean_abs.clamp(min=SMALLEST_SCALE)
        return scale.clamp(min=SMALLEST_SCALE)

    @property
    def num_samples(self) -> int:
        """Rows of the table."""
        return len(self.table)

    @property
    def k_dyn(self) -> float:
        """The threshold of the current epoch."""
        return float(self.threshold_now)

    @property
    def k2(self) -> float:
        """Where the threshold ends: ``k1 + 2 a |k1|``."""
        return float(F.dynamic_threshold(self.k1, 2.0 * self.hyperparameters.switch_gain))

    @property
    def sample_weights(self) -> Tensor:
        """``delta`` of every sample, shape (num_samples,): 1 is neutral, large is distrusted."""
        return self.table.log_weight.exp()

    @property
    def average_losses(self) -> Tensor:
        """``Avg(l)`` of every sample, shape (num_samples,); NaN where never visited."""
        return self._average_losses(slice(None))

    def _average_losses(self, rows: slice) -> Tensor:
        visits = self.table.visits[rows]
        average = self._average(self.table.history[rows], visits)
        return torch.where(visits > 0, average, torch.nan)

    def verdicts(self, rule: Rule = "calibrated") -> Verdicts:
        """Call every sample easy, hard or incorrect. Ask after the last epoch.

        Args:
            rule: ``"calibrated"`` calls a label incorrect where the estimated probability exceeds
                0.5; ``"threshold"``, the paper's rule, where ``Avg(l) > k2``. Under both, easy are
                the samples whose ``Avg(l)`` was below ``k1`` when stage 1 ended.
        """
        if self.epoch == 1 and self.epochs != 1 and self.table.all_visited_twice():
            warnings.warn(
                "samples were visited several times, all in epoch 1: "
                "call set_epoch(epoch) at the start of every epoch",
                stacklevel=2,
            )
        return judge_samples(
            averages=self._average_chunks,
            learned_early=self.table.learned_early,
            weights=self.sample_weights,
            loss_scale=float(self.loss_scale),
            thresholds=(float(self.k1), self.k2),
            rule=rule,
        )

    def _average_chunks(self) -> Iterator[Tensor]:
        return (self._average_losses(rows) for rows in self.table.chunks())

    def resize(self, num_samples: int) -> None:
        """Make room for appended data: new samples start fresh, the others keep their state."""
        require_whole_number("num_samples", num_samples, 1, MAX_SAMPLES)
        self.table.resize(int(num_samples))

    def extra_repr(self) -> str:
        """What `repr` shows."""
        values = ", ".join(
            f"{name}={getattr(self.hyperparameters, name)!r}"
            for name in self.hyperparameters.__dataclass_fields__
        )
        return f"num_samples={self.num_samples}, variant={self.variant!r}, {values}"

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        saved = state_dict.get(prefix + "table.history")
        if saved is not None and len(saved) != self.num_samples:  # before anything is overwritten
            grow = f", load, then resize({self.num_samples})"
            raise ValueError(
                f"the saved state holds {len(saved)} samples, this DiscrimLoss {self.num_samples}: "
                f"build it with num_samples={len(saved)}"
                + (grow if len(saved) < self.num_samples else "")
            )
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self._refresh_derived()
