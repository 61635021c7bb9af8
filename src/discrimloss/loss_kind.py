"""Detects the kind of a loss from the operations that computed it."""

from __future__ import annotations

from collections import deque

from torch import Tensor

DISTANCES = ("MseLoss", "SmoothL1Loss", "HuberLoss", "L1Loss", "Abs", "Pow", "Square")
"""Operations that measure the distance of a prediction from its target."""
OF_CLASSES = ("Softmax", "NllLoss", "BinaryCrossEntropy", "Sigmoid", "Softplus", "Logsumexp", "Exp")
"""Parts of the names of operations that compare class probabilities."""
MOST_OPERATIONS = 24
"""Number of operations to inspect, from the loss backwards. Later ones are the network's."""


def is_distance(losses: Tensor) -> bool:
    """Return whether losses are distances of regression targets, such as squared errors.

    Focal loss and the Brier score contain powers too, but of probabilities. Losses without a
    gradient do not show how they were computed, and are not taken for distances.

    >>> import torch
    >>> outputs, target = torch.zeros(4, requires_grad=True), torch.ones(4)
    >>> is_distance(torch.nn.functional.l1_loss(outputs, target, reduction="none"))
    True
    >>> is_distance(torch.nn.functional.soft_margin_loss(outputs, target, reduction="none"))
    False

    Args:
        losses: one per sample, with their gradient.
    """
    waiting, seen, found = deque([losses.grad_fn]), 0, False
    while waiting and seen < MOST_OPERATIONS:
        operation = waiting.popleft()
        if operation is None:
            continue
        seen += 1
        name = operation.name()
        if any(part in name for part in OF_CLASSES):
            return False
        found = found or name.startswith(DISTANCES)
        waiting.extend(before for before, _ in operation.next_functions)
    return found
