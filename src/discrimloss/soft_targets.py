"""Targets that divide their weight among classes, and the adjustment of predictions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discrimloss.functional import at_least_float32
from discrimloss.state.predictions import TopPredictions

LEARNED = 1e-3
"""Below this cross-entropy, a label is learned, and its task loss may round to 0."""


class Targets(NamedTuple):
    """The targets of the rows of a batch, instead of their labels."""

    classes: Tensor
    """Shape (rows, classes), int64."""
    weights: Tensor
    """Shape (rows, classes): the weight of each class. The sum of a row is 1."""

    def loss(self, losses: Tensor, logits: Tensor, target: Tensor, unit: Tensor) -> Tensor:
        """Return the task loss of the label plus the cross-entropy of the other classes, (rows,).

        Each term is multiplied by the weight of its class.

        Args:
            losses: shape (rows,): the task loss of the given label.
            logits: shape (rows, classes).
            target: shape (rows,).
            unit: shape (classes,): the ratio of task loss to cross-entropy of each class, by which
                class weights apply to the cross-entropies too.
        """
        label = target.unsqueeze(1)
        is_label = self.classes == label
        all_surprises = -at_least_float32(logits).log_softmax(1)
        surprise = all_surprises.gather(1, self.classes)
        # Rows that the user leaves out (loss 0) and impossible classes are not learned.
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
    """Return the bias of each class that gives the mean predictions these class frequencies.

    Args:
        top: predictions of some samples.
        frequency: shape (classes,).
        exponent: exponent of the probabilities.
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
    """Return values at flat positions, on the device of the positions."""
    return values.to(positions.device).take(positions)
