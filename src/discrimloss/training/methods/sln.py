"""Stochastic label noise: fresh Gaussian noise on the targets, against noise that stays."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discrimloss.losses.sample_state import EpochDraws, SampleMean
from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods
from discrimloss.training.methods.corrected_labels import CorrectedLabels, soft_losses


@torch.no_grad()
def follow(follower: nn.Module, leader: nn.Module, steps: Tensor, decay: float) -> None:
    """Move the averages of parameters and buffers a step on; what cannot be averaged is copied.

    As long as a run is short, the average must be: by the paper's decay alone, much of what is
    evaluated would be the initial weights.

    Args:
        follower: the averages.
        leader: what is averaged.
        steps: how many have been made before.
        decay: at most so much of the averages is kept.
    """
    new_share = 1.0 - ((1.0 + steps) / (10.0 + steps)).clamp(max=decay)
    for kind in (nn.Module.parameters, nn.Module.buffers):
        for average, value in zip(kind(follower), kind(leader), strict=True):
            if average.is_floating_point():
                average.lerp_(value, new_share.to(average.dtype))
            else:
                average.copy_(value)


@methods.register("sln")
class StochasticLabelNoise(Method):
    """Stochastic label noise on the one-hot targets, optional momentum model (Chen et al. 2021).

    The target of a sample is its one-hot label plus Gaussian noise, drawn anew in each epoch, and
    the loss is the cross-entropy with it. The noise has a mean of 0; as the paper shows, what it
    adds to the gradients grows with the confidence of the network and the sharpness of its outputs,
    and keeps it away from both. Targets may be negative and the loss has no bound: with too much
    noise for its learning rate, a network learns nothing.

    Args:
        setting: what may be known of the task.
        sigma: standard deviation of the noise. The authors tune it: 1 and 0.5 for CIFAR-10
            (symmetric and other noise), 0.2 for CIFAR-100 and Clothing1M, 0.1 for CIFAR-100 with
            instance-dependent noise, with a learning rate of 0.001 for CIFAR. Ours is the smallest
            of them: with the learning rates of our recipes, up to 0.1, more harms on clean labels.
        momentum_model: whether to evaluate a moving average of the network (SLN-MO); off, as in the
            plain SLN of the paper.
        momentum_decay: of the average, 0.999 in the authors' code. In the first 9,000 steps it is
            less, (1 + step) / (10 + step), which is ours, for runs shorter than theirs.
        label_correction: whether to mix labels with the momentum model's predictions near the end,
            without noise from there on (SLN-MO-LC): ``w y + (1 - w) prediction``, where w is the
            model's loss, scaled to [0, 1] over all samples. The authors predict for all samples
            before each epoch; we record the predictions in the steps of the epoch before.
        correction_epoch: the first with corrected labels; None for the first of the last sixth, as
            in the authors' code for CIFAR (251 of 300).
    """

    noise: Tensor
    steps: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
        sigma: float = 0.1,
        momentum_model: bool = False,
        momentum_decay: float = 0.999,
        label_correction: bool = False,
        correction_epoch: int | None = None,
    ) -> None:
        num_classes = setting.require_classes("sln", "adds noise to one-hot targets")
        if not 0.0 <= sigma < math.inf:
            raise ValueError(f"sigma must be 0 or more, not {sigma}")
        if not 0.0 <= momentum_decay < 1.0:
            raise ValueError(f"momentum_decay must be at least 0 and below 1, not {momentum_decay}")
        if label_correction and not momentum_model:
            raise ValueError("label_correction needs the predictions of momentum_model = true")
        if correction_epoch is not None and correction_epoch < 2:
            raise ValueError(
                f"correction_epoch must be 2 or more, after predictions, not {correction_epoch}"
            )
        if correction_epoch is not None and correction_epoch > setting.epochs:
            raise ValueError(
                f"correction_epoch must be one of the run's {setting.epochs} epochs, "
                f"not {correction_epoch}"
            )
        super().__init__(setting)
        self.sigma, self.momentum_decay = sigma, momentum_decay
        self.draws = EpochDraws()
        noise = torch.zeros(setting.num_samples, num_classes)
        self.register_buffer("noise", noise, persistent=False)  # follows from the seed of the draws
        if momentum_model:  # among the networks, so that the processes judge by the same buffers
            self.networks.append(copy.deepcopy(self.networks[0]).requires_grad_(False))
            self.register_buffer("steps", torch.tensor(0))
        self.has_momentum_model = momentum_model
        self.correction_epoch = correction_epoch or max(2, 1 + setting.epochs * 5 // 6)
        self.labels: CorrectedLabels | None = None
        if label_correction:
            self.labels = CorrectedLabels(setting.target)
            self.distrust = SampleMean(setting.num_samples)

    def training_step(self, batch: Batch) -> StepResult:
        """The cross-entropy with noisy targets, or with corrected ones near the end."""
        output = self.networks[0](batch.inputs)
        losses = self.setting.task_losses(output, batch.target)
        label = F.one_hot(batch.target, self.noise.shape[1])
        if self.labels is None or self.epoch < self.correction_epoch - 1:
            soft_target = label + self.noise[batch.index]
        else:
            corrected = self.labels.mixed(label, batch.index)
            self._ask_momentum_model(batch, corrected)
            soft_target = corrected + self.noise[batch.index]
        loss = soft_losses(output, soft_target).mean()
        return StepResult(loss, losses.detach(), output.detach())

    @torch.no_grad()
    def _ask_momentum_model(self, batch: Batch, corrected: Tensor) -> None:
        assert self.labels is not None
        output = self.networks[1](batch.inputs)
        # The authors, too, take the loss of the labels as corrected so far.
        self.labels.record(output.argmax(1), soft_losses(output, corrected), batch.index)
        probability = output.float().softmax(1).gather(1, batch.target[:, None]).squeeze(1)
        self.distrust.add(1.0 - probability, batch.index)

    def begin_epoch(self, epoch: int) -> None:
        """Draw the noise of the epoch, or correct the labels and draw none."""
        super().begin_epoch(epoch)
        if self.has_momentum_model:
            self.networks[1].eval()
        if self.labels is not None and epoch >= self.correction_epoch:
            self.labels.renew(epoch)
            self.noise.zero_()
        else:
            noise = torch.randn(self.noise.shape, generator=self.draws.generator(epoch))
            self.noise.copy_(self.sigma * noise)

    def after_step(self) -> None:
        """Let the momentum model follow."""
        if self.has_momentum_model:
            follow(self.networks[1], self.networks[0], self.steps, self.momentum_decay)
            self.steps += 1

    def predict(self, inputs: Any) -> Tensor:
        """The answer of the momentum model, if there is one."""
        output: Tensor = self.networks[-1](inputs)
        return output

    def sample_scores(self) -> Tensor | None:
        """How improbable the momentum model finds each label, asked for corrections."""
        return None if self.labels is None else self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """The noise, the average and the correction."""
        return {
            "sigma": self.sigma,
            "momentum_decay": self.momentum_decay if self.has_momentum_model else None,
            "correction_epoch": None if self.labels is None else self.correction_epoch,
        }
