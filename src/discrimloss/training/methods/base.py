"""The base class of methods: networks, a training step, and state for the samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from discrimloss.judging.verdicts import Verdicts
from discrimloss.loss import DiscrimLoss
from discrimloss.losses.sample_state import loss_history
from discrimloss.registry import Registry
from discrimloss.training.repeated_outputs import computed_once

methods: Registry[Callable[..., Any]] = Registry("method", "discrimloss.training.methods")


@dataclass(frozen=True)
class Mixture:
    """The samples that are mixed into the rows of a batch."""

    weight: float
    """Weight of a row's own sample, at least 0.5; the other sample has the rest."""
    target: Tensor
    """Shape (batch,): the labels of the other samples."""
    index: Tensor
    """Shape (batch,): their positions in the training set."""


@dataclass(frozen=True)
class Batch:
    """A batch of training samples, on the training device."""

    inputs: Any
    """The input of a network: a tensor, or a dict of tensors."""
    target: Tensor
    """Shape (batch,): the labels as given."""
    index: Tensor
    """Shape (batch,): the position of each row in the training set."""
    mixture: Mixture | None = None
    """The samples that mixup mixed into the inputs. None without mixup."""


class StepResult(NamedTuple):
    """The result of a training step."""

    loss: Tensor
    """A scalar to differentiate: a mean over the batch, as processes average their gradients."""
    losses: Tensor
    """Shape (batch,), detached: the task loss of each sample, for the records."""
    output: Tensor
    """Detached: the predictions of the first network, for the records."""


@dataclass(frozen=True)
class Setting:
    """The properties of a task that a method may use. Clean labels are not among them."""

    build_network: Callable[[], nn.Module]
    """Returns a newly initialised network at each call."""
    task_losses: Callable[[Tensor, Tensor], Tensor]
    """A function of ``(output, target)`` that returns unreduced losses, shape (batch,)."""
    num_samples: int
    num_classes: int | None
    """None for a regression."""
    epochs: int
    target: Tensor
    """Shape (num_samples,): all given labels."""
    difficulty: Tensor | None = None
    """Shape (num_samples,): the difficulty of each sample, if the dataset has it."""
    has_validation: bool = False
    """Whether held-out samples are evaluated after every epoch."""

    def require_classes(self, method: str, why: str) -> int:
        """Return the number of classes, or raise an error that says why `method` needs them."""
        if self.num_classes is None:
            raise ValueError(
                f"method {method!r} does not support regression: it {why}; "
                "see docs/methods.md for methods that do"
            )
        return self.num_classes


class Method(nn.Module, ABC):
    """A training method. Its keyword-only arguments are the keys of ``[options]``.

    All state is in `state_dict`: parameters, buffers and submodules. The constructor raises a
    `ValueError` for a task or an option that it does not support.

    Args:
        setting: the task.
        num_networks: number of networks that are trained together.
        keeps_history: whether to record the average loss of each sample. This costs little, and
            separates wrong labels from correct ones as well as losses allow.
    """

    needs: ClassVar[str] = "nothing"
    """Information beyond the labels that the method needs, for the list of methods."""

    def __init__(
        self, setting: Setting, num_networks: int = 1, *, keeps_history: bool = True
    ) -> None:
        super().__init__()
        self.setting = setting
        self.epoch = 1
        """The current epoch. Not saved: `begin_epoch` sets it, also after a resume."""
        self.networks = nn.ModuleList(setting.build_network() for _ in range(num_networks))
        self.history: DiscrimLoss | None = None
        if keeps_history:
            self.history = loss_history(setting.num_samples, setting.epochs)

    @abstractmethod
    def training_step(self, batch: Batch) -> StepResult:
        """Return the loss of a batch. The loop differentiates it and updates the parameters."""

    def forward(self, batch: Batch) -> StepResult:
        """Run the training step. Wrappers hook into this call of the module."""
        if batch.mixture is None:
            result = self.training_step(batch)
        else:
            result = self._mixed_step(batch, batch.mixture)
        if self.history is not None:
            self.history(result.losses, batch.index)
        return result

    def _mixed_step(self, batch: Batch, mixture: Mixture) -> StepResult:
        """Return the loss of a mixture: the weighted losses of both labels.

        The networks run once. The method's state is updated for both samples of a row. The records
        of a run contain only the sample with the larger weight.
        """
        other = Batch(batch.inputs, mixture.target, mixture.index)
        with computed_once(self.networks):
            result, lighter = self.training_step(batch), self.training_step(other)
        loss = mixture.weight * result.loss + (1.0 - mixture.weight) * lighter.loss
        return result._replace(loss=loss)

    def begin_epoch(self, epoch: int) -> None:
        """Called before the first step of an epoch, and again when one is resumed in its middle.

        A method that overrides `begin_epoch` calls that of the base class first.
        """
        self.epoch = epoch
        if self.history is not None:
            self.history.set_epoch(epoch)

    def sample_order(self, epoch: int, generator: torch.Generator) -> Tensor:
        """Return the samples of an epoch in order. By default all, shuffled."""
        return torch.randperm(self.setting.num_samples, generator=generator)

    def trainable_parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters that the optimizer updates: those of the networks."""
        return (p for p in self.networks.parameters() if p.requires_grad)

    def after_backward(self) -> None:
        """Called after the gradients are computed, before the optimizer's step."""

    def after_step(self) -> None:
        """Called after the optimizer's step."""

    def end_epoch(self, row: Mapping[str, Any]) -> None:
        """Called after the evaluation of an epoch, with its row of the history."""

    def predict(self, inputs: Any) -> Tensor:
        """Return the predictions to evaluate: those of the first network."""
        output: Tensor = self.networks[0](inputs)
        return output

    def verdicts(self) -> Verdicts | None:
        """Return the verdict on each label, from the loss history if it is recorded."""
        return None if self.history is None else self.history.verdicts()

    def sample_scores(self) -> Tensor | None:
        """Return how much the method itself distrusts each label, shape (num_samples,).

        Higher is more suspicious. NaN for a sample that was never in a batch. None for a method
        without such a score.
        """
        return None

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters in use, including derived ones, for the summary."""
        return {}

    def log_values(self) -> dict[str, float]:
        """Return values of the current epoch for the history."""
        return {}
