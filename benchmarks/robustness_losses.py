"""The methods of the robustness benchmark, each a criterion of (logits, target, index)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss import DiscrimLoss
from discrimloss.losses import (
    CrossEntropy,
    EarlyLearningRegularization,
    GeneralizedCrossEntropy,
    LabelSmoothing,
    SymmetricCrossEntropy,
)

SCE_LOG_ZERO = -4.0
"""``log 0`` of symmetric cross-entropy in the text of its paper (Wang et al., 2019, section 4)."""


class Criterion(Protocol):
    """The interface of a criterion for the training loop."""

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch, counted from 1."""

    def __call__(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""


class DiscrimLossForm:
    """`DiscrimLoss` in a plain loop, in one of its three forms.

    Args:
        form: ``"paper"`` gives the criterion losses and index, ``"class"`` the target as well,
            ``"predictions"`` also the logits.
        num_samples: size of the training set.
        num_classes: number of classes.
        epochs: length of the run.
    """

    def __init__(self, form: str, num_samples: int, num_classes: int, epochs: int) -> None:
        classes = {} if form == "paper" else {"num_classes": num_classes}
        self.form = form
        self.criterion = DiscrimLoss(num_samples=num_samples, epochs=epochs, **classes)

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch, counted from 1."""
        self.criterion.set_epoch(epoch)

    def __call__(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch."""
        more = {"paper": {}, "class": {"target": target}}.get(
            self.form, {"target": target, "logits": logits}
        )
        losses = functional.cross_entropy(logits, target, reduction="none")
        loss: Tensor = self.criterion(losses, index, **more)
        return loss

    def trusted(self) -> Tensor:
        """Return the positions of samples that are not called incorrect after the last epoch."""
        return torch.from_numpy(self.criterion.verdicts().verdict != "incorrect").nonzero()[:, 0]


@dataclass(frozen=True)
class Method:
    """A method, which is a row of the summary."""

    title: str
    build: Callable[[int, int, int], Criterion]
    """Builds the criterion from the numbers of samples, classes and epochs."""
    retrains: bool = False
    """Whether a second network is trained with cross-entropy on the trusted labels only."""
    is_control: bool = False
    """Whether it is the baseline with another initial network and another order of the batches."""


def _form(form: str) -> Callable[[int, int, int], Criterion]:
    return lambda samples, classes, epochs: DiscrimLossForm(form, samples, classes, epochs)


BASELINE = "ce"
METHODS = {
    BASELINE: Method("cross-entropy", lambda samples, classes, epochs: CrossEntropy()),
    "again": Method(
        "cross-entropy, again", lambda samples, classes, epochs: CrossEntropy(), is_control=True
    ),
    "smoothing": Method("label smoothing", lambda samples, classes, epochs: LabelSmoothing()),
    "gce": Method("GCE", lambda samples, classes, epochs: GeneralizedCrossEntropy()),
    "elr": Method(
        "ELR", lambda samples, classes, epochs: EarlyLearningRegularization(samples, classes)
    ),
    "sce": Method(
        "symmetric CE",
        lambda samples, classes, epochs: SymmetricCrossEntropy(log_zero=SCE_LOG_ZERO),
    ),
    "paper": Method("DiscrimLoss, paper", _form("paper")),
    "class": Method("DiscrimLoss, class", _form("class")),
    "predictions": Method("DiscrimLoss, predictions", _form("predictions")),
    "drop": Method("drop and retrain", _form("predictions"), retrains=True),
}
OURS = ("paper", "class", "predictions")
SINGLE_NETWORK = tuple(
    name for name, method in METHODS.items() if not (method.retrains or method.is_control)
)
