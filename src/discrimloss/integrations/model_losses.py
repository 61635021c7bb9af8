"""Computes the loss of each sample from a model's logits: the model returns only the mean loss."""

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
    """Computes one loss per sample from a model's logits and labels.

    - One class for a sequence, an image or a choice: cross-entropy.
    - A class for each token: the mean cross-entropy of the labelled tokens.
    - A regression target: squared error.
    - Several labels at once: the mean binary cross-entropy of all labels.

    >>> losses = ModelLosses()
    >>> losses(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor([1.3863, 1.3863])
    """

    problem_type: str | None = None
    """The entry `problem_type` of a model's config. If None, the shapes decide."""
    single_output: bool = False
    """Whether the model has one output. Integer labels can then be regression targets."""
    shifted: bool = False
    """Whether position ``i`` predicts label ``i + 1``, as in causal language models."""
    label_smoothing: float = 0.0

    @classmethod
    def of(cls, model: Any, label_smoothing: float = 0.0) -> ModelLosses:
        """Return the losses for a model of the transformers library, or a similar one."""
        config = getattr(model, "config", None)
        is_encoder_decoder = getattr(config, "is_encoder_decoder", False)
        return cls(
            problem_type=getattr(config, "problem_type", None),
            single_output=getattr(config, "num_labels", None) == 1,
            shifted=getattr(model, "loss_type", None) in SHIFTING_LOSSES and not is_encoder_decoder,
            label_smoothing=label_smoothing,
        )

    def labelled(self, labels: Tensor) -> Tensor:
        """Return which samples have a label, shape (batch,), bool. One labelled token is enough."""
        are_numbers = labels.is_floating_point() or (
            self.problem_type == REGRESSION or (self.problem_type is None and self.single_output)
        )
        if are_numbers:
            return torch.ones(len(labels), dtype=torch.bool, device=labels.device)
        if self.shifted:
            labels = labels[:, 1:]
        return (labels.reshape(len(labels), -1) != NOT_LABELLED).any(1)

    def sample_labels(self, logits: Tensor, labels: Tensor) -> SampleLabels | None:
        """Return the target and output of each sample, or None if samples have several targets.

        This depends only on shapes and dtypes, so that all processes agree.
        """
        if self.shifted:
            return None
        if logits.numel() == labels.numel():
            is_regression = self.problem_type in (None, REGRESSION)
            return regression_labels(labels, logits) if is_regression else None
        return class_labels(labels, logits)

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the losses, shape (batch,), at least float32. 0 for samples without a label."""
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
                "cannot compute the loss of each sample from logits of shape "
                f"{tuple(logits.shape)} and {labels.dtype} labels of shape {tuple(labels.shape)}: "
                "pass sample_losses, a function of (outputs, labels, model) that returns one loss "
                "for each sample"
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
    """Return whether a model's outputs contain logits."""
    return isinstance(outputs, dict) and isinstance(outputs.get("logits"), Tensor)


def logits_of(outputs: Any) -> Tensor:
    """Return the logits from a model's outputs: a mapping, a tuple or an object."""
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, dict):
        if "logits" not in outputs:
            raise ValueError(
                f"the model returns no logits, only {', '.join(outputs)}: pass sample_losses, a "
                "function of (outputs, labels, model) that returns one loss for each sample"
            )
        logits: Tensor = outputs["logits"]
        return logits
    has_loss_first = len(outputs) > 1 and outputs[0].ndim == 0
    first: Tensor = outputs[1 if has_loss_first else 0]
    return first
