"""The adapter between the losses of `discrimloss.losses` and the training loop."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from discrimloss.judging.verdicts import Verdicts
from discrimloss.losses.base import IndexedLoss, loss_classes
from discrimloss.losses.sample_state import EpochDraws, loss_history
from discrimloss.options import Option
from discrimloss.registry import keyword_options
from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods


class LossMethod(Method):
    """One network, trained with a loss of `discrimloss.losses`.

    The options are those of the loss. A subclass may add keyword-only arguments. A wrong option
    raises an error before the network is built.

    Args:
        setting: the task.
        options: options of the loss.
    """

    name: ClassVar[str]
    """The registered name of the method."""
    loss_class: ClassVar[type[IndexedLoss]]

    def __init_subclass__(cls) -> None:
        """Append the docstring of the loss, which describes its options."""
        super().__init_subclass__()
        loss_class = cls.__dict__.get("loss_class")
        if loss_class is not None and cls.__doc__ != loss_class.__doc__:
            own, of_loss = inspect.cleandoc(cls.__doc__ or ""), inspect.getdoc(loss_class)
            cls.__doc__ = f"{own}\n\nThe loss, `{loss_class.__name__}`:\n\n{of_loss}"

    def __init__(self, setting: Setting, **options: Any) -> None:
        reason = self.loss_class.needs_classes
        if reason is not None:
            setting.require_classes(self.name, reason)
        with torch.random.fork_rng(devices=[]):  # the loss must not change the network
            loss = build_loss(self.loss_class, setting, options)
        loss.set_targets(setting.target)
        super().__init__(setting, keeps_history=False)
        for module in loss.modules():
            if isinstance(module, EpochDraws):
                module.draw_seed()
        self.loss = loss
        if self.loss.history is None:
            self.history = loss_history(setting.num_samples, setting.epochs)

    def training_step(self, batch: Batch) -> StepResult:
        """Return the loss of the first network's predictions."""
        output = self.networks[0](batch.inputs)
        loss = self.loss(output, batch.target, batch.index)
        return self.result(loss, output, batch)

    def result(self, loss: Tensor, output: Tensor, batch: Batch) -> StepResult:
        """Return the loss, with the task losses and the predictions for the records."""
        with torch.no_grad():
            losses = self.setting.task_losses(output, batch.target)
        return StepResult(loss, losses, output.detach())

    def begin_epoch(self, epoch: int) -> None:
        """Set the epoch of the loss."""
        super().begin_epoch(epoch)
        self.loss.set_epoch(epoch)

    def verdicts(self) -> Verdicts | None:
        """Return the verdicts from the loss history, which the loss or the method records."""
        history = self.loss.history or self.history
        return None if history is None else history.verdicts()

    def sample_scores(self) -> Tensor | None:
        """Return the scores of the loss."""
        return self.loss.sample_scores()

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the loss."""
        return self.loss.hyperparameters()

    def log_values(self) -> dict[str, float]:
        """Return the logged values of the loss."""
        return self.loss.log_values()

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Return the options of the loss and those of the method."""
        return cls.loss_class.options() | keyword_options(cls)


def build_loss(
    loss_class: type[IndexedLoss], setting: Setting, options: dict[str, Any]
) -> IndexedLoss:
    """Build a loss, with the task's values for its constructor."""
    known: dict[str, Any] = {
        "num_samples": setting.num_samples,
        "num_classes": setting.num_classes,
        "epochs": setting.epochs,
        "task_loss": setting.task_losses,
    }
    arguments = inspect.signature(loss_class).parameters
    needed = {name: value for name, value in known.items() if name in arguments}
    return loss_class(**needed, **options)


@cache
def method_of(name: str, loss_class: type[IndexedLoss]) -> type[LossMethod]:
    """Return the method that trains with a loss, with the docstring of the loss."""
    members = {
        "__doc__": loss_class.__doc__,
        "__module__": loss_class.__module__,
        "name": name,
        "loss_class": loss_class,
        "needs": loss_class.needs,
    }
    return type(f"{loss_class.__name__}Method", (LossMethod,), members)


def loss_methods() -> dict[str, type[LossMethod]]:
    """Return a method for every registered loss."""
    return {name: method_of(name, loss_classes.get(name)) for name in loss_classes.names()}


methods.add_source(loss_methods)
