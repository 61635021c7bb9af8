"""The base class of all losses in this package, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, reduce
from discrimloss.hyperparameters import (
    require_epoch,
    require_reduction,
    require_whole_number,
)
from discrimloss.loss import DiscrimLoss
from discrimloss.options import Option
from discrimloss.registry import Registry, keyword_options
from discrimloss.state.batch_checks import (
    checked_index,
    first_outside,
    integer_tensor,
    is_integer,
    kind_of,
)
from discrimloss.state.fixed_dtype import FixedDtypeModule
from discrimloss.state.table import MAX_SAMPLES

TaskLoss = Callable[[Tensor, Tensor], Tensor]
"""A function of ``(predictions, target)`` that returns losses of shape (batch,)."""


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return ``-log p_y``, shape (batch,), for logits (batch, classes) and target (batch,)."""
    return functional.cross_entropy(logits, target, reduction="none")


class IndexedLoss(FixedDtypeModule, ABC):
    """A loss of ``(logits, target, index)`` that may keep state for each training sample.

    The module works in any training loop. Call `set_epoch` before the first batch of each epoch,
    then call the module with each batch. In eval mode it returns the task loss and updates nothing.
    All state is in `state_dict` and keeps its precision when the module is cast.

    If `torch.distributed` is initialised, each process calls the loss with its own rows. The number
    of rows must be the same in all processes. All processes then hold the same state, and the
    average of their gradients is the gradient of the whole batch.

    A subclass implements `sample_losses`. Its keyword-only arguments are the options of the method
    of the same name in `discrimloss train`.

    Args:
        num_samples: size of the training set. If None, no state is kept for the samples, and
            `index` is not needed.
        num_classes: number of columns of the logits, if the loss needs it in advance.
        task_loss: the loss that is returned in eval mode, unreduced.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs: ClassVar[str] = "nothing"
    """Information beyond the labels that the loss needs in advance."""
    needs_classes: ClassVar[str | None] = None
    """Why the loss works only for classification: the end of a sentence that starts with "it"."""

    epoch_count: Tensor

    def __init__(
        self,
        num_samples: int | None = None,
        num_classes: int | None = None,
        *,
        task_loss: TaskLoss = cross_entropy,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        require_reduction(reduction)
        if num_samples is not None:
            require_whole_number("num_samples", num_samples, 1, MAX_SAMPLES)
        if num_classes is not None:
            require_whole_number("num_classes", num_classes, 2)
        self.num_samples = num_samples
        self.num_classes = num_classes
        self.task_loss = task_loss
        self.reduction = reduction
        self.epoch = 1
        self.register_buffer("epoch_count", torch.tensor(1))
        self.register_load_state_dict_post_hook(_return_to_saved_epoch)  # type: ignore[no-untyped-call]

    @abstractmethod
    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the loss of each sample of a training batch, shape (batch,). Update the state.

        Args:
            logits: shape (batch, classes); for regression, the predictions, shape (batch,).
            target: shape (batch,).
            index: shape (batch,), int64, in range; empty if `num_samples` is None.
        """

    def forward(self, logits: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Return the loss of a batch.

        Args:
            logits: shape (batch, classes); for regression, the predictions, shape (batch,).
            target: shape (batch,): classes from 0, or regression targets.
            index: shape (batch,), integer: the position of each row in the training set. Needed
                in train mode if the loss was built with `num_samples`.

        Returns:
            A scalar, or shape (batch,) with ``reduction="none"``.
        """
        return reduce(self.unreduced(logits, target, index), self.reduction)

    def unreduced(self, logits: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Return the unreduced losses of the samples, shape (batch,)."""
        if self.needs_classes is not None:
            check_classification(logits, target, self.num_classes)
        if not self.training:
            return self.task_losses(logits, target)
        if self.num_samples is None:
            rows = torch.empty(0, dtype=torch.int64, device=target.device)
        else:
            rows = checked_rows(index, target, self.num_samples, type(self).__name__)
        return self.sample_losses(logits, target, rows)

    def task_losses(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the task loss of each sample, shape (batch,)."""
        losses = self.task_loss(logits, target)
        if losses.shape != target.shape[:1]:
            raise ValueError(
                f"task_loss must return one loss for each sample, shape {tuple(target.shape[:1])}, "
                f'not {tuple(losses.shape)}: compute it with reduction="none"'
            )
        return losses

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, counted from 1, before its first batch.

        A repeated call for the current epoch, as after a resume, changes nothing. A subclass that
        overrides this method calls it first.
        """
        self.epoch = require_epoch(epoch)
        self.epoch_count.fill_(self.epoch)

    def set_targets(self, target: Tensor) -> None:
        """Pass the labels of all samples, shape (num_samples,), in advance. Optional.

        Raises:
            ValueError: if the loss cannot work with these labels.
        """

    @property
    def history(self) -> DiscrimLoss | None:
        """The `DiscrimLoss` that records the average task losses, or None if there is no record."""
        return None

    def sample_scores(self) -> Tensor | None:
        """Return how much the loss distrusts each label, shape (num_samples,). Higher is worse.

        NaN for samples that were never in a batch. None if the loss has no such score.
        """
        return None

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters in use, including derived ones."""
        return {}

    def log_values(self) -> dict[str, float]:
        """Return values of the current epoch to log."""
        return {}

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Return the keyword-only arguments, without those that the training loop sets."""
        given = ("task_loss", "reduction")
        return {name: o for name, o in keyword_options(cls).items() if name not in given}

    def extra_repr(self) -> str:
        """Return the hyperparameters that `repr` shows."""
        values = {**self.hyperparameters(), "reduction": self.reduction}
        return ", ".join(f"{k}={v!r}" for k, v in values.items() if not isinstance(v, list))


loss_classes: Registry[type[IndexedLoss]] = Registry("loss", "discrimloss.losses")


def check_classification(logits: Tensor, target: Tensor, num_classes: int | None) -> None:
    """Raise an error unless `logits` and `target` are a valid batch of a classification task.

    Raises:
        TypeError: if logits are not real numbers, or labels are not integers.
        ValueError: if the shapes do not fit.
        IndexError: if a label is not one of the classes. On a GPU, the device raises it later.
    """
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        raise TypeError(f"logits must be a tensor of real numbers, not {kind_of(logits)}")
    if logits.dim() != 2:
        raise ValueError(f"logits must have shape (batch, classes), not {tuple(logits.shape)}")
    if num_classes is not None and logits.shape[1] != num_classes:
        raise ValueError(
            f"logits have {logits.shape[1]} columns, but the loss was built with "
            f"num_classes={num_classes}"
        )
    if not isinstance(target, Tensor) or not is_integer(target):
        raise TypeError(f"target must be a tensor of class positions, not {kind_of(target)}")
    if target.shape != logits.shape[:1]:
        raise ValueError(
            f"target must have shape {tuple(logits.shape[:1])}, one label for each row of the "
            f"logits, not {tuple(target.shape)}"
        )
    num_columns = logits.shape[1]
    row = first_outside(target, num_columns, "target") if len(target) else None
    if row is not None:
        raise IndexError(
            f"target {int(target[row])} (row {row} of the batch) is out of range: the logits have "
            f"{num_columns} classes, so valid targets are 0 to {num_columns - 1}"
        )


def checked_rows(index: Tensor | None, target: Tensor, num_samples: int, loss: str) -> Tensor:
    """Return `index` as int64 on the device of `target`, or raise an error if it is invalid."""
    if index is None:
        raise TypeError(f"{loss} keeps state for each sample: pass the index of each row")
    index = integer_tensor(index)
    if index.shape != target.shape[:1]:
        raise ValueError(
            f"index must have shape {tuple(target.shape[:1])}, one sample index for each row, "
            f"not {tuple(index.shape)}"
        )
    return checked_index(index.to(target.device, torch.int64), num_samples)


def _return_to_saved_epoch(loss: IndexedLoss, incompatible_keys: Any) -> None:
    loss.set_epoch(int(loss.epoch_count))
