"""Curriculum loss: the samples of a batch that give the tightest bound of the 0-1 loss."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from discrimloss.functional import at_least_float32
from discrimloss.loss import DiscrimLoss
from discrimloss.losses.sample_state import SampleMean, loss_history
from discrimloss.state.gathering import gather_rows, own_rows
from discrimloss.training.methods.base import Batch, Method, Setting, StepResult, methods
from discrimloss.training.methods.noise_rate import NoiseRate


def margins(logits: Tensor, target: Tensor) -> Tensor:
    """``u``: the label's logit minus the greatest of the others, shape (batch,).

    >>> margins(torch.tensor([[2.0, 5.0, 1.0]]), torch.tensor([0]))
    tensor([-3.])
    """
    column = target.unsqueeze(1)
    others = logits.scatter(1, column, -math.inf).amax(dim=1)
    return logits.gather(1, column).squeeze(1) - others


def hard_hinge(margin: Tensor) -> Tensor:
    """``max(0, 1 - u)``, which is nowhere below the 0-1 loss."""
    return (1.0 - margin).clamp(min=0.0)


def soft_hinge(logits: Tensor, target: Tensor) -> Tensor:
    """As `hard_hinge`; with a smooth maximum over all logits where the label is not the answer.

    That is 1 plus the cross-entropy: above the hard hinge, and with a gradient for all classes.
    """
    margin = margins(logits, target)
    wrong = 1.0 + F.cross_entropy(logits, target, reduction="none")
    return torch.where(margin < 0, wrong, hard_hinge(margin))


def selection(margin: Tensor, noise_rate: float) -> Tensor:
    """``v``, 1 for the samples that are learned from and 0 for the others, shape (batch,).

    It minimises ``max(sum(v * loss), C - sum(v))`` with the hard hinge as the loss and
    ``C = (1 - eps)^2 n + (1 - eps) sum(u < 0)``. The best ``k`` samples to take are those of the
    smallest losses; one more of them helps as long as the sum up to it is at most ``C + 1 - k``.
    """
    losses, order = hard_hinge(margin).sort()
    clean_share = 1.0 - noise_rate
    bound = clean_share**2 * len(margin) + clean_share * (margin < 0).sum()
    count = torch.arange(1, len(margin) + 1, device=margin.device)
    # From the first sample that does not help no other one does: sums grow, what they may be falls.
    is_selected = losses.cumsum(0) <= bound + 1 - count
    return torch.zeros_like(margin).scatter(0, order, is_selected.to(margin.dtype))


@methods.register("curriculum_loss")
class CurriculumLoss(Method):
    """Curriculum loss, noise-pruned (NPCL): a selection that bounds the 0-1 loss (Lyu, Tsang 2020).

    Every batch is learned from in part: `selection` finds the samples for which the bound is
    tightest, and the loss is the sum of their hinge losses, divided by the size of the batch. At a
    noise rate of 0 this is the paper's CL, above it NPCL. The selection is made by the hard hinge
    and the gradient is that of the soft one, as in the authors' released code; that code also adds
    one sample more where the count outweighs the sum of losses (a footnote), which we leave out: it
    is not in the minimum.

    Args:
        setting: what may be known of the task; it must have classes.
        noise_rate: ``eps``, which the paper takes as known. None (ours) to estimate it from the
            hinge losses; it is 0, and the method CL, until then.
        warmup: part of the run in which all samples are learned from. The paper begins to select in
            epoch 10 of 200 on CIFAR, and 5 of 200 on MNIST, after thousands of steps. The same part
            of a short run is too little: a class that is not yet learned is left out for good. Ours
            ends where `NoiseRate` makes its first estimate or, if it makes any, its last.
        hinge: ``"soft"`` or ``"hard"``: which loss of the selected samples is minimised. The
            released code has the soft one; the hard one has a gradient for two classes only.
    """

    needs: ClassVar[str] = "noise rate, given or estimated"

    def __init__(
        self,
        setting: Setting,
        *,
        noise_rate: float | None = None,
        warmup: float = 0.15,
        hinge: Literal["soft", "hard"] = "soft",
    ) -> None:
        setting.require_classes("curriculum_loss", "selects samples by the margin of their class")
        if not 0.0 <= warmup <= 1.0:
            raise ValueError(f"warmup must be a part of the run, from 0 to 1, not {warmup}")
        if hinge not in ("soft", "hard"):
            raise ValueError(f"hinge must be 'soft' or 'hard', not {hinge!r}")
        rate = NoiseRate(noise_rate, setting.epochs, waits_for_last=True)
        super().__init__(setting)
        self.noise_rate = rate
        self.hinge = hinge
        self.warmup_epochs = math.ceil(warmup * setting.epochs)
        if not rate.is_given:
            # Not before the last estimate: what is left out is not learned, so that each further
            # estimate would confirm the one before.
            self.warmup_epochs = max(self.warmup_epochs, rate.last - 1)
        self.left_out = SampleMean(setting.num_samples)
        # The cross-entropy does not tell enough here: a label that is learned to a margin of 1,
        # where the hinge ends, still has a good part of the loss it had at first.
        self.hinge_history: DiscrimLoss | None = None
        if noise_rate is None:
            self.hinge_history = loss_history(setting.num_samples, setting.epochs)
        self._rate_now = float(rate)  # follows from the state: no step waits for the device

    def training_step(self, batch: Batch) -> StepResult:
        """The hinge losses of the selected samples, divided by the size of the batch."""
        output = self.networks[0](batch.inputs)
        logits = at_least_float32(output)
        margin = margins(logits, batch.target)
        hinges = soft_hinge(logits, batch.target) if self.hinge == "soft" else hard_hinge(margin)

        everyones = gather_rows(margin.detach())
        if self.epoch > self.warmup_epochs:
            selected = selection(everyones, self._rate_now)
        else:
            selected = torch.ones_like(everyones)
        self.left_out.add(1.0 - own_rows(selected), batch.index)
        if self.hinge_history is not None:
            self.hinge_history(hinges.detach(), batch.index)
        losses = self.setting.task_losses(output, batch.target)
        # By the size of the batch, as the bound has it: a mean over the selected ones alone makes
        # long steps of few samples, and large learning rates diverge.
        loss = (own_rows(selected) * hinges).mean()
        return StepResult(loss, losses.detach(), output.detach())

    def begin_epoch(self, epoch: int) -> None:
        """Estimate the noise rate, unless it is given, until the selection begins."""
        super().begin_epoch(epoch)
        if self.hinge_history is not None:
            self.hinge_history.set_epoch(epoch)
        if epoch <= self.warmup_epochs + 1:
            self.noise_rate.begin_epoch(epoch, self.hinge_history)
        self._rate_now = float(self.noise_rate)

    def sample_scores(self) -> Tensor | None:
        """The share of a sample's visits in which it was not selected."""
        return self.left_out.values()

    def hyperparameters(self) -> dict[str, Any]:
        """The noise rate and where it is from, the loss, and how long all samples are learned."""
        return {
            **self.noise_rate.record(),
            "hinge": self.hinge,
            "warmup_epochs": self.warmup_epochs,
        }

    def log_values(self) -> dict[str, float]:
        """The noise rate in use."""
        return {"noise_rate": float(self.noise_rate)}
