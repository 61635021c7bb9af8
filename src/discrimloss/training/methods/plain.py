"""The task loss alone: cross-entropy, or "No CL" for regression."""

from __future__ import annotations

from typing import Any, ClassVar

from discrimloss.losses.base import IndexedLoss
from discrimloss.losses.cross_entropy import CrossEntropy
from discrimloss.training.methods.base import Setting, methods
from discrimloss.training.methods.loss_method import LossMethod


@methods.register("plain")
class Plain(LossMethod):
    """The task loss alone, with a record of each sample's average loss.

    Args:
        setting: the task.
        history: whether to record the average losses. They cost little, and separate wrong labels
            from correct ones as well as the task loss alone can.
    """

    name: ClassVar[str] = "plain"
    loss_class: ClassVar[type[IndexedLoss]] = CrossEntropy

    def __init__(self, setting: Setting, *, history: bool = True, **options: Any) -> None:
        super().__init__(setting, **options)
        if not history:
            self.history = None
