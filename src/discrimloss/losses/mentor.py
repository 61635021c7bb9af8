"""The mentor of MentorNet: a small network that imitates a predefined curriculum."""

from __future__ import annotations

import copy
import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PERCENTAGES = 100
"""Number of percentages. The progress of the run is an input of the mentor, from 0 to 99."""
LARGEST_LOSS = 30.0
"""Losses are clipped to this, the largest synthetic cross-entropy in the authors' code."""
WIDEST_DIFFERENCE = 5.0
"""Differences to the threshold are clipped to this; beyond it, the curriculum is constant."""
NARROWEST_DIFFERENCE = 0.01
"""Differences to the threshold below this scale are hardly distinguished."""
LABEL_FEATURES, EPOCH_FEATURES, LSTM_UNITS, HIDDEN_UNITS = 2, 5, 4, 20
TRAINING_SEED, TRAINING_STEPS, TRAINING_BATCH, LEARNING_RATE = 2018, 400, 512, 0.1


def predefined_curriculum(losses: Tensor, threshold: Tensor, ramp: Tensor) -> Tensor:
    """Return the weights in [0, 1] that minimise the weighted loss plus the regulariser G.

    They are ``1(l <= lambda1)`` if lambda2 is 0, otherwise ``1 - (l - lambda1) / lambda2``, clipped
    to [0, 1].

    Args:
        losses: l, shape (batch,).
        threshold: lambda1. Broadcasts against `losses`.
        ramp: lambda2, the distance above the threshold at which the weight is 0. Broadcasts too.
    """
    selected = (losses <= threshold).to(losses.dtype)
    is_ramp = ramp > 0
    width = torch.where(is_ramp, ramp, torch.ones_like(ramp))
    sloped = (1.0 - (losses - threshold) / width).clamp(0.0, 1.0)
    return torch.where(is_ramp, sloped, selected)


def ramp_at(percentage: Tensor, ramp: float, ramp_from: float) -> Tensor:
    """Return lambda2 at a percentage of the run: `ramp` after the fraction `ramp_from`, else 0."""
    return ramp * (percentage >= ramp_from * PERCENTAGES).float()


def compressed(values: Tensor) -> Tensor:
    """Return a signed logarithm of values, so that both small and large losses stay distinct."""
    scaled = torch.log1p(values.abs() / NARROWEST_DIFFERENCE)
    return values.sign() * scaled / math.log1p(1.0 / NARROWEST_DIFFERENCE)


class Mentor(nn.Module):
    """A bidirectional LSTM, embeddings of label and epoch, two fully connected layers, a sigmoid.

    The sizes are those of the authors' code, with one exception: the LSTM has four units in each
    direction instead of one, so that a few seconds of training suffice for any number of classes.
    As in that code, the sequence has one step (the loss and its difference to the threshold),
    because the predefined curriculum does not use older losses. We depart from the code in three
    points. Both inputs are clipped and compressed. Labels are embedded, as in the paper, while the
    code sets them all to 0. The embedding of the epochs is trained, while the code leaves its
    initial values.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.label_embedding = nn.Embedding(num_classes, LABEL_FEATURES)
        self.epoch_embedding = nn.Embedding(PERCENTAGES, EPOCH_FEATURES)
        self.lstm = nn.LSTM(2, LSTM_UNITS, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(2 * LSTM_UNITS + LABEL_FEATURES + EPOCH_FEATURES, HIDDEN_UNITS)
        self.output = nn.Linear(HIDDEN_UNITS, 1)

    def logits(
        self, losses: Tensor, threshold: Tensor, label: Tensor, percentage: Tensor
    ) -> Tensor:
        """Return the argument of the sigmoid, shape (batch,)."""
        difference = (losses - threshold).clamp(-WIDEST_DIFFERENCE, WIDEST_DIFFERENCE)
        pair = torch.stack([losses.clamp(max=LARGEST_LOSS), difference], dim=1)
        _, (last, _) = self.lstm(compressed(pair).unsqueeze(1))
        features = [last[0], last[1], self.label_embedding(label), self.epoch_embedding(percentage)]
        hidden = torch.tanh(self.hidden(torch.cat(features, dim=1)))
        output: Tensor = self.output(hidden).squeeze(1)
        return output

    def forward(
        self, losses: Tensor, threshold: Tensor, label: Tensor, percentage: Tensor
    ) -> Tensor:
        """Return the weights of samples, in [0, 1].

        Args:
            losses: shape (batch,), float32.
            threshold: the moving percentile. Broadcasts against `losses`.
            label: shape (batch,).
            percentage: shape (batch,): the progress of the run, from 0 to 99.
        """
        return self.logits(losses, threshold, label, percentage).sigmoid()


def synthetic_samples(
    count: int, num_classes: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return losses, thresholds, labels and percentages that cover all cases in a run.

    Losses and thresholds are uniform, or log-uniform from 1e-4 on. Half of the losses are drawn
    independently, and half by their distance from the threshold.
    """

    def spread() -> Tensor:
        exponents = torch.empty(count).uniform_(-4, math.log10(LARGEST_LOSS), generator=generator)
        even = torch.empty(count).uniform_(0, LARGEST_LOSS / 3, generator=generator)
        return torch.where(coin(), 10**exponents, even)

    def coin() -> Tensor:
        return torch.rand(count, generator=generator) < 0.5

    threshold = spread()
    distance = torch.where(coin(), 1.0, -1.0) * spread()
    losses = torch.where(coin(), spread(), (threshold + distance).clamp(min=0.0))
    label = torch.randint(num_classes, (count,), generator=generator)
    percentage = torch.randint(PERCENTAGES, (count,), generator=generator)
    return losses, threshold, label, percentage


def trained_mentor(num_classes: int, ramp: float, ramp_from: float) -> Mentor:
    """Return a new copy of a trained mentor, without gradients.

    The mentor is trained once per process, in about two seconds and always from the same seed, so
    it does not depend on the seed of a run. The global generator is not used.
    """
    return copy.deepcopy(_train(num_classes, ramp, ramp_from))


@lru_cache(maxsize=16)
def _train(num_classes: int, ramp: float, ramp_from: float) -> Mentor:
    generator = torch.Generator().manual_seed(TRAINING_SEED)
    with torch.random.fork_rng(devices=[]):  # modules draw from the global generator
        mentor = Mentor(num_classes)
    _initialize(mentor, generator)
    optimizer = torch.optim.Adam(mentor.parameters(), LEARNING_RATE, foreach=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, TRAINING_STEPS)
    with torch.enable_grad():
        for _ in range(TRAINING_STEPS):
            samples = synthetic_samples(TRAINING_BATCH, num_classes, generator)
            losses, threshold, _, percentage = samples
            ramps = ramp_at(percentage, ramp, ramp_from)
            weights = predefined_curriculum(losses, threshold, ramps)
            error = F.binary_cross_entropy_with_logits(mentor.logits(*samples), weights)
            optimizer.zero_grad()
            error.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    optimizer.zero_grad()
    return mentor.requires_grad_(False)


@torch.no_grad()
def _initialize(mentor: Mentor, generator: torch.Generator) -> None:
    for name, parameter in mentor.named_parameters():
        scale = 1.0 if "embedding" in name else parameter.shape[-1] ** -0.5
        parameter.normal_(0.0, scale, generator=generator)
