"""Bootstrapping: targets between the label and the prediction."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import Tensor
from torch.nn import functional

from discrimloss.functional import Reduction, at_least_float32
from discrimloss.losses.base import loss_classes
from discrimloss.losses.label_probability import LabelProbabilityLoss

LABEL_WEIGHTS = {"soft": 0.95, "hard": 0.8}


@loss_classes.register("bootstrapping")
class Bootstrapping(LabelProbabilityLoss):
    """Bootstrapping: the target is beta y + (1 - beta) times the prediction (Reed et al. 2015).

    The loss is ``-sum(target * log p)``. The prediction in the target is ``p`` itself (soft), or
    the one-hot class of its maximum (hard). In the soft form, the gradient passes through both
    occurrences of ``p``. The paper shows that this is cross-entropy plus an entropy penalty.

    Args:
        num_samples: size of the training set; needed for `sample_scores`.
        form: ``"hard"`` or ``"soft"``. The hard form is better in the paper.
        label_weight: ``beta``, above 0 and at most 1. By default 0.8 for hard and 0.95 for soft, as
            in the paper. The authors did not release code. The reimplementation in
            YisenWang/symmetric_cross_entropy_for_noisy_labels uses the same values.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    needs_classes: ClassVar[str | None] = "mixes labels with class probabilities"

    def __init__(
        self,
        num_samples: int | None = None,
        *,
        form: Literal["soft", "hard"] = "hard",
        label_weight: float | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_samples, reduction=reduction)
        if form not in LABEL_WEIGHTS:
            raise ValueError(f"form must be 'soft' or 'hard', not {form!r}")
        if label_weight is None:
            label_weight = LABEL_WEIGHTS[form]
        if not 0.0 < label_weight <= 1.0:
            raise ValueError(f"label_weight must be above 0 and at most 1, not {label_weight}")
        self.form = form
        self.label_weight = label_weight

    def sample_losses(self, logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Return the cross-entropies with the mixed targets."""
        log_probabilities = functional.log_softmax(at_least_float32(logits), 1)
        of_label = -log_probabilities.gather(1, target[:, None]).squeeze(1)
        if self.form == "hard":
            of_prediction = -log_probabilities.amax(1)
        else:
            of_prediction = -(log_probabilities.exp() * log_probabilities).sum(1)
        self.record(of_label, index)
        return self.label_weight * of_label + (1.0 - self.label_weight) * of_prediction

    def hyperparameters(self) -> dict[str, Any]:
        """Return the form and the weight of the label."""
        return {"form": self.form, "label_weight": self.label_weight}
