"""Stochastic label noise in the training harness, with a momentum model and corrected labels."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from discrimloss.losses.base import IndexedLoss, cross_entropy
from discrimloss.losses.sample_state import SampleMean
from discrimloss.losses.stochastic_label_noise import StochasticLabelNoise, soft_cross_entropy
from discrimloss.training.methods.base import Batch, Setting, StepResult, methods
from discrimloss.training.methods.corrected_labels import CorrectedLabels
from discrimloss.training.methods.loss_method import LossMethod


@torch.no_grad()
def follow(follower: nn.Module, leader: nn.Module, steps: Tensor, decay: float) -> None:
    """Update the averages of parameters and buffers. Copy values that cannot be averaged.

    Early in a run, the average covers few steps. With the paper's decay from the start, the
    averages would still be close to the initial weights when they are evaluated.

    Args:
        follower: the averages.
        leader: the network that is averaged.
        steps: number of earlier steps.
        decay: the largest weight of the old average.
    """
    new_weight = 1.0 - ((1.0 + steps) / (10.0 + steps)).clamp(max=decay)
    for kind in (nn.Module.parameters, nn.Module.buffers):
        for average, value in zip(kind(follower), kind(leader), strict=True):
            if average.is_floating_point():
                average.lerp_(value, new_weight.to(average.dtype))
            else:
                average.copy_(value)


@methods.register("sln")
class SlnMethod(LossMethod):
    """Stochastic label noise on the one-hot targets, optional momentum model (Chen et al. 2021).

    The loss is `discrimloss.losses.StochasticLabelNoise`. Its ``sigma`` is an option as well.

    Args:
        setting: the task.
        momentum_model: whether to evaluate a moving average of the network (SLN-MO). By default
            False, as in the plain SLN of the paper.
        momentum_decay: decay of the average. 0.999, as in the authors' code. In the first 9,000
            steps it is less, (1 + step) / (10 + step), our choice for shorter runs than theirs.
        label_correction: whether to mix labels with the predictions of the momentum model near the
            end of the run, without noise (SLN-MO-LC): ``w y + (1 - w) prediction``, where w is the
            loss of that model, scaled to [0, 1] over all samples. The authors predict all samples
            before each epoch. We record the predictions in the steps of the previous epoch.
        correction_epoch: the first epoch with corrected labels. By default the first epoch of the
            last sixth, as in the authors' code for CIFAR (251 of 300). Their code for Clothing1M
            starts in epoch 2.
        correction: "classes", as in the authors' code for CIFAR (chenpf1025/SLN): labels are mixed
            with the predicted class, and w is the loss of the labels as corrected so far.
            "probabilities", as in their code for Clothing1M: labels are mixed with the predicted
            probabilities, and w is the loss of the given labels.
        options: options of the loss.
    """

    name: ClassVar[str] = "sln"
    loss_class: ClassVar[type[IndexedLoss]] = StochasticLabelNoise

    loss: StochasticLabelNoise
    steps: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
        momentum_model: bool = False,
        momentum_decay: float = 0.999,
        label_correction: bool = False,
        correction_epoch: int | None = None,
        correction: Literal["classes", "probabilities"] = "classes",
        **options: Any,
    ) -> None:
        if not 0.0 <= momentum_decay < 1.0:
            raise ValueError(f"momentum_decay must be at least 0 and below 1, not {momentum_decay}")
        if label_correction and not momentum_model:
            raise ValueError("label_correction needs the predictions of momentum_model = true")
        if correction not in ("classes", "probabilities"):
            raise ValueError(f"correction must be classes or probabilities, not {correction!r}")
        if correction_epoch is not None and correction_epoch < 2:
            raise ValueError(
                f"correction_epoch must be 2 or more, after predictions, not {correction_epoch}"
            )
        if correction_epoch is not None and correction_epoch > setting.epochs:
            raise ValueError(
                f"correction_epoch must be one of the run's {setting.epochs} epochs, "
                f"not {correction_epoch}"
            )
        super().__init__(setting, **options)
        self.momentum_decay = momentum_decay
        self.has_momentum_model = momentum_model
        if momentum_model:  # in `networks`, so that all processes use the same buffers
            self.networks.append(copy.deepcopy(self.networks[0]).requires_grad_(False))
            self.register_buffer("steps", torch.tensor(0))
        self.correction_epoch = correction_epoch or max(2, 1 + setting.epochs * 5 // 6)
        self.correction = correction
        self.labels: CorrectedLabels | None = None
        if label_correction:
            is_soft = correction == "probabilities"
            self.labels = CorrectedLabels(setting.target, setting.num_classes if is_soft else None)
            self.distrust = SampleMean(setting.num_samples)

    def training_step(self, batch: Batch) -> StepResult:
        """Return the cross-entropy with noisy targets, or near the end with corrected ones."""
        if self.labels is None or self.epoch < self.correction_epoch - 1:
            return super().training_step(batch)
        output = self.networks[0](batch.inputs)
        label = functional.one_hot(batch.target, output.shape[1])
        corrected = self.labels.mixed(label, batch.index)
        self._record(self.labels, corrected, batch)
        soft_target = corrected + self.loss.noise[batch.index]
        return self.result(soft_cross_entropy(output, soft_target).mean(), output, batch)

    @torch.no_grad()
    def _record(self, labels: CorrectedLabels, corrected: Tensor, batch: Batch) -> None:
        """Record the predictions of the momentum model for the next correction."""
        output = self.networks[1](batch.inputs)
        if labels.is_soft:
            losses = cross_entropy(output, batch.target)
        else:  # the loss of the labels as corrected so far, as in the authors' code
            losses = soft_cross_entropy(output, corrected)
        labels.record(output, losses, batch.index)
        probability = output.float().softmax(1).gather(1, batch.target[:, None]).squeeze(1)
        self.distrust.add(1.0 - probability, batch.index)

    def begin_epoch(self, epoch: int) -> None:
        """Draw the noise of the epoch, or correct the labels without noise."""
        super().begin_epoch(epoch)
        if self.has_momentum_model:
            self.networks[1].eval()
        if self.labels is not None and epoch >= self.correction_epoch:
            self.labels.renew(epoch)
            self.loss.noise.zero_()

    def after_step(self) -> None:
        """Update the momentum model."""
        if self.has_momentum_model:
            follow(self.networks[1], self.networks[0], self.steps, self.momentum_decay)
            self.steps += 1

    def predict(self, inputs: Any) -> Tensor:
        """Return the prediction of the momentum model, if there is one."""
        output: Tensor = self.networks[-1](inputs)
        return output

    def sample_scores(self) -> Tensor | None:
        """Return one minus the momentum model's probability of the label."""
        return None if self.labels is None else self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Return the options of the noise, the average and the correction."""
        return {
            **super().hyperparameters(),
            "momentum_decay": self.momentum_decay if self.has_momentum_model else None,
            "correction_epoch": None if self.labels is None else self.correction_epoch,
            "correction": None if self.labels is None else self.correction,
        }
