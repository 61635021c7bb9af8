"""A cell of the robustness benchmark: one network, trained once, and its test accuracy.

The split, the labels, the initial network and the order of the batches depend only on the seed and
the row, so they are the same for all methods. Only the control has another initial network and
another order.
"""

from __future__ import annotations

import math
import platform
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import discrimloss
from benchmarks.robustness_design import Row, Setting
from benchmarks.robustness_losses import BASELINE, METHODS, Criterion, DiscrimLossForm
from benchmarks.robustness_sets import Samples, load
from discrimloss.data import noise as label_noise
from discrimloss.data.images import crop_each
from discrimloss.models.base import TaskShape
from discrimloss.models.compact_resnet import CompactResNet
from discrimloss.training.seeds import derived_generator, derived_seed

TEST_FRACTION = 0.3
LEAST_OF_CLASS = 4
"""Minimum class size in a long tail. Classes that are smaller from the start are not cut."""
BATCH = 64
HIDDEN = 256
CHANNELS = (16, 32)
CIFAR_WIDTH = 16
SHIFT = 2
"""Maximum number of pixels by which an augmented image is moved."""
OPTIMIZERS = {
    "adamw": partial(torch.optim.AdamW, lr=2e-3, weight_decay=1e-4),
    "sgd": partial(torch.optim.SGD, lr=2e-2, momentum=0.9, weight_decay=5e-4),
}


@dataclass(frozen=True)
class Task:
    """The training and test samples of a network."""

    inputs: Tensor
    target: Tensor
    """Shape (training samples,): the given labels, for training."""
    test_inputs: Tensor
    test_target: Tensor
    """Shape (test samples,): the true labels."""
    num_classes: int
    wrong: float
    """The fraction of training labels that are wrong."""
    is_augmented: bool

    def only(self, rows: Tensor) -> Task:
        """Return the task with only these training samples."""
        return Task(**{**vars(self), "inputs": self.inputs[rows], "target": self.target[rows]})


def run_cells(
    row: Row, seed: int, methods: tuple[str, ...], data: Path, cifar: Path | None
) -> list[dict[str, Any]]:
    """Train with each of the methods, and return the lines to store.

    Args:
        row: the row of the design.
        seed: seed of everything that is drawn at random.
        methods: names from `METHODS`.
        data: the directory of texts, tables and images.
        cifar: the directory of CIFAR-10.
    """
    torch.set_num_threads(1)
    task = make_task(load(row.set, data, cifar), row.setting, seed)
    return [
        {**row.as_dict(), "method": method, "seed": seed, **run_method(task, row, seed, method)}
        for method in methods
    ]


