"""Detects the kind of a loss from the operations that computed it."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

from torch import Tensor

LossKind = Literal["distances", "weighted", "other"]
DISTANCES = ("MseLoss", "SmoothL1Loss", "HuberLoss", "L1Loss", "Abs", "Pow", "Square")
"""Operations that measure the distance of a prediction from its target."""
OF_CLASSES = ("Softmax", "NllLoss", "BinaryCrossEntropy", "Sigmoid", "Softplus", "Logsumexp", "Exp")
"""Parts of the names of operations that compare class probabilities."""
WEIGHTS = ("_saved_weight", "_saved_pos_weight")
"""Attributes of operations that hold class weights."""
MOST_OPERATIONS = 24
"""Maximum number of operations to inspect, from the loss backwards. The rest is the network."""


def kind_of_losses(losses: Tensor) -> LossKind:
    """Return whether losses are distances of regression targets, or weighted by class.

    Distances are, for example, squared and absolute errors. Focal loss and the Brier score contain
    powers too, but of probabilities. Losses without a gradient do not show how they were computed,
    and are of the kind ``"other"``, as plain cross-entropy is.

    >>> import torch
    >>> from torch.nn.functional import cross_entropy, l1_loss
    >>> outputs = torch.zeros(2, 2, requires_grad=True)
    >>> kind_of_losses(l1_loss(outputs[:, 0], torch.ones(2), reduction="none"))
    'distances'
    >>> labels, weight = torch.tensor([0, 1]), torch.tensor([1.0, 3.0])
    >>> kind_of_losses(cross_entropy(outputs, labels, weight=weight, reduction="none"))
    'weighted'

    Args:
        losses: one per sample, with their gradient.
    """
    waiting, seen = deque([losses.grad_fn]), 0
    has_distance = has_classes = False
    while waiting and seen < MOST_OPERATIONS:
        operation = waiting.popleft()
        if operation is None:
            continue
        seen += 1
        name = operation.name()
        if any(part in name for part in OF_CLASSES):
            has_classes = True
            if _has_unequal_weights(operation):
                return "weighted"
        has_distance = has_distance or name.startswith(DISTANCES)
        waiting.extend(before for before, _ in operation.next_functions)
    return "distances" if has_distance and not has_classes else "other"


def _has_unequal_weights(operation: Any) -> bool:
    weights = [getattr(operation, name, None) for name in WEIGHTS]
    known = [weight for weight in weights if isinstance(weight, Tensor) and weight.numel()]
    return any(bool((weight != weight.flatten()[0]).any()) for weight in known)
