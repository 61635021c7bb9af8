"""The task loss alone: cross-entropy, or "No CL" for a regression."""

from __future__ import annotations

from discrimloss.loss import DiscrimLoss
from discrimloss.methods.base import Batch, Method, Setting, StepResult, methods
from discrimloss.methods.processes import gather_rows
from discrimloss.verdicts import Verdicts


@methods.register("plain")
class Plain(Method):
    """The task loss alone, with the loss history of the samples looked on.

    Args:
        setting: what may be known of the task.
        history: whether to keep the samples' average losses, which cost little and tell wrong
            labels from right ones as far as the task loss alone can.
    """

    def __init__(self, setting: Setting, *, history: bool = True) -> None:
        super().__init__(setting)
        self.history: DiscrimLoss | None = None
        if history:  # weights that cannot move: it looks on
            self.history = DiscrimLoss(setting.num_samples, setting.epochs, weight_range=(1.0, 1.0))

    def training_step(self, batch: Batch) -> StepResult:
        """The mean task loss."""
        output = self.networks[0](batch.inputs)
        losses = self.setting.task_losses(output, batch.target)
        if self.history is not None:
            self.history(gather_rows(losses.detach()), gather_rows(batch.index))
        return StepResult(losses.mean(), losses.detach(), output.detach())

    def begin_epoch(self, epoch: int) -> None:
        """Tell the history which epoch it is."""
        if self.history is not None:
            self.history.set_epoch(epoch)

    def verdicts(self) -> Verdicts | None:
        """From the loss history alone."""
        return None if self.history is None else self.history.verdicts()
