"""Label smoothing: targets that give every class a small probability."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import cross_entropy, loss_classes
from discrimloss.losses.label_probability import LabelProbabilityLoss


@loss_classes.register("label_smoothing")
class LabelSmoothing(LabelProbabilityLoss):
    """Label smoothing: cross-entropy with targets (1 - r) y + r / C (Szegedy et al. 2016).

    The targets are never fully certain. Lukasik et al. (2020) show that this also helps against
    wrong labels.

    Args:
        num_samples: size of the training set. Needed for `sample_scores`.
        smoothing: ``r``, at least 0 and below 1. 0.1, as in both papers.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs_classes: ClassVar[str | None] = "spreads the target over classes"

    def __init__(
        self,
        num_samples: int | None = None,
        *,
        smoothing: float = 0.1,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, reduction=reduction)
        if not 0.0 <= smoothing < 1.0:
            raise ValueError(f"smoothing must be at least 0 and below 1, not {smoothing}")
        self.smoothing = smoothing

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the cross-entropies with the smoothed targets."""
        logits = at_least_float32(logits)
        self.record(cross_entropy(logits, target), index)
        return functional.cross_entropy(
            logits, target, reduction="none", label_smoothing=self.smoothing
        )

    def hyperparameters(self) -> dict[str, Any]:
        """Return the weight that is spread over the classes."""
        return {"smoothing": self.smoothing}
