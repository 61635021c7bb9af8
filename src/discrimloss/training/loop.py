"""The training loop: epochs of steps, with evaluation and checkpoints."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from torch import Tensor

from discrimloss.data.base import Prepare, Split
from discrimloss.errors import DiscrimLossError
from discrimloss.state.processes import Processes, process_count
from discrimloss.training.batches import PassParts, epoch_batches, load_batches, own_slice
from discrimloss.training.checkpoint import load_checkpoint, read_progress, save_checkpoint
from discrimloss.training.config import RunConfig
from discrimloss.training.evaluation import evaluate, metric_name, score_sum
from discrimloss.training.interruption import Interrupted, StopRequest
from discrimloss.training.methods.base import Batch, Method, StepResult
from discrimloss.training.mixup import mixed
from discrimloss.training.optimization import (
    build_optimizer,
    learning_rate_factor,
    set_learning_rate,
)
from discrimloss.training.records import History, Row
from discrimloss.training.run_directory import RunDirectory
from discrimloss.training.sample_traces import SampleTraces, StepRecorder
from discrimloss.training.seeds import derived_generator
from discrimloss.training.training_dynamics import TrainingDynamics


class NonFiniteLossError(DiscrimLossError):
    """A loss became NaN or infinite. The message names the samples and the step."""


class Observer(Protocol):
    """Called during a run, for example to show its progress."""

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        """Called after a step, with the number of its samples."""

    def on_epoch(self, row: Row) -> None:
        """Called after an epoch, with its row of the history."""


class SilentObserver:
    """An observer that does nothing."""

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        """Do nothing."""

    def on_epoch(self, row: Row) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Splits:
    """The data of a run for the loop, with given labels and without clean ones."""

    train: Split
    test: Split | None
    validation: Split | None
    prepare: Prepare
    tokenize: Callable[[Any], Any] | None = None


@dataclass
class Progress:
    """The progress of a run. All of it is in the checkpoint."""

    epoch: int = 1
    """The current epoch, from 1."""
    step: int = 0
    """Number of finished steps of the epoch."""
    rows: int = 0
    """Number of finished samples of the epoch."""
    loss_sum: float = 0.0
    score_sum: float = 0.0
    seconds: float = 0.0
    history: list[Row] = field(default_factory=list)


class TrainingLoop:
    """Trains a method, in this process and possibly others.

    Args:
        config: the settings of the run.
        method: the method.
        splits: the data.
        accelerator: the device, the precision and the other processes.
        directory: directory for history and checkpoints.
        stop: whether a signal has requested the run to stop.
        observer: called after every step and every epoch.
        recorders: record losses and outputs, in addition to the traces.
    """

    def __init__(
        self,
        config: RunConfig,
        method: Method,
        splits: Splits,
        accelerator: Accelerator,
        directory: RunDirectory,
        stop: StopRequest,
        observer: Observer,
        recorders: Sequence[StepRecorder] = (),
    ) -> None:
        self.config = config
        self.method = method
        self.splits = splits
        self.accelerator = accelerator
        self.directory = directory
        self.stop = stop
        self.observer = observer
        self.progress = Progress()
        _keep_sample_state_out_of_broadcasts(method)
        optimizer = build_optimizer(config.optimizer, method.trainable_parameters())
        self.wrapped, self.optimizer = accelerator.prepare(method, optimizer)
        self.recorders = list(recorders)
        self.traces: SampleTraces | None = None
        self.dynamics: TrainingDynamics | None = None
        if len(splits.train) <= config.traced_samples:
            place = directory.path if directory.is_kept else None
            classes, device = method.setting.num_classes, accelerator.device
            self.traces = SampleTraces(len(splits.train), classes, place, device)
            self.recorders.append(self.traces)
            if classes is not None:
                self.dynamics = TrainingDynamics(splits.train.target, device)
                self.recorders.append(self.dynamics)
        accelerator.register_for_checkpointing(*self.recorders)
        self._parts: PassParts | None = None
        if config.epochs_end_with_passes and config.steps_per_epoch is not None:
            self._parts = PassParts(len(splits.train), config.batch_size, config.steps_per_epoch)
        self._is_regression = splits.train.target.is_floating_point()
        self._started = self._last_saved = time.perf_counter()
        self._seconds_before = 0.0
        # On the device, so that no step synchronises with the host.
        self._sums = torch.zeros(2, dtype=torch.float64, device=accelerator.device)
        self._unchecked: tuple[int, Tensor, StepResult] | None = None

    def resume(self, checkpoint: Any) -> None:
        """Restore the state of a checkpoint."""
        self.progress = Progress(**read_progress(checkpoint))
        load_checkpoint(self.accelerator, checkpoint)
        progress = self.progress
        self._seconds_before = progress.seconds
        if self.accelerator.is_main_process:  # the saved value is the sum over all processes
            sums = torch.tensor([progress.loss_sum, progress.score_sum], dtype=torch.float64)
            self._sums.copy_(sums)
        else:
            progress.rows = 0

    def run(self) -> list[Row]:
        """Train to the last epoch, and return the history."""
        history = History(self.directory, self.config.tensorboard, self.progress.history)
        if history.rows and self.accelerator.is_main_process:
            history.write()  # the run may have been killed between a checkpoint and its row
        self.stop.may_wait = True
        try:
            while self.progress.epoch <= self.config.epochs:
                self._train_epoch()
                row = self._end_epoch()
                if self.accelerator.is_main_process:
                    history.add(row)
                self.observer.on_epoch(row)
                if self.progress.epoch <= self.config.epochs and self._agree(bool(self.stop)):
                    raise self._interrupted(f"after epoch {self.progress.epoch - 1}")
        finally:
            self.stop.may_wait = False
            history.close()
        return self.progress.history

    def finish(self) -> float:
        """Pass the final outputs to the recorders, and return the training score.

        Call this after `run`.
        """

        def show_recorders(index: Tensor, output: Tensor) -> None:
            for recorder in self.recorders:
                recorder.record_final(index, output)

        fit = self.evaluate(self.splits.train, show_recorders)
        if self.accelerator.is_main_process:
            for recorder in self.recorders:
                recorder.finish(self.method)
        return fit

    def _train_epoch(self) -> None:
        config, progress = self.config, self.progress
        epoch = progress.epoch
        self.method.train()
        self.method.begin_epoch(epoch)
        if self._parts is None:
            everyones = epoch_batches(
                self._order_of_pass, epoch, config.batch_size, config.steps_per_epoch
            )
        else:
            everyones = self._parts.batches(self._order_of_pass, epoch)
        batches = own_slice(everyones, self.accelerator.process_index, process_count())
        remaining = batches[progress.step :]
        loader = load_batches(
            self.splits.train,
            remaining,
            self.accelerator.device,
            self.splits.tokenize,
            config.workers,
        )
        for batch in loader:
            self._step(batch, len(batches))
            self.observer.on_step(
                epoch, progress.step, len(batches), len(batch.index) * process_count()
            )
            if progress.step < len(batches):
                self._stop_or_save_if_requested()
        self._check_before_saving()

    def _order_of_pass(self, number: int) -> Tensor:
        generator = derived_generator(self.config.seed, "order", number)
        return self.method.sample_order(number, generator)

    def _step(self, batch: Batch, steps: int) -> None:
        progress, config = self.progress, self.config
        passed = progress.epoch - 1 + progress.step / steps
        if self._parts is not None:
            passed = self._parts.passed(progress.epoch, progress.step)
        factor = learning_rate_factor(config.schedule, passed, config.epochs)
        set_learning_rate(self.optimizer, config.optimizer.learning_rate * factor)
        place = (progress.epoch, progress.step, self.accelerator.process_index)
        generator = derived_generator(
            config.seed, "augmentation", *place, device=batch.target.device
        )
        batch = replace(batch, inputs=self.splits.prepare(batch.inputs, generator))
        if config.mixup > 0.0:
            batch = mixed(batch, config.mixup, generator)

        result: StepResult = self.wrapped(batch)
        self._check_last_loss()  # of the previous step: does not wait for this one
        self._unchecked = (progress.step + 1, batch.index, result)
        self.accelerator.backward(result.loss)
        self.method.after_backward()
        if config.optimizer.clip_norm is not None:
            self.accelerator.clip_grad_norm_(
                self.method.trainable_parameters(), config.optimizer.clip_norm
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.method.after_step()

        self._sums[0] += result.losses.sum(dtype=torch.float64)
        self._sums[1] += score_sum(result.output.float(), batch.target)
        for recorder in self.recorders:
            recorder.record_step(progress.epoch, batch.index, result)
        progress.rows += len(batch.index)
        progress.step += 1

    def _check_last_loss(self) -> None:
        if self._unchecked is None:
            return
        step, index, result = self._unchecked
        self._unchecked = None
        if bool(result.loss.isfinite()):
            return
        which = _named(index[~result.losses.isfinite()].tolist())
        value, epoch = float(result.loss.detach()), self.progress.epoch
        raise NonFiniteLossError(
            f"the loss became {value} in epoch {epoch}, step {step} "
            f"(from {which}): lower optimizer.learning_rate or check these samples"
        )

    def _check_before_saving(self) -> None:
        """Check the last loss and the parameters. A gradient may overflow with a finite loss."""
        last = self._unchecked
        self._check_last_loss()
        if last is None or all(bool(p.isfinite().all()) for p in self.method.parameters()):
            return
        step, index, _ = last
        raise NonFiniteLossError(
            f"the parameters became NaN or infinite in epoch {self.progress.epoch}, step {step} "
            f"(with {_named(index.tolist())}): lower optimizer.learning_rate or check these "
            "samples"
        )

    def _stop_or_save_if_requested(self) -> None:
        """Stop or save a checkpoint between two steps. All processes make the same decision."""
        is_stopping = self._agree(bool(self.stop))
        overdue = time.perf_counter() - self._last_saved > self.config.checkpoint_seconds
        if is_stopping or self._agree(overdue):
            self._check_before_saving()
            self._save()
        if is_stopping:
            step = f"in epoch {self.progress.epoch}, after step {self.progress.step}"
            raise self._interrupted(step)

    def _agree(self, wish: bool) -> bool:
        """Return whether `wish` is true in any process."""
        if process_count() == 1:
            return wish
        return bool(Processes().largest(torch.tensor(int(wish), device=self.accelerator.device)))

    def _interrupted(self, where: str) -> Interrupted:
        return Interrupted(self.stop.signal_number or signal.SIGTERM, where)

    def _end_epoch(self) -> Row:
        progress = self.progress
        metric = metric_name(self._is_regression)
        loss_sum, score, rows = self._totals()
        row: Row = {
            "epoch": progress.epoch,
            "train_loss": loss_sum / max(rows, 1),
            f"train_{metric}": score / max(rows, 1),
        }
        for name, split in (("test", self.splits.test), ("validation", self.splits.validation)):
            if split is not None:
                row[f"{name}_{metric}"], row[f"{name}_loss"] = self._score_and_loss(split)
        row["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        row |= self.method.log_values()
        row["seconds"] = round(self.seconds, 3)
        self.method.end_epoch(row)

        for recorder in self.recorders:
            is_main = self.accelerator.is_main_process
            recorder.end_epoch(progress.epoch, self.method, is_main_process=is_main)
        progress.history.append(row)
        progress.epoch, progress.step, progress.rows = progress.epoch + 1, 0, 0
        self._sums.zero_()
        self._save()
        return row

    def _score_and_loss(self, split: Split) -> tuple[float, float]:
        """Return mean score and mean task loss of the current predictions."""
        total = torch.zeros((), dtype=torch.float64, device=self.accelerator.device)

        def add_losses(index: Tensor, output: Tensor) -> None:
            target = split.target[index.to(split.target.device)].to(output.device)
            total.add_(self.method.setting.task_losses(output, target).sum(dtype=torch.float64))

        score = self.evaluate(split, add_losses)
        return score, float(Processes().total(total)) / max(len(split), 1)

    def _totals(self) -> tuple[float, float, int]:
        """Return sums of losses, scores and samples of the epoch so far, over all processes."""
        totals = torch.cat([self._sums, self._sums.new_tensor([self.progress.rows])])
        loss_sum, score, rows = Processes().total(totals).tolist()
        return loss_sum, score, int(rows)

    def evaluate(self, split: Split, take: Callable[[Tensor, Tensor], None] | None = None) -> float:
        """Return the mean score of the predictions. `take` is called with those of each batch."""
        with self.accelerator.autocast():
            return evaluate(
                self.method,
                split,
                self.splits.prepare,
                self.config.eval_batch_size,
                self.accelerator.device,
                self.splits.tokenize,
                self.config.workers,
                take,
            )

    @property
    def seconds(self) -> float:
        """The duration of the run without interruptions."""
        return self._seconds_before + time.perf_counter() - self._started

    def _save(self) -> None:
        if not self.directory.is_kept:
            return
        loss_sum, score, rows = self._totals()
        saved = replace(self.progress, loss_sum=loss_sum, score_sum=score, rows=rows)
        saved.seconds = self.seconds
        for recorder in self.recorders:
            recorder.share()
        save_checkpoint(self.accelerator, self.directory, asdict(saved))
        self._last_saved = time.perf_counter()


def _named(samples: list[int]) -> str:
    if not samples:
        return "no single sample"
    named = ", ".join(map(str, samples[:10])) + (", …" if len(samples) > 10 else "")
    return f"sample{'s' * (len(samples) > 1)} {named}"


def _keep_sample_state_out_of_broadcasts(method: Method) -> None:
    """Exclude sample state from broadcasts: it is already equal in all processes."""
    own = {name for name, _ in method.named_buffers() if not name.startswith("networks.")}
    method._ddp_params_and_buffers_to_ignore = own  # type: ignore[assignment]