def run_method(task: Task, row: Row, seed: int, method: str) -> dict[str, Any]:
    """Return the line of a method: accuracy of the last epoch in %, time and details."""
    started = time.perf_counter()
    network, criterion = train(task, row.setting, seed, method)
    trained_on = len(task.target)
    if METHODS[method].retrains:
        assert isinstance(criterion, DiscrimLossForm)
        trusted = criterion.trusted()
        trained_on = len(trusted)
        network, _ = train(task.only(trusted), row.setting, seed, BASELINE)
    overall, balanced = accuracies(network, task)
    return {
        "overall": round(overall, 3),
        "balanced": round(balanced, 3),
        "train_rows": len(task.target),
        "kept_rows": trained_on,
        "test_rows": len(task.test_target),
        "classes": task.num_classes,
        "wrong": round(task.wrong, 4),
        "seconds": round(time.perf_counter() - started, 3),
        "versions": {
            "discrimloss": discrimloss.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


# ------------------------------------------------------------------------------------ data


def make_task(samples: Samples, setting: Setting, seed: int) -> Task:
    """Split off the test samples, cut a long tail, then make labels wrong."""
    test, train = split(samples, derived_generator(seed, "split"))
    clean_target = samples.clean_target[train]
    kept = long_tail(clean_target, setting.imbalance, derived_generator(seed, "tail"))
    train, clean_target = train[kept], clean_target[kept]
    inputs, target = samples.inputs[train], samples.target[train]
    if setting.noise not in ("none", "real"):
        target = with_noise(inputs, clean_target, samples.num_classes, setting, seed)
    return Task(
        inputs,
        target,
        samples.inputs[test],
        samples.clean_target[test],
        samples.num_classes,
        float((target != clean_target).double().mean()),
        samples.is_augmented,
    )


def split(samples: Samples, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the positions of the test samples, and of the others."""
    if samples.test_rows is not None:
        is_test = torch.zeros(len(samples.target), dtype=torch.bool)
        is_test[samples.test_rows] = True
        return samples.test_rows, (~is_test).nonzero()[:, 0]
    order = torch.randperm(len(samples.target), generator=generator)
    number = round(TEST_FRACTION * len(order))
    return order[:number], order[number:]


def long_tail(clean_target: Tensor, imbalance: int, generator: torch.Generator) -> Tensor:
    """Return positions of samples such that class sizes decrease evenly on a log scale.

    The largest class stays, the smallest gets its size over `imbalance`, or `LEAST_OF_CLASS`. No
    class grows: one that has fewer samples keeps them.
    """
    order = torch.randperm(len(clean_target), generator=generator)
    if imbalance == 1:
        return order
    sizes = torch.bincount(clean_target)
    by_size = sizes.argsort(descending=True)
    kept = []
    for rank, label in enumerate(by_size[sizes[by_size] > 0].tolist()):
        fraction = imbalance ** (-rank / max(int((sizes > 0).sum()) - 1, 1))
        number = max(LEAST_OF_CLASS, round(int(sizes.max()) * fraction))
        kept.append(order[clean_target[order] == label][:number])
    rows = torch.cat(kept)
    return rows[torch.randperm(len(rows), generator=generator)]


def with_noise(
    inputs: Tensor, clean_target: Tensor, num_classes: int, setting: Setting, seed: int
) -> Tensor:
    """Return labels, some of which are wrong."""
    generator, rate = derived_generator(seed, "noise"), setting.rate
    if setting.noise == "symmetric":
        return label_noise.symmetric(clean_target, rate, generator, num_classes).target
    if setting.noise == "pair":
        return label_noise.pair(clean_target, rate, generator, num_classes).target
    if setting.noise == "one-sided":
        largest = int(torch.bincount(clean_target).argmax())
        mapping = {largest: (largest + 1) % num_classes}
        return label_noise.asymmetric(clean_target, rate, generator, num_classes, mapping).target
    if setting.noise == "instance":
        features = inputs.flatten(1)
        return label_noise.instance(clean_target, rate, generator, num_classes, features).target
    raise ValueError(f"there is no noise {setting.noise!r}")


# -------------------------------------------------------------------------------- training


def train(task: Task, setting: Setting, seed: int, method: str) -> tuple[nn.Module, Criterion]:
    """Return the network after the last epoch, and the criterion."""
    other = "another " if METHODS[method].is_control else ""
    torch.manual_seed(derived_seed(seed, f"{other}network"))
    network = build_network(task)
    samples = len(task.target)
    criterion = METHODS[method].build(samples, task.num_classes, setting.epochs)
    optimizer = OPTIMIZERS[setting.optimizer](network.parameters())
    steps = max(setting.epochs * math.ceil(samples / BATCH), 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: (
            1.0 if setting.schedule == "constant" else (1 + math.cos(math.pi * step / steps)) / 2
        ),
    )
    generator = derived_generator(seed, f"{other}order")
    for epoch in range(1, setting.epochs + 1):
        criterion.set_epoch(epoch)
        for index in torch.randperm(samples, generator=generator).split(BATCH):
            inputs = task.inputs[index]
            if task.is_augmented:
                inputs = augmented(inputs, generator)
            loss = criterion(network(inputs), task.target[index], index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network, criterion


def build_network(task: Task) -> nn.Module:
    """Return a network: one hidden layer for features, two convolutions or more for images."""
    if task.inputs.dim() == 2:
        hidden = nn.Linear(task.inputs.shape[1], HIDDEN)
        return nn.Sequential(hidden, nn.ReLU(), nn.Linear(HIDDEN, task.num_classes))
    channels, height, width = task.inputs.shape[1:]
    if task.is_augmented:
        shape = TaskShape((channels, height, width), task.num_classes)
        return CompactResNet(shape, width=CIFAR_WIDTH)
    first, second = CHANNELS
    network = nn.Sequential(
        nn.Conv2d(channels, first, 3, stride=height // 16, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(second * 4 * 4, task.num_classes),
    )
    return network.to(memory_format=torch.channels_last)


def augmented(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return images that are moved by up to `SHIFT` pixels, and mirrored with probability 0.5."""
    number, (height, width) = (len(images),), images.shape[2:]
    top, left = torch.randint(2 * SHIFT + 1, (2, *number), generator=generator)
    mirrored = torch.randint(2, number, generator=generator).bool()
    padded = functional.pad(images, (SHIFT,) * 4)
    moved = crop_each(padded, top, left, mirrored, height, width)
    return moved.contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def accuracies(network: nn.Module, task: Task) -> tuple[float, float]:
    """Return test accuracy in %: overall, and balanced (the mean over the classes)."""
    network.eval()
    predicted = torch.cat([network(inputs).argmax(1) for inputs in task.test_inputs.split(500)])
    is_right = (predicted == task.test_target).double()
    labels = task.test_target.unique()
    of_classes = torch.stack([is_right[task.test_target == label].mean() for label in labels])
    return 100 * float(is_right.mean()), 100 * float(of_classes.mean())
