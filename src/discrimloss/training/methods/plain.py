"""The task loss alone: cross-entropy, or "No CL" for a regression."""

from __future__ import annotations

from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods


@methods.register("plain")
class Plain(Method):
    """The task loss alone, with the loss history of the samples looked on.

    Args:
        setting: what may be known of the task.
        history: whether to keep the samples' average losses, which cost little and tell wrong
            labels from right ones as far as the task loss alone can.
    """

    def __init__(self, setting: Setting, *, history: bool = True) -> None:
        super().__init__(setting, keeps_history=history)

    def training_step(self, batch: Batch) -> StepResult:
        """The mean task loss."""
        output = self.networks[0](batch.inputs)
        losses = self.setting.task_losses(output, batch.target)
        return StepResult(losses.mean(), losses.detach(), output.detach())
