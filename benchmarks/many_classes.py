"""What the fixed number of kept predictions costs in quality with 1,000 classes.

    python -m benchmarks.many_classes

The form with predictions keeps the likeliest classes of each sample, 14 of them, so that its state
does not grow with the number of classes. Here it is compared with itself when it keeps 100 of them
and with cross-entropy: test accuracy of the last epoch, on made-up features of 1,000 classes in 100
groups, so that each class has neighbours that it is confused with.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.step_cost import environment
from discrimloss import DiscrimLoss
from discrimloss.files.atomic_write import atomic_write
from discrimloss.state import predictions

RESULTS = Path(__file__).parent / "results"
NAME = "many_classes"
CLASSES, GROUPS, FEATURES = 1_000, 100, 64
TRAINED, TESTED = 10, 10
"""Numbers of training and test samples of each class."""
GROUP_SPREAD, CLASS_SPREAD = 1.0, 0.7
"""Standard deviations of group centres, and of class centres in a group. Samples have 1."""
NOISE = {"symmetric 40 %": (0.4, CLASSES), "20 % within groups": (0.2, CLASSES // GROUPS)}
"""Fraction of wrong labels, and number of classes around the true one to draw them from."""
KEPT = (predictions.KEPT_CLASSES, 100)
"""Keeping all classes would take too long. 100 classes leave out almost no probability."""
EPOCHS, BATCH, LEARNING_RATE = 20, 128, 2e-3
SEEDS = (1, 2, 3)


class Task(NamedTuple):
    """Training samples with given labels, and test samples."""

    inputs: Tensor
    given: Tensor
    test_inputs: Tensor
    test_labels: Tensor


def make_task(noise: str, seed: int) -> Task:
    """Draw the samples and their labels."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    of_groups = GROUP_SPREAD * normal(GROUPS, FEATURES).repeat_interleave(CLASSES // GROUPS, 0)
    centres = of_groups + CLASS_SPREAD * normal(CLASSES, FEATURES)
    labels, test_labels = (torch.arange(CLASSES).repeat(each) for each in (TRAINED, TESTED))
    rate, reach = NOISE[noise]
    is_wrong = torch.rand(len(labels), generator=generator) < rate
    first_of_reach = labels // reach * reach
    step = torch.randint(1, reach, labels.shape, generator=generator)
    other = first_of_reach + (labels - first_of_reach + step) % reach
    return Task(
        centres[labels] + normal(len(labels), FEATURES),
        torch.where(is_wrong, other, labels),
        centres[test_labels] + normal(len(test_labels), FEATURES),
        test_labels,
    )


@contextmanager
def keeping(classes: int) -> Iterator[None]:
    """Set the number of classes that are kept for each sample."""
    usual = predictions.KEPT_CLASSES
    predictions.KEPT_CLASSES = classes
    try:
        yield
    finally:
        predictions.KEPT_CLASSES = usual


def accuracy(task: Task, seed: int, criterion: DiscrimLoss | None) -> float:
    """Train a network, without a criterion with cross-entropy. Return test accuracy in %."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    steps = EPOCHS * -(-len(task.given) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(1, EPOCHS + 1):
        if criterion is not None:
            criterion.set_epoch(epoch)
        for index in torch.randperm(len(task.given)).split(BATCH):
            logits, target = model(task.inputs[index]), task.given[index]
            losses = cross_entropy(logits, target, reduction="none")
            if criterion is None:
                loss = losses.mean()
            else:
                loss = criterion(losses, index, target=target, logits=logits)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        is_right = model(task.test_inputs).argmax(1) == task.test_labels
    return 100.0 * float(is_right.float().mean())


def measure(noise: str) -> dict[str, list[float]]:
    """Return the accuracies of all methods, one for each seed."""
    found: dict[str, list[float]] = {}
    for seed in SEEDS:
        task = make_task(noise, seed)
        runs = {"cross-entropy": accuracy(task, seed, None)}
        for kept in KEPT:
            with keeping(kept):
                criterion = DiscrimLoss(len(task.given), EPOCHS, num_classes=CLASSES)
                runs[f"predictions, {kept} kept"] = accuracy(task, seed, criterion)
        for name, value in runs.items():
            found.setdefault(name, []).append(value)
        words = "  ".join(f"{name} {value:.1f}" for name, value in runs.items())
        print(f"{noise}, seed {seed}: {words}", flush=True)
    return found


def page(results: dict[str, dict[str, list[float]]], versions: str) -> str:
    """Return the page of the results."""
    names = list(next(iter(results.values())))
    lines = [
        "# What keeping 14 classes costs with 1,000",
        "",
        (
            f"`python -m benchmarks.{NAME}`: {CLASSES:,} classes in {GROUPS} groups, {TRAINED} "
            f"samples of each, {EPOCHS} epochs. Test accuracy of the last epoch in %, mean and "
            f"standard deviation of {len(SEEDS)} seeds. {versions}."
        ),
        "",
        f"| | {' | '.join(results)} |",
        f"|---|{'---|' * len(results)}",
    ]
    for name in names:
        cells = [
            f"{statistics.mean(found[name]):.2f} ± {statistics.stdev(found[name]):.2f}"
            for found in results.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run everything and write the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    versions = environment()
    results = {noise: measure(noise) for noise in NOISE}
    with atomic_write(RESULTS / f"{NAME}.json") as unfinished:
        unfinished.write_text(json.dumps({"versions": versions, "results": results}, indent=1))
    with atomic_write(RESULTS / f"{NAME}.md") as unfinished:
        words = ", ".join(f"{name} {value}" for name, value in versions.items())
        unfinished.write_text(page(results, words))
    print(f"written: {RESULTS / NAME}.md")


if __name__ == "__main__":
    main()
