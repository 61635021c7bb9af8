"""What forward and backward correction share: a matrix that is given, or estimated on the way."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from discrimloss.functional import at_least_float32
from discrimloss.losses.sample_state import SampleMean
from discrimloss.state.gathering import gather_rows
from discrimloss.training.methods.base import Batch, Method, Setting, StepResult
from discrimloss.training.methods.noise_rate import FIRST_ESTIMATE
from discrimloss.training.methods.transition import (
    anchor_transition,
    checked_transition,
    log_label_probability,
    symmetric_transition,
)

WARM_UP = FIRST_ESTIMATE
"""Part of the run before the estimate: long enough to know the classes, too short to memorise."""


class LossCorrection(Method):
    """What the two corrections of Patrini et al. (2017) share: the matrix T.

    The authors train a network to the end, estimate T from what it says where its validation loss
    was lowest, and train another one from the start. We record what the network says in the last
    epoch of a warm-up, estimate T from it, and go on with the same network: a run is one training,
    of the same length as with any other method.

    Args:
        setting: what may be known of the task.
        name: the method's, for messages.
        transition: T, a row for each true class; None if it is not known.
        noise_rate: that of symmetric noise, which makes T; None if it is not known.
        anchor_percentile: which sample is an anchor, if T is estimated.
        warm_up_epochs: of plain training, if T is estimated; None for 15 % of the run.
    """

    needs: ClassVar[str] = "transition matrix or noise rate, given or estimated"

    transition: Tensor
    is_estimated: Tensor
    probabilities: Tensor

    def __init__(
        self,
        setting: Setting,
        name: str,
        transition: tuple[tuple[float, ...], ...] | None,
        noise_rate: float | None,
        anchor_percentile: float,
        warm_up_epochs: int | None,
    ) -> None:
        num_classes = setting.require_classes(
            name, "corrects the loss by how likely each class is to be labelled as another"
        )
        if transition is not None and noise_rate is not None:
            raise ValueError("transition and noise_rate say the same: give one of them")
        if not 0.0 < anchor_percentile <= 100.0:
            raise ValueError(
                f"anchor_percentile must be above 0 and at most 100, not {anchor_percentile}"
            )
        if warm_up_epochs is not None and warm_up_epochs < 1:
            raise ValueError(f"warm_up_epochs must be 1 or more, not {warm_up_epochs}")
        if warm_up_epochs is not None and warm_up_epochs >= setting.epochs:
            raise ValueError(
                f"warm_up_epochs must be below the {setting.epochs} epochs of the run, "
                f"not {warm_up_epochs}: nothing would be corrected"
            )
        source, matrix = "estimated", torch.eye(num_classes, dtype=torch.float64)
        if transition is not None:
            source = "given"
            matrix = checked_transition(transition, setting.target, num_classes)
        elif noise_rate is not None:
            source, matrix = "noise_rate", symmetric_transition(num_classes, noise_rate)
        self.check(matrix)  # before a network is built for nothing

        super().__init__(setting)
        self.source = source
        self.anchor_percentile = anchor_percentile
        self.warm_up_epochs = 0
        if source == "estimated":
            self.warm_up_epochs = warm_up_epochs or math.ceil(WARM_UP * setting.epochs)
        self.register_buffer("transition", matrix)
        self.register_buffer("is_estimated", torch.tensor(False))
        kept = setting.num_samples if source == "estimated" else 0
        self.register_buffer("probabilities", torch.zeros(kept, num_classes))
        self.distrust = SampleMean(setting.num_samples)

    @abstractmethod
    def corrected_losses(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        """The corrected loss of each sample, shape (batch,)."""

    def check(self, transition: Tensor) -> None:
        """Refuse a given matrix that the correction cannot work with."""

    def usable(self, estimate: Tensor) -> Tensor:
        """An estimated matrix, made such that the correction can work with it."""
        return estimate

    def training_step(self, batch: Batch) -> StepResult:
        """The task loss in the warm-up, the corrected one afterwards."""
        output = self.networks[0](batch.inputs)
        losses = self.setting.task_losses(output, batch.target)
        if self.epoch < self.warm_up_epochs:
            return StepResult(losses.mean(), losses.detach(), output.detach())
        log_probabilities = F.log_softmax(at_least_float32(output), dim=1)
        if self.epoch == self.warm_up_epochs:
            everyones = gather_rows(log_probabilities.detach().exp().float())
            self.probabilities[gather_rows(batch.index)] = everyones
            loss = losses.mean()
        else:
            loss = self.corrected_losses(log_probabilities, batch.target).mean()
            self._judge(log_probabilities.detach(), batch)
        return StepResult(loss, losses.detach(), output.detach())

    def _judge(self, log_probabilities: Tensor, batch: Batch) -> None:
        target = batch.target
        of_label = log_label_probability(log_probabilities, target, self.transition)
        of_class = log_probabilities.gather(1, target[:, None]).squeeze(1)
        stayed = self.transition.diagonal()[target] * (of_class - of_label).exp()
        self.distrust.add(1.0 - stayed, batch.index)

    def begin_epoch(self, epoch: int) -> None:
        """Estimate T once, in the epoch after the warm-up."""
        super().begin_epoch(epoch)
        is_due = self.source == "estimated" and epoch > self.warm_up_epochs
        if not is_due or bool(self.is_estimated):
            return
        label_counts = self.setting.target.bincount(minlength=self.probabilities.shape[1])
        estimate = anchor_transition(
            self.probabilities, label_counts.to(self.probabilities.device), self.anchor_percentile
        )
        self.transition.copy_(self.usable(estimate))
        self.is_estimated.fill_(True)

    def sample_scores(self) -> Tensor | None:
        """How likely the true class is another than the label, on average since T is known."""
        return self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """T, once it is known, and where it is from."""
        is_known = self.source != "estimated" or bool(self.is_estimated)
        wrong = 1.0 - self.transition.diagonal()[self.setting.target.to(self.transition.device)]
        return {
            "noise_rate": round(float(wrong.mean()), 6) if is_known else None,
            "noise_rate_source": self._source_of_rate(is_known),
            "transition": self.transition.tolist() if is_known else None,
            "transition_source": self.source,
            "anchor_percentile": self.anchor_percentile,
            "warm_up_epochs": self.warm_up_epochs,
        }

    def _source_of_rate(self, is_known: bool) -> str:
        if self.source != "estimated":
            return "given"
        return "estimated" if is_known else "not estimated yet"

    def log_values(self) -> dict[str, float]:
        """How likely a label is right, by T: 1 as long as T is not known."""
        return {"mean_diagonal": float(self.transition.diagonal().mean())}
