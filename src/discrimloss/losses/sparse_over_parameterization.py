"""Sparse over-parameterisation: a learned term for each sample that explains a wrong label."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import IndexedLoss, loss_classes
from discrimloss.state.gathering import gather_rows

START = 1e-8
"""Initial value of all entries of ``u`` and ``v``. The authors draw them with this standard
deviation. Only their squares matter, so equal values have the same effect."""
LOWEST = 1e-4
"""Lower bound of a corrected probability, before and after normalisation (the authors' code)."""


def noise_terms(u: Tensor, v: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``u^2 y`` and ``v^2 (1 - y)``, clipped to [0, 1], shape (batch, classes).

    Args:
        u: shape (batch,).
        v: shape (batch, classes).
        label: one-hot, shape (batch, classes).
    """
    added = (u.square()[:, None] * label).clamp(0.0, 1.0)
    removed = (v.square() * (1.0 - label)).clamp(0.0, 1.0)
    return added, removed


def corrected_cross_entropy(
    probabilities: Tensor, added: Tensor, removed: Tensor, label: Tensor
) -> Tensor:
    """Return ``-log`` of the label's normalised probability with noise terms, shape (batch,)."""
    corrected = (probabilities + added - removed.detach()).clamp(min=LOWEST)
    corrected = functional.normalize(corrected, p=1.0, dim=1, eps=LOWEST).clamp(LOWEST, 1.0)
    return -(label * corrected.log()).sum(1)


def squared_error(predicted: Tensor, added: Tensor, removed: Tensor, label: Tensor) -> Tensor:
    """Return the squared distance of the label and the one-hot prediction with noise terms."""
    return (predicted + added - removed - label).square().sum(1)


@loss_classes.register("sop")
class SparseOverParameterization(IndexedLoss):
    """SOP: the prediction plus a learned sparse term u^2 - v^2 fits the label (Liu et al. 2022).

    The loss is the cross-entropy of ``p + u^2 y - v^2 (1 - y)``, clipped and normalised. ``u`` has
    one value for each sample, and ``v`` one for each sample and class. Both start near 0 and grow
    only if the network keeps contradicting the label, so that the network itself need not fit the
    label. ``u`` follows the gradients of the cross-entropy and of the squared error between the
    label and the one-hot prediction with both terms; ``v`` follows only the second. This is as in
    the authors' code (shengliu66/SOP). The class is the paper's SOP. SOP+, which adds a consistency
    term and a balance term, is not included.

    We depart from that code in one point: ``u`` and ``v`` start at 1e-8, while the code draws them
    with this standard deviation.

    Args:
        num_samples: size of the training set.
        num_classes: number of classes.
        u_lr: learning rate of ``u``, without momentum. 1, as in the configuration of that
            repository (CIFAR-100). The gradient is that of the batch mean, so the step is
            proportional to 1 / batch size; the authors' batch size is 128.
        v_lr: learning rate of ``v``. 10, as in the same configuration. The authors use 100 for
            asymmetric noise.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``. The terms always follow the mean.
    """

    needs_classes: ClassVar[str | None] = "adds a noise term to class probabilities"

    u: Tensor
    v: Tensor
    visited: Tensor

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        *,
        u_lr: float = 1.0,
        v_lr: float = 10.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, num_classes, reduction=reduction)
        if not (0.0 <= u_lr < math.inf and 0.0 <= v_lr < math.inf):
            raise ValueError(f"u_lr and v_lr must be finite and at least 0, not {u_lr}, {v_lr}")
        self.u_lr, self.v_lr = u_lr, v_lr
        self.register_buffer("u", torch.full((num_samples,), START))
        self.register_buffer("v", torch.full((num_samples, num_classes), START))
        self.register_buffer("visited", torch.zeros(num_samples, dtype=torch.bool))

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the corrected cross-entropies plus squared errors, then update the noise terms."""
        probabilities = functional.softmax(at_least_float32(logits), 1)
        label = functional.one_hot(target, logits.shape[1]).to(probabilities.dtype)
        losses = self._losses(probabilities, label, self.u[index], self.v[index])
        self._descend(gather_rows(probabilities.detach()), gather_rows(label), gather_rows(index))
        return losses

    def _losses(self, probabilities: Tensor, label: Tensor, u: Tensor, v: Tensor) -> Tensor:
        terms = noise_terms(u.to(probabilities), v.to(probabilities), label)
        classes = probabilities.shape[1]
        predicted = functional.one_hot(probabilities.detach().argmax(1), classes)
        errors = squared_error(predicted, *terms, label)
        return corrected_cross_entropy(probabilities, *terms, label) + errors

    def _descend(self, probabilities: Tensor, label: Tensor, index: Tensor) -> None:
        """Update ``u`` and ``v`` with the gradient of the mean loss of all processes."""
        with torch.enable_grad():
            u, v = self.u[index].requires_grad_(), self.v[index].requires_grad_()
            loss = self._losses(probabilities, label, u, v).mean()
            u_slope, v_slope = torch.autograd.grad(loss, (u, v))
        self.u.index_add_(0, index, -self.u_lr * u_slope)
        self.v.index_add_(0, index, -self.v_lr * v_slope)
        self.visited[index] = True

    def sample_scores(self) -> Tensor:
        """Return ``u^2``, at most 1: how much of the label the noise term explains."""
        return self.u.square().clamp(max=1.0).masked_fill(~self.visited, torch.nan)

    def hyperparameters(self) -> dict[str, Any]:
        """Return both learning rates."""
        return {"u_lr": self.u_lr, "v_lr": self.v_lr}

    def log_values(self) -> dict[str, float]:
        """Return the mean of ``u^2``, at most 1: an underestimate of the noise rate."""
        return {"mean_noise_term": float(self.u.square().clamp(max=1.0).mean())}
