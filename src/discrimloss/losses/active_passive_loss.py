"""Active-passive losses: a normalised cross-entropy, plus a loss that lowers the other classes."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import loss_classes
from discrimloss.losses.label_probability import LabelProbabilityLoss
from discrimloss.losses.symmetric_cross_entropy import reverse_cross_entropy


def normalized_cross_entropy(log_probabilities: Tensor, target: Tensor) -> Tensor:
    """Return ``log p_y / sum_k log p_k``, in [0, 1], shape (batch,). Robust to symmetric noise.

    >>> normalized_cross_entropy(torch.tensor([[0.25, 0.25, 0.5]]).log(), torch.tensor([2]))
    tensor([0.2000])
    """
    return log_probabilities.gather(1, target[:, None]).squeeze(1) / log_probabilities.sum(1)


@loss_classes.register("active_passive")
class ActivePassiveLoss(LabelProbabilityLoss):
    """Active-passive loss: normalised cross-entropy plus RCE or MAE (Ma et al. 2020).

    The active part, ``NCE``, raises the probability of the label. The passive part lowers the
    probabilities of the other classes. ``RCE`` is the reverse cross-entropy with
    ``log 0 = log 1e-4``. ``MAE`` is ``1 - p_y``, half of the mean absolute error. Both definitions
    and the defaults below follow the authors' code (HanxunH/Active-Passive-Losses).

    Args:
        num_samples: size of the training set. Needed for `sample_scores`.
        passive: ``"rce"`` (NCE+RCE) or ``"mae"`` (NCE+MAE). In the paper, both work about equally.
        active_weight: ``alpha``, factor of NCE. 1 for MNIST and CIFAR-10, 10 for CIFAR-100.
        passive_weight: ``beta``, factor of the passive part. 1 for CIFAR-10 and 10 for MNIST. For
            CIFAR-100, 0.1 with RCE and 1 with MAE.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs_classes: ClassVar[str | None] = "normalises by the losses of all classes"

    def __init__(
        self,
        num_samples: int | None = None,
        *,
        passive: Literal["rce", "mae"] = "rce",
        active_weight: float = 1.0,
        passive_weight: float = 1.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, reduction=reduction)
        if passive not in ("rce", "mae"):
            raise ValueError(f"passive must be 'rce' or 'mae', not {passive!r}")
        if not (0.0 <= active_weight < math.inf and 0.0 <= passive_weight < math.inf):
            raise ValueError(
                "active_weight and passive_weight must be finite and at least 0, "
                f"not {active_weight}, {passive_weight}"
            )
        self.passive = passive
        self.active_weight, self.passive_weight = active_weight, passive_weight

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the weighted sum of the active and the passive loss."""
        log_probabilities = functional.log_softmax(at_least_float32(logits), 1)
        cross_entropies = -log_probabilities.gather(1, target[:, None]).squeeze(1)
        self.record(cross_entropies, index)
        if self.passive == "rce":
            passive = reverse_cross_entropy(cross_entropies)
        else:
            passive = -torch.expm1(-cross_entropies)
        active = normalized_cross_entropy(log_probabilities, target)
        return self.active_weight * active + self.passive_weight * passive

    def hyperparameters(self) -> dict[str, Any]:
        """Return the passive part and both factors."""
        return {
            "passive": self.passive,
            "active_weight": self.active_weight,
            "passive_weight": self.passive_weight,
        }
