"""A small network of the audit benchmark, and what its training shows of the labels."""

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
    """How a network is trained."""

    epochs: int = 20
    batch_size: int = 64
    dropout: float = 0.0


@dataclass(frozen=True)
class TrainedNetwork:
    """A network, and what was seen while it was trained."""

    network: nn.Module
    margins: Array
    """Shape (samples,): logit of the label less the largest other one, mean over the visits."""
    losses: Array
    """Shape (samples,): of the trained network in evaluation mode."""

    @torch.no_grad()
    def predict(self, features: Array) -> Array:
        """Class probabilities, shape (samples, classes)."""
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
        classes: how many there are.
        seed: of the network and of the order.
        training: how it is trained.
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
    """The logit of the label, less the largest other one."""
    own = logits.gather(1, target[:, None])[:, 0]
    others = logits.scatter(1, target[:, None], -torch.inf)
    return own - others.max(1).values


def with_threshold_samples(
    target: Array, classes: int, seed: int
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Labels with one class more, and one in as many samples as there are classes in it.

    These labels can only be memorised, so their margins show those of wrong labels (Pleiss et al.,
    2020).

    Returns:
        The labels, and which samples are in the new class.
    """
    number = max(round(len(target) / (classes + 1)), 1)
    generator = derived_generator(seed, "threshold samples")
    chosen = torch.randperm(len(target), generator=generator)[:number].numpy()
    changed, is_threshold = target.copy(), np.zeros(len(target), dtype=np.bool_)
    changed[chosen], is_threshold[chosen] = classes, True
    return changed, is_threshold
