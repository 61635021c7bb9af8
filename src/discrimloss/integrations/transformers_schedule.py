"""When a criterion in the Hugging Face Trainer begins an epoch, and when its metrics are logged."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from discrimloss.errors import needs_extra
from discrimloss.integrations.metrics import metrics_due
from discrimloss.state.table import MAX_SAMPLES

with needs_extra("transformers"):
    from transformers import TrainerCallback

if TYPE_CHECKING:
    from discrimloss.integrations.transformers import DiscrimTrainerMixin


class SampleSchedule(TrainerCallback):
    """Sets the epoch or iteration of the criterion, and logs metrics at the end of each."""

    def __init__(self, trainer: DiscrimTrainerMixin) -> None:
        self.trainer = trainer
        self.passes = 0
        self.iteration = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Build the criterion, now that the length of the run is known."""
        self.iteration = 0
        self.passes = int(state.epoch or 0)  # finished passes of a resumed run
        steps = self.trainer.steps_per_iteration
        epochs = math.ceil(state.max_steps / steps) if steps else state.num_train_epochs
        if epochs > MAX_SAMPLES:  # a stream of unknown length
            raise ValueError(
                "the training data does not say how long it is, so that epochs cannot be counted: "
                "give steps_per_iteration, which makes an epoch of so many steps"
            )
        self.trainer.begin_criterion(epochs)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count a pass over the data. It is an epoch unless `steps_per_iteration` is set."""
        self.passes += 1
        if not self.trainer.steps_per_iteration:
            self.trainer.start_epoch(self.passes)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin an iteration, if `steps_per_iteration` is set and this is its first step."""
        steps = self.trainer.steps_per_iteration
        if steps and self.iteration != (now := state.global_step // steps + 1):
            self.iteration = now
            self.trainer.start_epoch(now)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Log metrics, if `steps_per_iteration` is set and this is the last step of one."""
        steps = self.trainer.steps_per_iteration
        if steps and (state.global_step % steps == 0 or state.global_step == state.max_steps):
            self._log(control, self.iteration, state)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Log metrics, unless `steps_per_iteration` is set."""
        if not self.trainer.steps_per_iteration:
            self._log(control, self.passes, state)

    def _log(self, control: Any, epoch: int, state: Any) -> None:
        if not self.trainer.has_criterion:  # there was no batch
            return
        with warnings.catch_warnings():  # a first iteration may see every sample twice
            warnings.filterwarnings("ignore", "samples were visited several times, all in epoch 1")
            is_last = state.global_step >= state.max_steps or control.should_training_stop
            every, criterion = self.trainer.log_every, self.trainer.criterion
            values = metrics_due(criterion, epoch, every, is_last=is_last)
        if not values:
            return
        due = control.should_log
        self.trainer.log(values)
        control.should_log = due  # `log` resets this, but the Trainer may still have to log
