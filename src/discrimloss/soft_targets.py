"""Targets that divide their weight among classes, and how predictions are adjusted for them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discrimloss.functional import at_least_float32
from discrimloss.state.predictions import TopPredictions

LEARNED = 1e-3
"""The cross-entropy of a learned label, whose task loss may be rounded to 0."""


class Targets(NamedTuple):
    """What the rows of a batch are to learn instead of their labels."""

    classes: Tensor
    """Shape (rows, classes), int64."""
    weights: Tensor
    """Shape (rows, classes): the weight of each; together 1 in a row."""

    def loss(self, losses: Tensor, logits: Tensor, target: Tensor, unit: Tensor) -> Tensor:
        """Shape (rows,): the user's loss by the weight of the label, cross-entropy of the rest.

        Args:
            losses: shape (rows,): the task loss of the given label.
            logits: shape (rows, classes).
            target: shape (rows,).
            unit: shape (classes,): the task loss of each class over its cross-entropy, so that
                class weights hold for other classes too.
        """
        label = target.unsqueeze(1)
        is_label = self.classes == label
        all_surprises = -at_least_float32(logits).log_softmax(1)
        surprise = all_surprises.gather(1, self.classes)
        # Neither what the user leaves out (a loss of 0) nor a class that cannot be is learned.
        is_surprising = all_surprises.detach().gather(1, label) >= LEARNED
        is_left_out = is_surprising & (losses.detach() == 0).unsqueeze(1)
        is_impossible = surprise.isposinf()
        rest = self.weights * at_positions(unit, self.classes)
        rest = rest.masked_fill(is_label | is_left_out | is_impossible, 0.0)
        of_label = (self.weights * is_label).sum(1)
        return of_label * losses + (rest * surprise.masked_fill(is_impossible, 0.0)).sum(1)


def class_bias(
    top: TopPredictions, frequency: Tensor, exponent: float, iterations: int = 30
) -> Tensor:
    """The bias of each class under which predictions have these class frequencies in the mean.

    Args:
        top: predictions of some samples.
        frequency: shape (classes,).
        exponent: of the probabilities.
        iterations: number of fixed-point steps.
    """
    scores = exponent * top.mass.clamp(min=1e-6).log()
    bias = torch.zeros_like(frequency)
    wanted = frequency.clamp(min=1e-9).log()
    for _ in range(iterations):
        shares = (scores + bias[top.classes]).softmax(1)
        found = torch.zeros_like(frequency).index_add_(0, top.classes.flatten(), shares.flatten())
        found = found / max(len(scores), 1)
        step = torch.where(found > 0, wanted - found.clamp(min=1e-9).log(), 0.0)
        bias = (bias + 0.7 * step).clamp(-15.0, 15.0)
    return bias


def at_positions(values: Tensor, positions: Tensor) -> Tensor:
    """Values at flat positions, on the device of the positions."""
    return values.to(positions.device).take(positions)
