"""Targets and predictions of the samples of a skorch net, as the net's criterion defines them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrimloss.integrations.label_use import SampleLabels, class_labels, regression_labels

REGRESSION_LOSSES = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)


def sample_labels(
    criterion: nn.Module, output: Tensor, target: Tensor, *, gives_probabilities: bool = False
) -> SampleLabels | None:
    """Return targets and predictions of a batch, or None if samples have none or several.

    Args:
        criterion: the task loss.
        output: output of the module, shape (batch, …).
        target: shape (batch, …).
        gives_probabilities: whether the inputs of an `NLLLoss` are probabilities, as in a
            `NeuralNetClassifier`, instead of log probabilities.

    >>> sample_labels(nn.MSELoss(), torch.tensor([[0.5]]), torch.tensor([[2.0]])).options
    {'task': 'regression'}
    """
    if isinstance(criterion, nn.CrossEntropyLoss):
        return class_labels(target, output)
    if isinstance(criterion, nn.NLLLoss):
        return class_labels(target, _log(output) if gives_probabilities else output)
    if isinstance(criterion, nn.BCEWithLogitsLoss):
        return _two_classes(output, target)
    if isinstance(criterion, nn.BCELoss):
        return _two_classes(_log(output) - _log(1.0 - output), target)
    if isinstance(criterion, REGRESSION_LOSSES):
        return regression_labels(target, output)
    return None


def is_labelled(criterion: nn.Module, target: Tensor) -> Tensor | None:
    """Return which samples have a class, shape (batch,), bool; None if all must have one."""
    ignored = getattr(criterion, "ignore_index", None)
    return None if ignored is None else target.reshape(len(target), -1)[:, 0] != ignored


def _two_classes(logit: Tensor, target: Tensor) -> SampleLabels | None:
    """Return two logits for each sample. The output is the logit of class 1 against class 0."""
    known = regression_labels(target, logit)
    if known is None or known.output is None:
        return None
    if not bool(((known.target == 0) | (known.target == 1)).all()):  # e.g. soft targets
        return None
    logits = torch.stack([torch.zeros_like(known.output), known.output], dim=1)
    return class_labels(known.target.long(), logits)


def _log(probabilities: Tensor) -> Tensor:
    return torch.log(probabilities + torch.finfo(probabilities.dtype).eps)
