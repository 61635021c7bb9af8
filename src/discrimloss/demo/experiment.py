"""Cross-entropy and DiscrimLoss, trained side by side.

Both start from the same weights and see the same wrong labels in the same batches at the same
learning rates. One line differs: what becomes of the losses of a batch (see `train`).
"""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from discrimloss import DiscrimLoss, Verdicts
from discrimloss.demo.digits import NUM_CLASSES, NUM_PIXELS, NoisyDigits, noisy_digits

HIDDEN_UNITS = 256
BATCH_SIZE = 64
LEARNING_RATE = 0.1
MOMENTUM = 0.9


@dataclass(frozen=True)
class Figures:
    """What one seed measures. Shares, from 0 to 1; None where there is nothing to count."""

    cross_entropy_accuracy: float
    """On the test set, after the last epoch."""
    discrimloss_accuracy: float
    """On the test set, after the last epoch."""
    recall: float | None
    """How many of the wrong labels were flagged."""
    precision: float | None
    """How many of the flagged labels are wrong."""
    true_noise_rate: float
    estimated_noise_rate: float
    wrong_labels: int
    flagged_labels: int
    flagged_and_wrong: int


@dataclass(frozen=True)
class SeedRun:
    """Everything about one seed."""

    seed: int
    figures: Figures
    digits: NoisyDigits
    verdicts: Verdicts
    """Of the training samples, after the last epoch."""
    suggested: npt.NDArray[np.int64]
    """Shape (train,): what the model trained with DiscrimLoss sees in each training image."""

    @property
    def flagged(self) -> npt.NDArray[np.bool_]:
        """Shape (train,): which labels the verdicts call incorrect."""
        flagged: npt.NDArray[np.bool_] = self.verdicts.label == "incorrect"
        return flagged


@dataclass(frozen=True)
class Experiment:
    """All seeds: the figures of each, and everything about the first."""

    noise: float
    epochs: int
    seeds: tuple[int, ...]
    figures: tuple[Figures, ...]
    first: SeedRun

    def per_seed(self, name: str) -> list[float | None]:
        """One of the `Figures`, for every seed."""
        return [getattr(figures, name) for figures in self.figures]


def run_experiment(
    noise: float,
    epochs: int,
    seeds: Sequence[int],
    on_epoch: Callable[[], None] = lambda: None,
) -> Experiment:
    """Run every seed, one after the other; `on_epoch` is called twice for each of their epochs."""
    first, figures = None, []
    with one_thread():
        for seed in seeds:
            run = run_seed(seed, noise, epochs, on_epoch)
            first = first or run
            figures.append(run.figures)
    if first is None:
        raise ValueError("seeds must hold at least one seed")
    return Experiment(noise, epochs, tuple(seeds), tuple(figures), first)


def run_seed(
    seed: int, noise: float, epochs: int, on_epoch: Callable[[], None] = lambda: None
) -> SeedRun:
    """Train both ways on the same data, then compare with the truth."""
    generator = torch.Generator().manual_seed(seed)
    digits = noisy_digits(noise, generator)
    num_samples = len(digits.target)
    untrained = make_network(generator)
    orders = [torch.randperm(num_samples, generator=generator) for _ in range(epochs)]

    baseline = copy.deepcopy(untrained)
    train(baseline, digits.images, digits.target, orders, None, on_epoch)

    network = copy.deepcopy(untrained)
    criterion = DiscrimLoss(num_samples, epochs)
    train(network, digits.images, digits.target, orders, criterion, on_epoch)
    verdicts = criterion.verdicts()

    # From here on, and not before, clean labels are looked at.
    wrong = digits.is_wrong.numpy()
    flagged = verdicts.label == "incorrect"
    num_wrong, num_flagged = int(wrong.sum()), int(flagged.sum())
    num_both = int((wrong & flagged).sum())
    figures = Figures(
        cross_entropy_accuracy=accuracy(baseline, digits.test_images, digits.test_target),
        discrimloss_accuracy=accuracy(network, digits.test_images, digits.test_target),
        recall=num_both / num_wrong if num_wrong else None,
        precision=num_both / num_flagged if num_flagged else None,
        true_noise_rate=num_wrong / num_samples,
        estimated_noise_rate=verdicts.noise_rate or 0.0,
        wrong_labels=num_wrong,
        flagged_labels=num_flagged,
        flagged_and_wrong=num_both,
    )
    return SeedRun(seed, figures, digits, verdicts, predict(network, digits.images).numpy())


def make_network(generator: torch.Generator) -> nn.Module:
    """Two layers, initialised as PyTorch does, but from `generator` and not the global seed."""
    hidden = nn.Linear(NUM_PIXELS, HIDDEN_UNITS, device="meta").to_empty(device="cpu")
    output = nn.Linear(HIDDEN_UNITS, NUM_CLASSES, device="meta").to_empty(device="cpu")
    for layer in (hidden, output):
        bound = 1 / math.sqrt(layer.in_features)
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return nn.Sequential(hidden, nn.ReLU(), output)


def train(
    network: nn.Module,
    images: Tensor,
    target: Tensor,
    orders: Sequence[Tensor],
    criterion: DiscrimLoss | None,
    on_epoch: Callable[[], None],
) -> None:
    """Train in place.

    Args:
        network: maps images to logits.
        images: shape (samples, pixels).
        target: shape (samples,), the given labels.
        orders: for each epoch, the order in which it visits the samples.
        criterion: None trains with plain cross-entropy.
        on_epoch: called after every epoch.
    """
    optimizer = torch.optim.SGD(network.parameters(), LEARNING_RATE, MOMENTUM)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(orders))
    for epoch, order in enumerate(orders, start=1):
        if criterion is not None:
            criterion.set_epoch(epoch)
        # With data this small, a DataLoader over an IndexedDataset would take longer than the
        # training. Slices of a permutation are the same thing: they are the samples' indices.
        for index in torch.split(order, BATCH_SIZE):
            losses = F.cross_entropy(network(images[index]), target[index], reduction="none")
            loss = losses.mean() if criterion is None else criterion(losses, index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        on_epoch()


@torch.no_grad()
def predict(network: nn.Module, images: Tensor) -> Tensor:
    """The most likely label of each image."""
    logits: Tensor = network(images)
    return logits.argmax(dim=1)


def accuracy(network: nn.Module, images: Tensor, clean_target: Tensor) -> float:
    """Share of images whose most likely label is the clean one."""
    return int((predict(network, images) == clean_target).sum()) / len(clean_target)


@contextmanager
def one_thread() -> Iterator[None]:
    """A model this small is slower with more threads, and would sum in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def mean_and_std(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and sample standard deviation of the values that exist; None where undefined."""
    known = [value for value in values if value is not None]
    return (
        statistics.fmean(known) if known else None,
        statistics.stdev(known) if len(known) > 1 else None,
    )


FIGURE_NAMES = tuple(field.name for field in fields(Figures))
