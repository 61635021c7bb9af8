"""DiscrimLoss: a learned weight and a moving threshold for every training sample.

A batch goes through `forward` and `_visit` below, which use the equations in `functional` and the
checks and collectives in `state.exchange`.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from discrimloss import functional as F
from discrimloss.class_labels import ClassLabels
from discrimloss.hyperparameters import (
    Threshold,
    Variant,
    require_epoch,
    require_reduction,
    require_whole_number,
    resolve_hyperparameters,
)
from discrimloss.judge import judge_samples
from discrimloss.known_labels import SMALLEST_GROUP, Given, KnownLabels, Rows
from discrimloss.label_correction import MIXING
from discrimloss.loading import (
    RUN_KEY,
    note_visits,
    rename_keys_of_0_1,
    require_same_options,
    take_up_run,
)
from discrimloss.released import ReleasedForm
from discrimloss.run_watch import RunWatch
from discrimloss.state.exchange import (
    Batch,
    Processes,
    Shards,
    as_sample_index,
    check_losses,
    checked_index,
)
from discrimloss.state.predictions import MOST_CLASSES
from discrimloss.state.sample_ids import SampleIds
from discrimloss.state.table import (
    LATEST_LOSS,
    MAX_SAMPLES,
    MAX_VISITS,
    NO,
    NOT_KNOWN,
    YES,
    SampleTable,
)
from discrimloss.target_ranges import TargetRanges
from discrimloss.tracker import LossTracker

if TYPE_CHECKING:
    from discrimloss.judging.verdicts import Rule, Verdicts

Task = Literal["classification", "regression"]

SCALE_SETTLES = 0.25
"""The loss scale of a regression follows the losses down for this fraction of the run."""
MOST_OF_USUAL = 100.0
"""A loss counts for no more than this multiple of the median in that scale."""

FORMS: dict[Variant, type[F.PaperForm | ReleasedForm]] = {
    "paper": F.PaperForm,
    "released": ReleasedForm,
}


class DiscrimLoss(nn.Module):
    """Weights the loss of each training sample, so that wrong labels lose influence.

    `DiscrimLoss` stands between an unreduced task loss and `backward()`. It averages the losses of
    each sample over the epochs, compares the average with a threshold, and learns a weight for the
    sample. The gradient of a sample is divided by its weight.

    There are three forms. With losses and an index alone it is the loss of the paper. With
    `num_classes` and the targets of each batch, samples are compared with their own class, and
    weights act only once the network memorises labels. With the logits as well, labels are
    corrected by what the network predicts (`docs/loss.md`). The second and third form are never
    far below the plain task loss, also on clean data and with rare classes.

    A compiled step with targets is compiled again when a run enters another phase
    (`label_correction`), at most three times.

    In eval mode the module returns the task loss unchanged and updates no state.

    With `torch.distributed` initialised, each process passes its own rows of the batch. The state
    is then equal in all processes, and equal to that of a single process that sees the whole batch
    (`docs/distributed.md`).

    Args:
        num_samples: Number of training samples. Indices run from 0 to ``num_samples - 1``.
        num_classes: Number of classes, for batches with targets.
        task: ``"classification"``, or ``"regression"`` for batches with regression targets, which
            need no `num_classes`.
        epochs: Length of the training run. The defaults of all other hyperparameters follow from it
            (`docs/defaults.md`).
        threshold: Base threshold ``k1``. ``"bounded_split"`` splits the average losses of all
            samples in two once per epoch, robust against their tails. ``"split"`` is the plain
            split, ``"ema"`` a moving average of the batch means, ``"mean"`` the mean of all losses
            seen, and a number a constant.
        switch_gain, switch_rate, switch_epoch: ``a``, ``p``, ``q`` of
            ``k_dyn = (a tanh(p (e - q)) + a + 1) k1``.
        suppressed_epochs: Epochs of early suppression, ``e_s``; 0 turns it off.
        regularization: Pull of the weights towards 1, ``lambda``.
        history_decay: Decay of the historical loss, ``rho``; 0 turns the history off.
        weight_lr: Step size of the weights, ``tau``.
        relative_weight_lr: Step size of the weights times the mean loss of the first epoch, which
            makes it independent of the unit of the loss. Used if `weight_lr` is not given.
        weight_range: Bounds of the weights ``delta``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        steps_per_epoch: For loops that count steps: after so many training batches the next epoch
            begins by itself, and `set_epoch` is not called. A compiled step does not count.
        variant: ``"paper"``, or ``"released"`` for the form of the authors' released code.
        ids: Names of the samples, instead of `num_samples`. Batches then contain names instead of
            indices, and the table grows with new names.
        sharded: Whether each process keeps only its own rows of the table, for tables that are too
            large for one process. Initialise `torch.distributed` first.
        process_group: The processes that share the table; by default all of them.

    Example:
        >>> import torch
        >>> criterion = DiscrimLoss(num_samples=4, epochs=10)
        >>> criterion.set_epoch(1)
        >>> losses = torch.tensor([0.3, 4.0], requires_grad=True)
        >>> criterion(losses, index=torch.tensor([0, 2])).backward()
        >>> criterion.sample_weights
        tensor([1.0000, 1.0000, 1.6395, 1.0000])
    """

    def __init__(
        self,
        num_samples: int | None = None,
        epochs: int | None = None,
        *,
        num_classes: int | None = None,
        task: Task = "classification",
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
        steps_per_epoch: int | None = None,
        variant: Variant = "paper",
        ids: SampleIds | None = None,
        sharded: bool = False,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        require_reduction(reduction)
        if steps_per_epoch is not None:
            require_whole_number("steps_per_epoch", steps_per_epoch, 1)
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
        self.steps_per_epoch = steps_per_epoch
        self.steps = 0
        """Training batches of the current epoch; counted with `steps_per_epoch` only."""
        self.watch = RunWatch(epochs, passes_are_epochs=steps_per_epoch is None)
        self._last_losses: Tensor | None = None
        self.variant = variant
        self.processes = Processes(process_group)
        self.form = FORMS[variant](self.hyperparameters)
        size = _checked_size(num_samples, ids, sharded)
        self.labels = self._known_labels(num_classes, task, size)
        self.tracker = LossTracker(
            self.form,
            groups=1 if self.labels is None else self.labels.groups,
            smallest_group=0 if self.labels is None else SMALLEST_GROUP,
        )
        self.table = SampleTable(
            size,
            ids=ids,
            with_velocity=self.form.has_velocity,
            more_columns=None if self.labels is None else self.labels.columns,
            optional_columns=None if self.labels is None else self.labels.prediction_columns,
            shards=Shards(self.processes, sharded=sharded),
        )
        options = f"{variant} {self.hyperparameters} {self.tracker.groups} {task}"
        self._options_checksum = zlib.crc32(options.encode())
        self._log_range = tuple(math.log(bound) for bound in self.hyperparameters.weight_range)
        self.register_load_state_dict_pre_hook(rename_keys_of_0_1)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(require_same_options)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(take_up_run)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_post_hook(note_visits)  # type: ignore[no-untyped-call]

    def _known_labels(
        self, num_classes: int | None, task: Task, num_samples: int
    ) -> KnownLabels[Any] | None:
        """What is done with targets, if they will be given."""
        if task not in ("classification", "regression"):
            raise ValueError(f"task must be 'classification' or 'regression', not {task!r}")
        if num_classes is None and task == "classification":
            return None
        if self.variant == "released":
            raise ValueError("variant='released' knows no targets: leave num_classes and task out")
        # The switch is at 0.75 of the run by default, where its length is not given.
        epochs = self.epochs or self.hyperparameters.switch_epoch / 0.75
        if task == "regression":
            if num_classes is not None:
                raise ValueError("a regression has no classes: leave num_classes out")
            return TargetRanges(num_samples, epochs)
        require_whole_number("num_classes", num_classes, 2, MOST_CLASSES)
        return ClassLabels(int(num_classes or 0), num_samples, epochs)

    # ------------------------------------------------------------------ a batch

    def forward(
        self,
        losses: Tensor,
        index: Any = None,
        target: Tensor | None = None,
        logits: Tensor | None = None,
        predictions: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of a batch, and update the state of its samples.

        The value may be negative: losses are compared with a threshold. `task_loss` is for logs.

        Args:
            losses: Task loss of each sample, not reduced, shape (batch,).
            index: Index of each sample, shape (batch,); with `ids`, their names. Not needed in
                eval mode.
            target: Class or regression target of each sample, shape (batch,). Needs `num_classes`
                or ``task="regression"``; then every training batch must have it.
            logits: Output of the network, shape (batch, num_classes), with its gradient.
            predictions: Output of the network for regression targets, shape (batch,).

        Returns:
            A scalar, or shape (batch,) with ``reduction="none"``; at least float32. In several
            processes the scalars are scaled so that their mean is the loss of the whole batch.
        """
        check_losses(losses)
        self._last_losses = losses.detach()
        if self.table.ids is None and (self.training or index is not None):
            index = as_sample_index(index, losses)
        elif self.training:
            index = as_sample_index(self.table.rows_of(index), losses)  # names
        if not self.training:
            return F.reduce(losses, self.reduction)
        if self.steps_per_epoch is not None and not torch.compiler.is_compiling():
            self._count_step(self.steps_per_epoch)
        outputs = self._outputs(target, logits, predictions)
        table, labels = self.table, self.labels
        device, given, words = table.history.device, None, None
        if labels is not None:
            given = labels.given(losses, target, outputs, table)
            words = labels.packed(given) if self.processes.count > 1 else None
        batch = table.shards.collect(
            losses, index, table.num_samples, device, self._agreement, words
        )
        if batch.losses.shape[0] == 0:
            return F.reduce(losses, self.reduction)
        if not torch.compiler.is_compiling():
            self.watch.count(batch.losses.shape[0], table)
        fresh = F.at_least_float32(losses)
        if labels is None or target is None or given is None:
            value, slope = self._visit(batch)
            return self._with_gradient(fresh, value.to(fresh), slope.to(fresh), batch)
        given = given.to(device) if batch.extra is None else labels.unpacked(batch.extra)
        found = self._visit_labels(batch, given).to(fresh.device)
        rows = labels.rows_to_learn(fresh, found, target.to(fresh.device), outputs)
        return self._reduced(rows, batch)

    @property
    def task_loss(self) -> Tensor:
        """The mean task loss of the last batch of this process, for logs: a scalar, detached."""
        if self._last_losses is None:
            raise ValueError("there was no batch yet: task_loss is of the last one")
        return F.reduce(F.at_least_float32(self._last_losses), "mean")

    def mixed(
        self,
        losses: Tensor,
        other_losses: Tensor,
        index: Any,
        other_index: Any,
        fraction: float,
        target: Tensor | None = None,
        other_target: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss of a batch of mixed samples, as mixup and cutmix make them.

        Each mixed row counts as a visit to the sample that makes up most of it, with the loss
        against the target of that sample. The gradient of the other part is weighted too, and
        nothing is concluded from its loss.

        Args:
            losses: Task loss of each row against the target of the first sample, shape (batch,).
            other_losses: Task loss of each row against the target of the second sample.
            index: Index of the first samples; with `ids`, their names.
            other_index: Index of the second samples.
            fraction: Fraction of the first samples in the mix, from 0 to 1 (``lambda``).
            target: Targets of the first samples, where the criterion is built for targets.
            other_target: Targets of the second samples.
        """
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"fraction must be from 0 to 1, not {fraction!r}")
        if self.table.shards.several:
            raise ValueError("mixed samples cannot be trained with a sharded table: sharded=False")
        if fraction < 0.5:
            losses, other_losses = other_losses, losses
            index, other_index = other_index, index
            target, fraction = other_target, 1.0 - fraction
        most = self(losses, index, target=target)
        task_losses = torch.lerp(other_losses.detach(), losses.detach(), fraction)
        self._last_losses = task_losses
        if not self.training:
            return F.reduce(torch.lerp(other_losses, losses, fraction), self.reduction)
        check_losses(other_losses)
        if self.table.ids is not None:
            other_index = self.table.rows_of(other_index)
        rows = checked_index(as_sample_index(other_index, other_losses), self.num_samples)
        rest = F.reduce(self._other_part(F.at_least_float32(other_losses), rows), self.reduction)
        mix: Tensor = fraction * most + (1.0 - fraction) * rest
        return mix

    def _other_part(self, losses: Tensor, rows: Tensor) -> Tensor:
        """The losses of samples that are not visited, each with the weight of its sample."""
        table, labels = self.table, self.labels
        rows = rows.to(table.log_weight.device)
        if labels is None or labels.correction.phase == MIXING:
            log_weight = table.log_weight.index_select(0, rows)
            return F.model_gradient(log_weight, self.tracker.suppression).to(losses) * losses
        return labels.without_held_out(losses, table.role.index_select(0, rows).to(losses.device))

    def _with_gradient(self, losses: Tensor, value: Tensor, slope: Tensor, batch: Batch) -> Tensor:
        """The loss with the value of the averaged losses and the derivative of the new ones."""
        # Zero, or NaN where the loss is not finite, so that a gradient scaler notices.
        change = losses - losses.detach()
        if self.reduction == "none" or len(batch.sizes) > 1:
            return self._reduced(torch.addcmul(value, slope, change), batch)
        # The same with fewer nodes for autograd.
        if self.reduction == "sum":
            return value.sum() + torch.dot(slope, change)
        return value.mean() + torch.dot(slope / value.shape[0], change)

    def _reduced(self, rows: Tensor, batch: Batch) -> Tensor:
        """The loss of the rows of this process."""
        processes = len(batch.sizes)
        if processes == 1 or self.reduction == "none":
            return F.reduce(rows, self.reduction)
        # The gradients of the processes are averaged later, which divides by their number.
        divisor = len(batch.losses) if self.reduction == "mean" else 1
        return rows.sum() * (processes / divisor)

    def _outputs(
        self, target: Tensor | None, logits: Tensor | None, predictions: Tensor | None
    ) -> Tensor | None:
        """The network's output among the arguments, or an error if they do not fit the form."""
        if self.labels is None:
            if target is None and logits is None and predictions is None:
                return None
            raise ValueError(
                "this DiscrimLoss works with losses alone: build it with num_classes=…, or with "
                'task="regression", to give it targets and predictions'
            )
        is_regression = isinstance(self.labels, TargetRanges)
        if (logits if is_regression else predictions) is not None:
            raise ValueError(
                "logits are for classes: give the output of a regression as predictions=…"
                if is_regression
                else "predictions are for a regression: give the output of a classifier as logits=…"
            )
        return predictions if is_regression else logits

    @torch.no_grad()
    def _visit_labels(self, batch: Batch, given: Given[Any]) -> Rows:
        """Update the state with a batch that has targets; what is found of its own rows."""
        labels = self.labels
        assert labels is not None
        visits = F.group_visits(batch.losses, batch.index, lambda: labels.tie_break(given))
        remembered = labels.remembered(batch, self.table)
        batch, given = labels.checked(batch, given, remembered, visits)
        group = labels.group_of(given.target)
        seen = F.of_group(self.tracker.visits_seen, group)
        value, slope = self._visited(batch, visits, group)
        role = labels.visit(batch, given, remembered, self.table, visits, seen)
        if not torch.compiler.is_compiling():
            labels.has_begun = True
        more = labels.more_columns(batch, self.table)
        sent = self.table.shards.send_back(batch, value, slope, role.to(value.dtype), *more)
        return Rows(sent[0], sent[1], sent[2], sent[3:])

    @torch.no_grad()
    def _visit(self, batch: Batch, group: Tensor | None = None) -> tuple[Tensor, ...]:
        """Update history, thresholds and weights with a batch.

        Args:
            batch: The rows of all processes.
            group: Group of each row of the batch; None for a single group.

        Returns:
            The value and ``dL/dl`` of each row of this process.
        """
        visits = F.group_visits(batch.losses, batch.index)
        return self.table.shards.send_back(batch, *self._visited(batch, visits, group))

    def _visited(
        self, batch: Batch, visits: F.Visits, group: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Update history, thresholds and weights; the value and ``dL/dl`` of each local row."""
        table, tracker, values = self.table, self.tracker, self.hyperparameters

        # The history of the samples, and Avg(l).
        rows = batch.table_rows
        old_history = table.history.index_select(0, rows)
        old_count = table.visits.index_select(0, rows)
        losses = batch.local(visits.mean_loss)
        new_history = F.update_history(old_history, losses, values.history_decay)
        history = visits.of_counted(batch, new_history, old_history)
        count = visits.of_counted(batch, old_count.clamp(max=MAX_VISITS - 1).add_(1), old_count)
        table.history.index_copy_(0, rows, history)
        table.visits.index_copy_(0, rows, count)
        average = self.form.average(history, count, tracker.epoch_count)
        self._remember_latest(batch, visits)

        # Thresholds and loss scales. Eager steps skip what would change nothing. A compiled step
        # must not: it would be compiled again when the first epoch is over.
        if torch.compiler.is_compiling() or tracker.is_moving:
            visits = self.form.tracked_visits(visits, average, batch, self)
            self._track(visits, group)
        group = None if group is None else batch.local(group)
        threshold = F.of_group(tracker.threshold_now, group)

        # The loss with the old weights, then one step of the weights.
        log_weight = table.log_weight.index_select(0, rows)
        terms = self.form.terms(average, log_weight, threshold, visits, batch, self)
        moved = log_weight - F.of_group(tracker.step_size, group) * terms.weight_gradient
        moved = visits.of_counted(batch, moved.clamp_(*self._log_range), log_weight)
        table.log_weight.index_copy_(0, rows, moved)
        return terms.value, terms.model_gradient

    def _remember_latest(self, batch: Batch, visits: F.Visits) -> None:
        """Store the losses of this visit: verdicts ask whether they speak against a label now."""
        if self.variant == "released":  # its columns are the released code's
            return
        column, rows = self.table.latest_loss, batch.table_rows
        latest = batch.local(visits.mean_loss).to(column.dtype)
        latest = visits.of_counted(batch, latest, column.index_select(0, rows))
        column.index_copy_(0, rows, latest)

    def _track(self, visits: F.Visits, group: Tensor | None) -> None:
        """Update ``k1``, the loss scales and the terms that follow from them."""
        tracker, values = self.tracker, self.hyperparameters
        old = F.TrackedLosses(
            tracker.k1, tracker.visits_seen, tracker.first_mean_abs, tracker.first_mean_square
        )
        new = F.track_losses(old, visits, group, tracker.past_first_epoch, values.threshold)
        for buffer, value in zip(old, new, strict=True):
            buffer.copy_(value)
        tracker.threshold_now.copy_(F.dynamic_threshold(new.k1, tracker.rise))
        if values.weight_lr is None or tracker.smallest_group:
            scale = F.loss_scale(new.mean_abs, new.mean_square)
            size = F.step_size(scale, new.visits, values, tracker.smallest_group)
            tracker.step_size.copy_(size)

    def _agreement(self) -> tuple[int, int]:
        """Return the epoch, and a fingerprint of what else must be equal in all processes."""
        names = 0 if self.ids is None else self.ids.checksum
        seen = int(self.tracker.visits_seen.sum())
        phase = 0 if self.labels is None else self.labels.correction.phase
        fingerprint = b"%d %d %d" % (names, seen, phase)
        return self.epoch, zlib.crc32(fingerprint, self._options_checksum)

    # ---------------------------------------------------------------- an epoch

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch, counted from 1. Call it before the first batch of every epoch."""
        epoch = require_epoch(epoch)
        has_begun = int(self.tracker.visits_seen.sum()) > 0
        self.watch.begin_epoch(epoch, self.epoch, self.table, has_begun=has_begun)
        self.steps = 0
        if epoch != self.epoch and has_begun:
            self._end_epoch(next_epoch=epoch)
        if self.labels is not None and not has_begun:
            self.labels.correction.begin(self.num_samples)
        self.tracker.start_epoch(epoch)

    def _count_step(self, steps_per_epoch: int) -> None:
        """Begin the next epoch where the current one has had its steps."""
        if self.steps >= steps_per_epoch:
            self.set_epoch(self.epoch + 1)
        self.steps += 1

    def _end_epoch(self, next_epoch: int) -> None:
        """Record which samples were learned in stage 1, and set thresholds from the whole table."""
        if self.labels is not None:
            knew_one_range = bool(self.tracker.visits_seen[1:].sum() == 0)
            self.labels.end_epoch(self.epoch, self.table)
            if isinstance(self.labels, TargetRanges) and knew_one_range:
                self.tracker.spread_first_group()
            if isinstance(self.labels, TargetRanges) and self._is_scale_open():
                self._lower_scales()
        last_of_stage_one = max(math.floor(self.hyperparameters.switch_epoch), 1)
        if self.epoch <= last_of_stage_one < next_epoch:
            for rows in self.table.chunks():
                average = self._average_losses(rows)
                k1 = F.of_group(self.tracker.k1, self.group_chunk(rows))
                flags = torch.where(average < k1, YES, NO)
                flags = torch.where(average.isnan(), NOT_KNOWN, flags)
                self.table.learned_early[rows] = flags.to(torch.int8)
        chunks = None
        if self.labels is not None:
            chunks = [self.labels.groups_of_rows(self.table, rows) for rows in self.table.chunks()]
        self.tracker.end_epoch(self.average_chunks(), chunks, self.table.shards)

    def _is_scale_open(self) -> bool:
        """Whether the loss scale of a regression still follows the losses down."""
        epochs = self.epochs or self.hyperparameters.switch_epoch / 0.75
        return self.epoch <= max(1.0, SCALE_SETTLES * epochs)

    def _lower_scales(self) -> None:
        """Measure the loss scale of a regression again, from the latest losses of all samples.

        They are those of a network that knows at least where the targets lie.
        """
        latest = self.latest_losses().abs()
        seen = latest.isfinite()
        sizes = latest[seen].double()
        sizes = sizes.clamp(max=MOST_OF_USUAL * float(sizes.median()) if len(sizes) else 0.0)
        # One scale for all ranges: the constant prediction loses most at the ends of the targets.
        sums = torch.stack([torch.ones_like(sizes).sum(), sizes.sum(), sizes.square().sum()])
        number, total, squares = self.table.shards.total(sums.cpu()).tolist()
        if number > 0:
            scale = self.tracker.first_mean_abs
            self.tracker.lower_scales(
                torch.full_like(scale, total / number), torch.full_like(scale, squares / number)
            )

    def group_chunk(self, rows: slice) -> Tensor | None:
        """The group of each of some rows of the table; None where there is one group only."""
        return None if self.labels is None else self.labels.groups_of_rows(self.table, rows)

    # ---------------------------------------------------------------- the state

    @property
    def epoch(self) -> int:
        """The current epoch, counted from 1."""
        return int(self.tracker.epoch_count)

    @property
    def k1(self) -> Tensor:
        """The base threshold, a scalar tensor; the mean over the samples if there are groups."""
        return self._over_groups(self.tracker.k1)

    @property
    def k2(self) -> float:
        """The threshold at the end of stage 2, ``k1 + 2 a |k1|``."""
        return float(F.dynamic_threshold(self.k1, 2.0 * self.hyperparameters.switch_gain))

    @property
    def k_dyn(self) -> float:
        """The threshold of the current epoch; the mean over the samples if there are groups."""
        return float(self._over_groups(self.tracker.threshold_now))

    @property
    def loss_scale(self) -> Tensor:
        """The size of the losses in the first epoch, a scalar tensor."""
        return self._over_groups(self.tracker.loss_scale)

    def _over_groups(self, values: Tensor) -> Tensor:
        """The mean of a value of each group, weighted by the visits to it."""
        if len(values) == 1:
            return values[0]
        visits = self.tracker.visits_seen.to(values.dtype)
        return (values * visits).sum() / visits.sum().clamp(min=1)

    @property
    def label_options(self) -> dict[str, Any]:
        """The option `num_classes` or `task` that targets need; empty in the paper's form."""
        if self.labels is None:
            return {}
        if isinstance(self.labels, TargetRanges):
            return {"task": "regression"}
        return {"num_classes": self.labels.groups}

    @property
    def ids(self) -> SampleIds | None:
        """The names of the samples, if they are known by names."""
        return self.table.ids

    @property
    def num_samples(self) -> int:
        """Number of samples, in all processes together."""
        return self.table.num_samples

    @property
    def sample_weights(self) -> Tensor:
        """The weight ``delta`` of each sample, shape (num_samples,): 1 is neutral."""
        self.grow_with_ids()
        return self.table.whole(self.table.log_weight).exp()

    @property
    def average_losses(self) -> Tensor:
        """``Avg(l)`` of each sample, shape (num_samples,); NaN if it was never visited."""
        self.grow_with_ids()
        return self.table.whole(self._average_losses(slice(None)))

    def labels_distrust(self) -> Tensor:
        """How far averaged predictions contradict each target, shape (num_samples,), from 0 to 1.

        It needs predictions. Samples that were never visited have no meaningful value.
        """
        if self.labels is None or not self.table.has_column("predicted_visits"):
            raise ValueError("this DiscrimLoss was given no predictions")
        return self.table.whole(self.labels.distrust(self.table))

    def average_chunks(self) -> Iterator[Tensor]:
        """``Avg(l)`` of the samples of this process, one chunk of the table at a time."""
        return (self._average_losses(rows) for rows in self.table.chunks())

    def latest_losses(self) -> Tensor:
        """The loss of each sample of this process at its latest visit, shape (rows,), float32.

        ``Avg(l)`` where it is not known: in the released form and in states of older versions.
        """
        average = self._average_losses(slice(None))
        if not self.table.has_column(LATEST_LOSS):
            return average
        latest = self.table.latest_loss.float()
        return torch.where(latest.isfinite(), latest, average)

    def _average_losses(self, rows: slice) -> Tensor:
        visits = self.table.visits[rows]
        average = self.form.average(self.table.history[rows], visits, self.tracker.epoch_count)
        return torch.where(visits > 0, average, torch.nan)

    def verdicts(self, rule: Rule = "calibrated", p_incorrect: Tensor | None = None) -> Verdicts:
        """Classify every sample as easy, hard, undecided or incorrect, after the last epoch.

        Args:
            rule: ``"calibrated"`` calls a label incorrect if its estimated probability of being
                wrong exceeds 0.5; ``"threshold"``, the rule of the paper, if ``Avg(l) > k2``. In
                both, a sample is easy if ``Avg(l)`` was below ``k1`` at the end of stage 1. Where
                the run cannot tell, none is incorrect, ``noise_rate`` is None, and a note says why.
            p_incorrect: Probability that each label is wrong, shape (num_samples,), from a better
                source than the losses, such as predictions. Not for sharded tables.
        """
        return judge_samples(self, rule, p_incorrect)

    def resize(self, num_samples: int) -> None:
        """Make room for appended samples, which start fresh. All others keep their state."""
        if self.ids is not None:
            raise ValueError("with ids the table grows by itself: add the new ones to `ids`")
        require_whole_number("num_samples", num_samples, 1, MAX_SAMPLES)
        self.table.resize(int(num_samples))

    def grow_with_ids(self) -> None:
        """Add a row for every name that has none yet."""
        self.table.grow_with_ids()

    def make_fit(self, saved_samples: int, *, has_ids: bool) -> None:
        """Prepare for loading a state of this many samples, or raise an error that says why not."""
        self.table.make_fit(saved_samples, has_ids=has_ids)

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Whether `accelerator.prepare` leaves the criterion as it is.

        It must in several processes without a GPU: Accelerate would wrap the criterion in
        `DistributedDataParallel`, which refuses modules without parameters.
        """
        return self.processes.count > 1 and not torch.cuda.is_available()

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, value: bool) -> None:
        """Ignore the mark that Accelerate sets on what it has prepared."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        run = json.dumps({"options": self.run_options, "steps": self.steps}).encode()
        device = self.table.history.device
        destination[prefix + RUN_KEY] = torch.tensor(list(run), dtype=torch.uint8, device=device)

    @property
    def run_options(self) -> dict[str, Any]:
        """The options that set how the criterion trains, as plain values; saved with the state."""
        values = asdict(self.hyperparameters)
        values["weight_range"] = list(self.hyperparameters.weight_range)
        known = {"epochs": self.epochs, "steps_per_epoch": self.steps_per_epoch}
        return {**known, "variant": self.variant, **values}

    def extra_repr(self) -> str:
        """Return what `repr` shows."""
        values = ", ".join(
            f"{name}={getattr(self.hyperparameters, name)!r}"
            for name in self.hyperparameters.__dataclass_fields__
        )
        known = {"num_samples": self.num_samples, **self.label_options, "variant": self.variant}
        shown = ", ".join(f"{name}={value!r}" for name, value in known.items())
        return f"{shown}, {values}"


def _checked_size(num_samples: int | None, ids: SampleIds | None, sharded: bool) -> int:
    """Return the number of samples to start with."""
    if not isinstance(sharded, bool):
        raise TypeError(f"sharded must be True or False, not {sharded!r}")
    if ids is None:
        require_whole_number("num_samples", num_samples, 1, MAX_SAMPLES)
        return int(num_samples or 0)
    if not isinstance(ids, SampleIds):
        raise TypeError(f"ids must be a SampleIds, not {type(ids).__name__}: SampleIds(ids)")
    if num_samples is not None:
        raise ValueError("give num_samples or ids, not both: ids count themselves")
    return len(ids)
