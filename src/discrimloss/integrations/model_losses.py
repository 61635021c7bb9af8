"""The loss of each sample from a model's logits. The model itself returns only their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from discrimloss.integrations.label_use import SampleLabels, class_labels, regression_labels

NOT_LABELLED = -100
REGRESSION, MULTI_LABEL = "regression", "multi_label_classification"
SHIFTING_LOSSES = ("ForCausalLM", "ForConditionalGeneration")


@dataclass(frozen=True)
class ModelLosses:
    """How a model's logits and labels become one loss for each sample.

    Classes of a sequence, an image or a choice: cross-entropy. Classes of tokens: the mean of the
    labelled ones. Numbers: squared error. Several labels at once: binary cross-entropy, the mean of
    all labels.

    >>> losses = ModelLosses()
    >>> losses(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor([1.3863, 1.3863])
    """

    problem_type: str | None = None
    """The entry of the same name in a model's config. None: the shapes decide."""
    single_output: bool = False
    """The model has one output, so that whole numbers may be measurements and not classes."""
    shifted: bool = False
    """Position ``i`` predicts the label ``i + 1``, as in causal language models."""
    label_smoothing: float = 0.0

    @classmethod
    def of(cls, model: Any, label_smoothing: float = 0.0) -> ModelLosses:
        """The losses that fit a model of the transformers library, or one like it."""
        config = getattr(model, "config", None)
        is_encoder_decoder = getattr(config, "is_encoder_decoder", False)
        return cls(
            problem_type=getattr(config, "problem_type", None),
            single_output=getattr(config, "num_labels", None) == 1,
            shifted=getattr(model, "loss_type", None) in SHIFTING_LOSSES and not is_encoder_decoder,
            label_smoothing=label_smoothing,
        )

    def labelled(self, labels: Tensor) -> Tensor:
        """Which samples have a label, shape (batch,), bool; a sequence needs one labelled token."""
        are_numbers = labels.is_floating_point() or (
            self.problem_type == REGRESSION or (self.problem_type is None and self.single_output)
        )
        if are_numbers:
            return torch.ones(len(labels), dtype=torch.bool, device=labels.device)
        if self.shifted:
            labels = labels[:, 1:]
        return (labels.reshape(len(labels), -1) != NOT_LABELLED).any(1)

    def sample_labels(self, logits: Tensor, labels: Tensor) -> SampleLabels | None:
        """The target of each sample and the output for it; None where a sample has several.

        Only shapes and types count, so that all processes find the same.
        """
        if self.shifted:
            return None
        if logits.numel() == labels.numel():
            is_regression = self.problem_type in (None, REGRESSION)
            return regression_labels(labels, logits) if is_regression else None
        return class_labels(labels, logits)

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Shape (batch,), float32 at least; 0 where nothing is labelled."""
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if logits.numel() == labels.numel():
            one_each = logits.numel() == len(logits)
            problem_type = self.problem_type or (REGRESSION if one_each else MULTI_LABEL)
            labels_of_all = labels.reshape(logits.shape).to(logits.dtype)
            if problem_type == REGRESSION:
                return _mean_of_rows(F.mse_loss(logits, labels_of_all, reduction="none"))
            if problem_type == MULTI_LABEL:
                bce = F.binary_cross_entropy_with_logits(logits, labels_of_all, reduction="none")
                return _mean_of_rows(bce)
        if labels.is_floating_point() or labels.numel() != logits[..., 0].numel():
            raise ValueError(
                f"no loss of each sample follows from logits of shape {tuple(logits.shape)} and "
                f"{labels.dtype} labels of shape {tuple(labels.shape)}: give sample_losses, a "
                "function of (outputs, labels, model) that returns one loss for each sample"
            )
        return self._cross_entropy(logits, labels.reshape(logits.shape[:-1]))

    def _cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.shifted:
            logits, labels = logits[:, :-1], labels[:, 1:]
        losses = F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            labels.reshape(-1),
            ignore_index=NOT_LABELLED,
            reduction="none",
            label_smoothing=self.label_smoothing,
        )
        number = (labels != NOT_LABELLED).reshape(len(labels), -1).sum(1)
        return losses.reshape(len(labels), -1).sum(1) / number.clamp(min=1)


def _mean_of_rows(losses: Tensor) -> Tensor:
    return losses.reshape(len(losses), -1).mean(1)


def has_logits(outputs: Any) -> bool:
    """Whether a model's outputs have something of this name."""
    return isinstance(outputs, dict) and isinstance(outputs.get("logits"), Tensor)


def logits_of(outputs: Any) -> Tensor:
    """The logits among a model's outputs, whichever form they have."""
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, dict):
        if "logits" not in outputs:
            raise ValueError(
                f"the model returns no logits, only {', '.join(outputs)}: give sample_losses, a "
                "function of (outputs, labels, model) that returns one loss for each sample"
            )
        logits: Tensor = outputs["logits"]
        return logits
    has_loss_first = len(outputs) > 1 and outputs[0].ndim == 0
    first: Tensor = outputs[1 if has_loss_first else 0]
    return first
