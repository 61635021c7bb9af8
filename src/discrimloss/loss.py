"""DiscrimLoss: a learned weight for every training sample, and a moving threshold.

A batch passes through `given_batch`, `DiscrimLoss.forward` and `batch_visit`. They use the
equations in `functional`, and the checks and collectives in `state.exchange`.
"""

from __future__ import annotations

import zlib
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrimloss import functional as F
from discrimloss.batch_visit import visit, visit_with_labels
from discrimloss.criterion_state import CriterionState, Task
from discrimloss.epoch_end import end_epoch
from discrimloss.given_batch import GivenBatch, given_batch
from discrimloss.hyperparameters import (
    Threshold,
    Variant,
    require_epoch,
    require_reduction,
    require_whole_number,
    resolve_hyperparameters,
)
from discrimloss.judge import judge_samples
from discrimloss.loss_kind import kind_of_losses
from discrimloss.mixed_samples import other_rows, weighted_others
from discrimloss.reduction import reduced, with_gradient
from discrimloss.state.batch_checks import as_sample_index, check_losses
from discrimloss.state.sample_ids import SampleIds

if TYPE_CHECKING:
    from discrimloss.judging.verdicts import Rule, Verdicts


class DiscrimLoss(CriterionState):
    """Reduces the influence of wrong labels by a learned weight for each training sample.

    `DiscrimLoss` stands between an unreduced task loss and `backward()`. It averages the losses of
    each sample over the epochs, compares the average with a threshold, and learns a weight for the
    sample. The gradient of a sample is divided by its weight.

    There are three forms:

    - Losses and an index alone give the loss of the paper.
    - With `num_classes` and the targets of each batch, each sample is compared with its own class,
      and weights act only once the network memorises labels.
    - With the logits as well, labels are corrected by the network's predictions (`docs/loss.md`).

    On clean data and with rare classes, the second and third form are as good as the plain task
    loss, or nearly so. In eval mode the module returns the task loss and updates no state.

    A step with targets under `torch.compile` is compiled again when a run enters another phase
    (`label_correction`), at most three times.

    With `torch.distributed` initialised, each process passes its own rows of the batch. All
    processes then have the same state as a single process that sees the whole batch
    (`docs/distributed.md`).

    Args:
        num_samples: Number of training samples. Indices run from 0 to ``num_samples - 1``.
        num_classes: Number of classes, for batches with targets.
        task: ``"classification"``, or ``"regression"`` for batches with regression targets.
            Regression needs no `num_classes`.
        epochs: Length of the training run. It sets the defaults of the other hyperparameters
            (`docs/defaults.md`).
        threshold: Base threshold ``k1``. ``"bounded_split"`` splits the average losses of all
            samples in two once per epoch, and is robust to their tails. ``"split"`` is the plain
            split, ``"ema"`` a moving average of the batch means, ``"mean"`` the mean of all losses
            seen, and a number a constant.
        switch_gain: ``a`` of ``k_dyn = (a tanh(p (e - q)) + a + 1) k1``. The threshold ends at
            ``(1 + 2a) k1``.
        switch_rate: ``p`` of the same formula: how fast the threshold rises.
        switch_epoch: ``q`` of the same formula: the epoch at the middle of the rise.
        suppressed_epochs: Epochs of early suppression, ``e_s``. 0 turns it off.
        regularization: Strength of the pull of the weights towards 1, ``lambda``.
        history_decay: Decay of the historical loss, ``rho``. 0 turns the history off.
        weight_lr: Step size of the weights, ``tau``.
        relative_weight_lr: Step size of the weights times the mean loss of the first epoch. It
            does not depend on the unit of the loss. Used if `weight_lr` is not given.
        weight_range: Bounds of the weights ``delta``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        steps_per_epoch: Training batches per epoch, for loops that count steps. The next epoch
            then begins automatically, and `set_epoch` is not called. Under `torch.compile`, steps
            are not counted.
        variant: ``"paper"``, or ``"released"`` for the form of the authors' released code.
        ids: Ids of the samples, instead of `num_samples`. Batches then contain ids instead of
            indices, and the table grows with new ids.
        sharded: Whether each process keeps only its own rows of the table, for tables that are too
            large for one process. Initialise `torch.distributed` first.
        process_group: The processes that share the table. By default all processes.

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
        require_reduction(reduction)
        if steps_per_epoch is not None:
            require_whole_number("steps_per_epoch", steps_per_epoch, 1)
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
            num_samples,
            epochs,
            hyperparameters,
            variant,
            num_classes=num_classes,
            task=task,
            steps_per_epoch=steps_per_epoch,
            ids=ids,
            sharded=sharded,
            process_group=process_group,
        )
        self.reduction = reduction
        self._last_losses: Tensor | None = None
        options = f"{variant} {hyperparameters} {self.tracker.groups} {task}"
        self._options_checksum = zlib.crc32(options.encode())

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

        It may be negative, because losses are compared with a threshold. Log `task_loss` instead.

        Args:
            losses: Unreduced task loss of each sample, shape (batch,).
            index: Index of each sample, shape (batch,). With `ids`, the ids. Not needed in eval
                mode.
            target: Class or regression target of each sample, shape (batch,). Needs `num_classes`
                or ``task="regression"``; every training batch must then have targets.
            logits: Output of the network, shape (batch, num_classes), with its gradient.
            predictions: Output of the network for regression targets, shape (batch,).

        Returns:
            A scalar, or shape (batch,) with ``reduction="none"``; at least float32. In several
            processes the scalars are scaled so that their mean is the loss of the whole batch.
        """
        if not self.training:
            check_losses(losses)
            if self.table.ids is None and index is not None:
                as_sample_index(index, losses)
            self._last_losses = losses.detach()
            return F.reduce(losses, self.reduction)
        with self._new_names():
            given = given_batch(self, losses, index, target, logits, predictions)
            is_known = self.labels is not None or self.watch.loss_kind is not None
            if not (is_known or torch.compiler.is_compiling()) and losses.grad_fn is not None:
                self.watch.loss_kind = kind_of_losses(losses)
            self._last_losses = losses.detach()
            return self._learn(losses, given)

    def _new_names(self) -> AbstractContextManager[None]:
        """Return a context in which new ids are kept only if the batch is accepted."""
        return nullcontext() if self.table.ids is None else self.table.names_of_accepted_batches()

    def _learn(self, losses: Tensor, batch_given: GivenBatch) -> Tensor:
        """Update the state of the samples of a training batch, and return its loss."""
        index, target, outputs, given = batch_given
        table, labels = self.table, self.labels
        device, words = table.history.device, None
        if labels is not None and given is not None and self.processes.count > 1:
            words = labels.packed(given)
        batch = table.shards.collect(
            losses, index, table.num_samples, device, self._agreement, words
        )
        begin_step = partial(self._begin_step, batch.losses.shape[0])
        if batch.losses.shape[0] == 0:
            begin_step()
            return F.reduce(losses, self.reduction)
        fresh = F.at_least_float32(losses)
        if labels is None or target is None or given is None:
            begin_step()
            value, slope = visit(self, batch)
            return with_gradient(self.reduction, fresh, value.to(fresh), slope.to(fresh), batch)
        given = given.to(device) if batch.extra is None else labels.unpacked(batch.extra)
        found = visit_with_labels(self, batch, given, begin_step).to(fresh.device)
        rows = labels.rows_to_learn(fresh, found, target.to(fresh.device), outputs)
        return reduced(self.reduction, rows, batch)

    @property
    def task_loss(self) -> Tensor:
        """The mean task loss of the last batch of this process: a detached scalar, for logs."""
        if self._last_losses is None:
            raise ValueError(
                "there was no batch yet: call the criterion first, then read task_loss"
            )
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
        against the target of that sample. The gradient of the other sample is weighted too, but
        its state does not change.

        Args:
            losses: Task loss of each row against the target of the first sample, shape (batch,).
            other_losses: Task loss of each row against the target of the second sample.
            index: Index of the first samples. With `ids`, their ids.
            other_index: Index of the second samples.
            fraction: Fraction of the first samples in the mix, from 0 to 1 (``lambda``).
            target: Targets of the first samples, if the criterion is built for targets.
            other_target: Targets of the second samples.
        """
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"fraction must be from 0 to 1, not {fraction!r}")
        if self.table.shards.several:
            raise ValueError("mixed samples need sharded=False: build DiscrimLoss without sharding")
        if fraction < 0.5:
            losses, other_losses = other_losses, losses
            index, other_index = other_index, index
            target, other_target, fraction = other_target, target, 1.0 - fraction
        with self._new_names():
            rows = None
            if self.training:
                rows = other_rows(self, losses, other_losses, other_index, other_target)
            most = self(losses, index, target=target)
        task_losses = torch.lerp(other_losses.detach(), losses.detach(), fraction)
        self._last_losses = task_losses
        if rows is None:
            return F.reduce(torch.lerp(other_losses, losses, fraction), self.reduction)
        rest = F.reduce(
            weighted_others(self, F.at_least_float32(other_losses), rows), self.reduction
        )
        mix: Tensor = fraction * most + (1.0 - fraction) * rest
        return mix

    def _agreement(self) -> tuple[int, int]:
        """Return the epoch and a hash of options and state. Processes must agree on both."""
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
            end_epoch(self, next_epoch=epoch)
        if self.labels is not None and not has_begun:
            self.labels.correction.begin(self.num_samples)
        self.tracker.start_epoch(epoch)

    def _begin_step(self, rows: int) -> None:
        """Begin the next epoch if steps are counted and the current epoch is complete.

        Args:
            rows: number of rows of the batch in all processes.
        """
        if torch.compiler.is_compiling():
            return
        if self.steps_per_epoch is not None:
            if self.steps >= self.steps_per_epoch:
                self.set_epoch(self.epoch + 1)
            self.steps += 1
        if rows:
            self.watch.count(rows, self.table)

    def verdicts(self, rule: Rule = "calibrated", p_incorrect: Tensor | None = None) -> Verdicts:
        """Classify every sample as easy, hard, undecided or incorrect, after the last epoch.

        Args:
            rule: ``"calibrated"`` calls a label incorrect if its estimated probability of being
                wrong exceeds 0.5. ``"threshold"``, the rule of the paper, does so if
                ``Avg(l) > k2``. In both, a sample is easy if ``Avg(l)`` was below ``k1`` at the end
                of stage 1. If wrong labels cannot be told apart from hard ones, no label is called
                incorrect, ``noise_rate`` is None, and a note explains why.
            p_incorrect: Probability that each label is wrong, shape (num_samples,), from a better
                source than the losses, such as predictions. Not for sharded tables.
        """
        return judge_samples(self, rule, p_incorrect)

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Whether `accelerator.prepare` leaves the criterion as it is.

        This is True in several processes without a GPU. Accelerate would otherwise wrap the
        criterion in `DistributedDataParallel`, which refuses modules without parameters.
        """
        return self.processes.count > 1 and not torch.cuda.is_available()

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, value: bool) -> None:
        """Ignore the mark that Accelerate sets on objects that it has prepared."""
