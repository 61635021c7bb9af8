"""Generalized cross-entropy: between cross-entropy and the mean absolute error."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from discrimloss.functional import at_least_float32
from discrimloss.state.gathering import gather_rows
from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods
from discrimloss.training.methods.sample_mean import SampleMean


def generalized_cross_entropy(cross_entropies: Tensor, exponent: float) -> Tensor:
    """``L_q = (1 - p_y**q) / q`` from ``-log p_y``, elementwise.

    ``p_y**q`` has an infinite slope at 0; in ``log p_y`` the slope is ``-p_y**q``, which is finite
    everywhere, and `expm1` keeps the digits of a small loss.
    """
    return -torch.expm1(-exponent * cross_entropies) / exponent


@methods.register("gce")
class Gce(Method):
    """Generalized cross-entropy, (1 - p_y^q) / q, and its truncated form (Zhang & Sabuncu 2018).

    The gradient is that of cross-entropy times ``p_y**q``: labels the network finds unlikely count
    little. So do right ones that are not learned yet, a fifth at chance among ten classes: with the
    same learning rate it needs more epochs than cross-entropy on clean labels (digits: 2 points
    behind after 20 epochs, 1 after 40, none after 120).

    The truncated form (their section 3.3) gives every label with ``p_y`` of at most ``k`` the
    constant loss of ``p_y = k``, hence no gradient; which labels those are is decided again at
    intervals, when some come back.

    Where we depart from the paper: it decides by a pass over the training set, with the network
    that did best on validation labels so far. We decide by the answer at each sample's last visit,
    which costs no pass and needs no validation labels. Samples that were left out are still put
    through the network, so their answers stay up to date.

    Args:
        setting: what may be known of the task.
        exponent: ``q``, above 0 (near 0: cross-entropy) and up to 1 (the mean absolute error). 0.7,
            which the paper uses in all of its experiments (section 4).
        truncated: whether to use the truncated form. False: the paper has results for both, and
            this one has fewer settings.
        truncation_threshold: ``k``, in (0, 1). 0.5, the paper's for all of its experiments.
        first_truncation: the part of the run after which labels are first left out. 1/3: the
            paper has epoch 40 of 120 for CIFAR-10, which we scale to the run.
        truncation_interval: the part of the run after which it is decided again. 1/12: every 10
            of those 120 epochs, scaled likewise, and at least one epoch.
    """

    answers: Tensor
    is_kept: Tensor
    decided_in: Tensor

    def __init__(
        self,
        setting: Setting,
        *,
        exponent: float = 0.7,
        truncated: bool = False,
        truncation_threshold: float = 0.5,
        first_truncation: float = 1 / 3,
        truncation_interval: float = 1 / 12,
    ) -> None:
        setting.require_classes("gce", "takes powers of class probabilities")
        if not 0.0 < exponent <= 1.0:
            raise ValueError(f"exponent must be above 0 and at most 1, not {exponent}")
        if not 0.0 < truncation_threshold < 1.0:
            raise ValueError(
                f"truncation_threshold must be above 0 and below 1, not {truncation_threshold}"
            )
        if not 0.0 <= first_truncation <= 1.0 or not 0.0 < truncation_interval <= 1.0:
            raise ValueError(
                "first_truncation and truncation_interval must be parts of the run, in [0, 1] and "
                f"in (0, 1], not {first_truncation} and {truncation_interval}"
            )
        super().__init__(setting)
        self.exponent = exponent
        self.truncated = truncated
        self.threshold = truncation_threshold
        self.first = 1 + max(1, round(first_truncation * setting.epochs))
        self.interval = max(1, round(truncation_interval * setting.epochs))
        self.distrust = SampleMean(setting.num_samples)
        if truncated:
            self.register_buffer("answers", torch.ones(setting.num_samples))
            self.register_buffer("is_kept", torch.ones(setting.num_samples, dtype=torch.bool))
            self.register_buffer("decided_in", torch.tensor(0))

    def begin_epoch(self, epoch: int) -> None:
        """Decide which labels are left out, if it is time; not again in an epoch resumed."""
        super().begin_epoch(epoch)
        if not self.truncated or epoch < self.first or epoch <= int(self.decided_in):
            return
        if (epoch - self.first) % self.interval == 0:
            self.is_kept.copy_(self.answers > self.threshold)
            self.decided_in.fill_(epoch)

    def training_step(self, batch: Batch) -> StepResult:
        """The mean generalized cross-entropy, a constant for labels that are left out."""
        output = self.networks[0](batch.inputs)
        losses = self.setting.task_losses(output, batch.target)
        precise = at_least_float32(losses)
        robust = generalized_cross_entropy(precise, self.exponent)
        self.distrust.add(self.exponent * robust, batch.index)
        if self.truncated:
            self._remember(precise.detach(), batch.index)
            constant = (1.0 - self.threshold**self.exponent) / self.exponent
            # 0 * robust: every process needs every parameter in the graph.
            robust = robust.where(self.is_kept[batch.index], constant + 0.0 * robust)
        return StepResult(robust.mean(), losses.detach(), output.detach())

    def _remember(self, cross_entropies: Tensor, index: Tensor) -> None:
        """What the network thinks of the labels; the lower one for a sample that is there twice."""
        index = gather_rows(index)
        answers = gather_rows(cross_entropies).neg().exp().to(self.answers.dtype)
        self.answers.index_fill_(0, index, 1.0)
        self.answers.scatter_reduce_(0, index, answers, "amin")

    def sample_scores(self) -> Tensor:
        """1 - p_y^q, averaged over the visits."""
        return self.distrust.values()

    def hyperparameters(self) -> dict[str, Any]:
        """The exponent; for the truncated form, also what is left out and when."""
        said: dict[str, Any] = {"exponent": self.exponent, "truncated": self.truncated}
        if self.truncated:
            said["truncation_threshold"] = self.threshold
            said["first_truncated_epoch"] = self.first
            said["truncation_interval_epochs"] = self.interval
        return said

    def log_values(self) -> dict[str, float]:
        """The share of labels that are left out."""
        return {"left_out": float((~self.is_kept).float().mean())} if self.truncated else {}
