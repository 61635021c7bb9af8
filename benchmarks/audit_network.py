"""A small network of the audit benchmark, and its margins and losses during training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from discrimloss.training.seeds import derived_generator, derived_seed

HIDDEN = 256
LEARNING_RATE, WEIGHT_DECAY = 2e-3, 1e-4
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Training:
    """The settings of a training run."""

    epochs: int = 20
    batch_size: int = 64
    dropout: float = 0.0


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network, with margins and losses of its samples."""

    network: nn.Module
    margins: Array
    """Shape (samples,): logit of the label minus the largest other logit, averaged over epochs."""
    losses: Array
    """Shape (samples,): losses of the trained network in evaluation mode."""

    @torch.no_grad()
    def predict(self, features: Array) -> Array:
        """Return class probabilities, shape (samples, classes)."""
        logits = self.network(torch.from_numpy(features))
        probabilities: Array = logits.double().softmax(1).numpy()
        return probabilities


def train(
    features: Array, target: Array, classes: int, seed: int, training: Training | None = None
) -> TrainedNetwork:
    """Train one hidden layer with AdamW and a cosine schedule.

    Args:
        features: shape (samples, features), float32.
        target: shape (samples,), positions of classes.
        classes: number of classes.
        seed: seed of the initial weights and of the order of the samples.
        training: settings of the training.
    """
    training = training or Training()
    torch.manual_seed(derived_seed(seed, "network"))
    inputs, labels = torch.from_numpy(features), torch.from_numpy(target)
    network = nn.Sequential(
        nn.Linear(inputs.shape[1], HIDDEN),
        nn.ReLU(),
        nn.Dropout(training.dropout),
        nn.Linear(HIDDEN, classes),
    )
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = training.epochs * math.ceil(len(labels) / training.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator = derived_generator(seed, "order")
    total = torch.zeros(len(labels), dtype=torch.float64)
    for _ in range(training.epochs):
        for index in torch.randperm(len(labels), generator=generator).split(training.batch_size):
            logits = network(inputs[index])
            optimizer.zero_grad()
            cross_entropy(logits, labels[index]).backward()
            optimizer.step()
            schedule.step()
            total[index] += margins(logits.detach(), labels[index]).double()
    network.eval()
    with torch.no_grad():
        losses = cross_entropy(network(inputs), labels, reduction="none")
    return TrainedNetwork(network, (total / training.epochs).numpy(), losses.double().numpy())


def margins(logits: Tensor, target: Tensor) -> Tensor:
    """Return the logit of the label minus the largest other logit."""
    own = logits.gather(1, target[:, None])[:, 0]
    others = logits.scatter(1, target[:, None], -torch.inf)
    return own - others.max(1).values


def with_threshold_samples(
    target: Array, classes: int, seed: int
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return labels with an additional class, to which a random part of the samples is moved.

    The part is one sample in (number of classes + 1). These labels can only be memorised, so their
    margins are like those of wrong labels (Pleiss et al., 2020).

    Returns:
        The labels, and which samples are in the new class.
    """
    number = max(round(len(target) / (classes + 1)), 1)
    generator = derived_generator(seed, "threshold samples")
    chosen = torch.randperm(len(target), generator=generator)[:number].numpy()
    changed, is_threshold = target.copy(), np.zeros(len(target), dtype=np.bool_)
    changed[chosen], is_threshold[chosen] = classes, True
    return changed, is_threshold
