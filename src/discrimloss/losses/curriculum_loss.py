"""Curriculum loss: selects the samples of a batch that give the tightest bound of the 0-1 loss."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.loss import DiscrimLoss
from discrimloss.losses.base import IndexedLoss, cross_entropy, loss_classes
from discrimloss.losses.noise_rate import NoiseRate
from discrimloss.losses.sample_state import SampleMean, loss_history
from discrimloss.state.gathering import gather_rows, own_rows, weights_of_mean


def margins(logits: Tensor, target: Tensor) -> Tensor:
    """Return ``u``, the label's logit minus the largest other logit, shape (batch,).

    >>> margins(torch.tensor([[2.0, 5.0, 1.0]]), torch.tensor([0]))
    tensor([-3.])
    """
    column = target.unsqueeze(1)
    others = logits.scatter(1, column, -math.inf).amax(dim=1)
    return logits.gather(1, column).squeeze(1) - others


def hard_hinge(margin: Tensor) -> Tensor:
    """Return ``max(0, 1 - u)``, an upper bound of the 0-1 loss."""
    return (1.0 - margin).clamp(min=0.0)


def soft_hinge(logits: Tensor, target: Tensor) -> Tensor:
    """Return `hard_hinge`, with a smooth maximum over all logits if the prediction is wrong.

    For wrong predictions it is 1 plus the cross-entropy. This is above the hard hinge and has a
    gradient for all classes.
    """
    margin = margins(logits, target)
    wrong = 1.0 + cross_entropy(logits, target)
    return torch.where(margin < 0, wrong, hard_hinge(margin))


def selection(margin: Tensor, noise_rate: float, *, one_more: bool = False) -> Tensor:
    """Return ``v``, 1 for samples to learn from and 0 for the others, shape (batch,).

    It minimises ``max(sum(v * loss), C - sum(v))``, where the loss is the hard hinge and
    ``C = (1 - eps)^2 n + (1 - eps) sum(u < 0)``. Here ``eps`` is the noise rate and ``n`` the
    number of samples. The best selection of ``k`` samples has the smallest losses. The sample with
    the k-th smallest loss is selected if the sum of the ``k`` smallest losses is at most
    ``C + 1 - k``.

    With `one_more`, the next sample is selected too if the sum of the ``k`` selected losses is at
    most ``C - k``.
    """
    losses, order = hard_hinge(margin).sort()
    clean_fraction = 1.0 - noise_rate
    bound = clean_fraction**2 * len(margin) + clean_fraction * (margin < 0).sum()
    count = torch.arange(1, len(margin) + 1, device=margin.device)
    # After the first sample over the limit, all are: the sum grows and the limit falls.
    sums = losses.cumsum(0)
    is_selected = sums <= bound + 1 - count
    if one_more:
        has_room = is_selected & (sums <= bound - count)
        is_last = is_selected.sum() == count
        follows = (has_room & is_last).roll(1)
        follows[0] = False
        is_selected = is_selected | follows
    return torch.zeros_like(margin).scatter(0, order, is_selected.to(margin.dtype))


@loss_classes.register("curriculum_loss")
class CurriculumLoss(IndexedLoss):
    """Curriculum loss, noise-pruned (NPCL): a selection that bounds the 0-1 loss (Lyu, Tsang 2020).

    The network learns only from the samples of each batch for which the bound is tightest (see
    `selection`). The loss is the mean of their hinge losses. At a noise rate of 0 this is the
    paper's CL, otherwise NPCL. By default, the selection uses the hard hinge and the loss is the
    soft hinge, as in the authors' released code (YuemingLYU/Curriculum-Loss).

    Args:
        num_samples: size of the training set.
        epochs: length of the run.
        noise_rate: ``eps``, which the paper assumes to be known. By default it is estimated from
            the hinge losses, which is our addition. Until the first estimate, it is 0.
        warmup: fraction of the run, at its start, in which the network learns from all samples. By
            default 0.15. If the noise rate is estimated, the warm-up lasts at least until the last
            estimate of `NoiseRate`. Other sources quote 10 of 200 epochs for CIFAR and 5 of 200 for
            MNIST, but we could not verify them. The same fraction of a short run is too small: a
            class that is not learned by the end of the warm-up is left out for good.
        average: the divisor of the mean: ``"selected"`` for the number of selected samples, as in
            the authors' released code, or ``"batch"`` for all samples, as in the paper's bound. The
            second makes smaller steps in batches with few selected samples.
        hinge: ``"soft"`` or ``"hard"``: the loss of the selected samples that is minimised. The
            released code uses the soft hinge. The hard hinge has a gradient for only two classes.
        one_more: whether to select the next sample too if the bound allows it (a footnote of the
            paper). The released code does so. Our default is False, because the bound is not at its
            minimum with that sample.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``. Left-out samples count as 0.
    """

    needs: ClassVar[str] = "noise rate, given or estimated"
    needs_classes: ClassVar[str | None] = "selects samples by the margin of their class"

    def __init__(
        self,
        num_samples: int,
        epochs: int,
        *,
        noise_rate: float | None = None,
        warmup: float = 0.15,
        average: Literal["selected", "batch"] = "selected",
        hinge: Literal["soft", "hard"] = "soft",
        one_more: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, reduction=reduction)
        if not 0.0 <= warmup <= 1.0:
            raise ValueError(f"warmup must be a fraction of the run, from 0 to 1, not {warmup}")
        if hinge not in ("soft", "hard"):
            raise ValueError(f"hinge must be 'soft' or 'hard', not {hinge!r}")
        if average not in ("selected", "batch"):
            raise ValueError(f"average must be 'selected' or 'batch', not {average!r}")
        self.average = average
        self.one_more = one_more
        self.noise_rate = rate = NoiseRate(noise_rate, epochs, waits_for_last=True)
        self.hinge = hinge
        self.warmup_epochs = math.ceil(warmup * epochs)
        self.hinge_history: DiscrimLoss | None = None
        if not rate.is_given:
            # The selection starts at the last estimate: left-out samples are not learned, so later
            # estimates would only confirm the first one.
            self.warmup_epochs = max(self.warmup_epochs, rate.last - 1)
            self.hinge_history = loss_history(num_samples, epochs)
        self.left_out = SampleMean(num_samples)
        self._current_rate = float(rate)  # on the host: no step waits for the device

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the hinge losses of the selected samples, and 0 for the others."""
        logits = at_least_float32(logits)
        margin = margins(logits, target)
        hinges = soft_hinge(logits, target) if self.hinge == "soft" else hard_hinge(margin)
        everyones = gather_rows(margin.detach())
        if self.epoch > self.warmup_epochs:
            everyones = selection(everyones, self._current_rate, one_more=self.one_more)
        else:
            everyones = torch.ones_like(everyones)
        self.left_out.add(1.0 - own_rows(everyones), index)
        if self.hinge_history is not None:
            self.hinge_history(hinges.detach(), index)
        weights = weights_of_mean if self.average == "selected" else own_rows
        return weights(everyones) * hinges

    def set_epoch(self, epoch: int) -> None:
        """Estimate the noise rate until the selection begins, unless it is given."""
        super().set_epoch(epoch)
        if self.hinge_history is not None:
            self.hinge_history.set_epoch(epoch)
        if epoch <= self.warmup_epochs + 1:
            self.noise_rate.begin_epoch(epoch, self.hinge_history)
        self._current_rate = float(self.noise_rate)

    def sample_scores(self) -> Tensor | None:
        """Return the fraction of its visits in which a sample was not selected."""
        return self.left_out.values()

    def hyperparameters(self) -> dict[str, Any]:
        """Return the noise rate and its source, the hinge, and the length of the warm-up."""
        return {
            **self.noise_rate.record(),
            "average": self.average,
            "hinge": self.hinge,
            "one_more": self.one_more,
            "warmup_epochs": self.warmup_epochs,
        }

    def log_values(self) -> dict[str, float]:
        """Return the noise rate in use."""
        return {"noise_rate": float(self.noise_rate)}
