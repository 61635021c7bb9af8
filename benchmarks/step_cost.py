"""What a training step with DiscrimLoss costs.

    python -m benchmarks.step_cost            # about five minutes, on an idle machine
    python -m benchmarks.step_cost --quick    # a smoke test of seconds; its values mean little
    python -m benchmarks.step_cost --forms    # the forms with targets and predictions; a minute

Shows, as ratios measured in one run:

1. our step alone, with tables of 10^4 to 10^8 samples: it touches the rows of the batch only, so
   its cost should not grow with the number of samples;
2. what data-parameter methods do instead, one dense parameter per sample with SGD and momentum;
3. SuperLoss, whose closed form needs a Lambert W, with scipy's;
4. a whole training step of a LeNet and of a small ResNet, with plain cross-entropy and with ours;
5. what the table costs once an epoch, which no step shows;
6. with `--forms`: the loss alone in each of its forms at batches of 64, and a step of an MLP at
   batches of 1,024; and what `verdicts()` of 10^5 samples costs. `--before FILE` shows the values
   of an earlier run beside them.

Method: alternatives take turns in a random order, so that other load on the machine affects all of
them alike. A result is the ratio of the medians over all rounds. Its spread is given by the
quartiles of the ratios within each round. Indices are drawn beforehand and differ in every step, so
the rows of a large table are as rarely in the CPU's cache as in training. One thread, on the CPU.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import math
import os
import platform
import random
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from scipy.special import lambertw
from torch import Tensor, nn
from torch.nn import functional as F

from discrimloss import DiscrimLoss
from discrimloss._version import __version__

SIZES = (10**4, 10**6, 10**7, 10**8)
QUICK_SIZES = (10**4, 10**6)
EPOCHS = 20
CLASSES = 10
STEPS_PER_BLOCK = 20  # of the loss alone, well under a millisecond each
DEFAULT_OUT = "benchmarks/results/step_cost"

Batch = tuple[Tensor, ...]
Step = Callable[..., None]


# ------------------------------------------------------------------------ measuring


@dataclass(frozen=True)
class Alternative:
    """One way to take a step; `draw` makes the arguments of `step` outside the timed block."""

    name: str
    draw: Callable[[], Batch]
    step: Step
    steps: int = STEPS_PER_BLOCK
    clock: Callable[[], float] = time.perf_counter

    def seconds_per_step(self) -> float:
        batches = [self.draw() for _ in range(self.steps)]
        start = self.clock()
        for batch in batches:
            self.step(*batch)
        return (self.clock() - start) / self.steps


@dataclass(frozen=True)
class Row:
    """One alternative, compared with the baseline, which is the first row of its group."""

    name: str
    milliseconds: float
    """Median over the rounds."""
    least: float
    """Minimum over the rounds in milliseconds: a busy machine affects it least."""
    ratio: float
    """Ratio of the median to the median of the baseline."""
    ratio_quartiles: tuple[float, float]
    """Quartiles of the ratios within each round."""


@dataclass(frozen=True)
class Group:
    """Alternatives that took turns."""

    title: str
    rounds: int
    rows: list[Row]

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)


def take_turns(title: str, alternatives: list[Alternative], rounds: int) -> Group:
    """Time all alternatives once in every round. The first one is the baseline."""
    for alternative in alternatives:
        alternative.seconds_per_step()  # pages of the table, caches of the allocator
    order = list(range(len(alternatives)))
    shuffle = random.Random(0).shuffle
    seconds = np.empty((rounds, len(alternatives)))
    gc.collect()
    gc.disable()
    try:
        for round_number in range(rounds):
            shuffle(order)
            for position in order:
                seconds[round_number, position] = alternatives[position].seconds_per_step()
    finally:
        gc.enable()
    medians = np.median(seconds, axis=0)
    quartiles = np.quantile(seconds / seconds[:, :1], (0.25, 0.75), axis=0)
    rows = [
        Row(
            alternative.name,
            1e3 * float(medians[position]),
            1e3 * float(seconds[:, position].min()),
            float(medians[position] / medians[0]),
            (float(quartiles[0, position]), float(quartiles[1, position])),
        )
        for position, alternative in enumerate(alternatives)
    ]
    return Group(title, rounds, rows)


# --------------------------------------------------------------------- the loss alone


def draw_losses(num_samples: int, batch: int, generator: torch.Generator) -> Batch:
    """Return task losses like those of a model, and the index of their samples."""
    losses = torch.empty(batch).exponential_(1 / math.log(CLASSES), generator=generator)
    index = torch.randint(num_samples, (batch,), generator=generator)
    return losses.requires_grad_(), index


def criterion_step(criterion: Callable[[Tensor, Tensor], Tensor]) -> Step:
    """Run forward, state update, and backward to the losses."""

    def step(losses: Tensor, index: Tensor) -> None:
        criterion(losses, index).backward()

    return step


def mean_loss(losses: Tensor, index: Tensor) -> Tensor:
    """Run no method: the cost of autograd for a mean."""
    return losses.mean()


def super_loss(
    losses: Tensor, index: Tensor, tau: float = math.log(CLASSES), regularization: float = 1.0
) -> Tensor:
    """SuperLoss (Castells, Weinzaepfel and Revaud, NeurIPS 2020), as published.

    ``sigma = exp(-W(max(-2 / e, beta) / 2))`` with ``beta = (l - tau) / lambda``, a constant to
    autograd; ``L = (l - tau) sigma + lambda (log sigma)^2``.
    """
    beta = (losses.detach().numpy() - tau) / regularization
    log_sigma = -lambertw(0.5 * np.maximum(-2.0 / math.e, beta)).real
    log_confidence = torch.from_numpy(log_sigma).to(losses.dtype)
    weighted = (losses - tau) * log_confidence.exp()
    return (weighted + regularization * log_confidence.square()).mean()


def dense_step(num_samples: int) -> Step:
    """A parameter per sample: the gradient and the momentum are as long as the data set."""
    log_weights = nn.Parameter(torch.zeros(num_samples))
    optimizer = torch.optim.SGD([log_weights], lr=0.1, momentum=0.9)

    def step(losses: Tensor, index: Tensor) -> None:
        (losses * torch.exp(-log_weights[index])).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def compiled(
    criterion: DiscrimLoss, batch: int, generator: torch.Generator
) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return the criterion under `torch.compile`, or None if no compiler works."""
    compiled_criterion: Callable[[Tensor, Tensor], Tensor]
    compiled_criterion = torch.compile(criterion, fullgraph=True, dynamic=False)
    try:
        criterion_step(compiled_criterion)(*draw_losses(criterion.num_samples, batch, generator))
    except Exception as error:  # a missing C++ compiler shows in many ways
        print(f"(no figures for torch.compile here: {type(error).__name__})", flush=True)
        return None
    return compiled_criterion


def in_second_epoch(num_samples: int) -> DiscrimLoss:
    """Return a criterion after its first epoch, which measures the loss scale, as in most steps."""
    criterion = DiscrimLoss(num_samples=num_samples, epochs=EPOCHS)
    criterion(torch.rand(64), torch.arange(64))
    criterion.set_epoch(2)
    return criterion


def measure_loss_alone(
    criteria: dict[int, DiscrimLoss], batch: int, rounds: int, generator: torch.Generator
) -> Group:
    def alternative(
        name: str, size: int, criterion: Callable[[Tensor, Tensor], Tensor]
    ) -> Alternative:
        return Alternative(
            name, lambda: draw_losses(size, batch, generator), criterion_step(criterion)
        )

    alternatives = [
        alternative(ours_at(size), size, criterion) for size, criterion in criteria.items()
    ]
    smallest, largest = min(criteria), max(criteria)
    alternatives += [
        alternative("SuperLoss, scipy's Lambert W", smallest, super_loss),
        alternative("mean of the losses, no method", smallest, mean_loss),
    ]
    for size in (smallest, largest):
        criterion = compiled(criteria[size], batch, generator)
        if criterion is not None:
            alternatives.append(alternative(f"{ours_at(size)}, compiled", size, criterion))
    return take_turns("The loss alone", alternatives, rounds)


def measure_dense(
    criteria: dict[int, DiscrimLoss], batch: int, rounds: int, generator: torch.Generator
) -> list[Group]:
    groups = []
    for size, criterion in criteria.items():

        def draw(size: int = size) -> Batch:
            return draw_losses(size, batch, generator)

        try:
            require_memory(3 * 4 * size)  # parameter, gradient and momentum in float32
            alternatives = [
                Alternative(ours_at(size), draw, criterion_step(criterion)),
                Alternative(
                    "dense parameter, SGD with momentum",
                    draw,
                    dense_step(size),
                    steps=max(1, min(STEPS_PER_BLOCK, 10**6 // size)),
                ),
            ]
            groups.append(
                take_turns(f"A dense parameter of {power(size)} samples", alternatives, rounds)
            )
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "allocate" not in str(error):
                raise
            print(f"(the dense way at {power(size)} samples does not fit in memory)", flush=True)
    return groups


def require_memory(needed: int) -> None:
    """Check for free memory: Linux would promise too much and then end the process."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return
    if needed > 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise MemoryError


@dataclass(frozen=True)
class EpochCost:
    """`set_epoch` looks at the whole table once; shared out over the epoch's steps."""

    num_samples: int
    seconds: float
    share_of_steps: float
    """Over the time of the epoch's steps of the loss alone."""


def measure_once_per_epoch(
    criteria: dict[int, DiscrimLoss], loss_alone: Group, batch: int, generator: torch.Generator
) -> list[EpochCost]:
    costs = []
    for size, criterion in criteria.items():
        criterion.table.history.exponential_(generator=generator)  # as if all had been visited
        criterion.table.visits.fill_(1)
        seconds = []
        for epoch in range(3, 6):
            start = time.perf_counter()
            criterion.set_epoch(epoch)
            seconds.append(time.perf_counter() - start)
        step_seconds = 1e-3 * loss_alone.row(ours_at(size)).milliseconds
        median = float(np.median(seconds))
        costs.append(EpochCost(size, median, median / (step_seconds * math.ceil(size / batch))))
    return costs


# ------------------------------------------------------------------- a training step


def lenet() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        *(nn.Linear(16 * 4 * 4, 120), nn.ReLU()),
        *(nn.Linear(120, 84), nn.ReLU()),
        nn.Linear(84, CLASSES),
    )


class ResidualBlock(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.shortcut = (
            nn.Identity()
            if (channels_in, stride) == (channels, 1)
            else nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )
        )

    def forward(self, images: Tensor) -> Tensor:
        return F.relu(self.body(images) + self.shortcut(images))


def small_resnet() -> nn.Module:
    """Eight layers: smaller than usual, so that the relative cost of the loss is larger."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        ResidualBlock(16, 16, stride=1),
        ResidualBlock(16, 32, stride=2),
        ResidualBlock(32, 64, stride=2),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(64, CLASSES),
    )


def trained_by(
    model: nn.Module, images_shape: tuple[int, ...], generator: torch.Generator
) -> Callable[[Callable[[Tensor, Tensor, Tensor], Tensor]], Step]:
    """Make training steps of one network on random images, for any loss of logits and targets."""
    images = torch.rand(images_shape, generator=generator)
    targets = torch.randint(CLASSES, (images_shape[0],), generator=generator)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def train(loss_of: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Step:
        def step(index: Tensor) -> None:
            loss = loss_of(model(images[index]), targets[index], index)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    return train


def plain(logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
    """Cross-entropy, which needs no index."""
    return F.cross_entropy(logits, target)


def measure_network(
    title: str,
    model: nn.Module,
    images_shape: tuple[int, ...],
    batch: int,
    rounds: int,
    steps: int,
    generator: torch.Generator,
) -> Group:
    """Compare cross-entropy with ours. Both train the same weights, so only the loss differs."""
    num_samples = images_shape[0]
    train = trained_by(model, images_shape, generator)
    criterion = in_second_epoch(num_samples)

    def with_criterion(criterion: Callable[[Tensor, Tensor], Tensor]) -> Step:
        return train(
            lambda logits, target, index: criterion(
                F.cross_entropy(logits, target, reduction="none"), index
            )
        )

    def alternative(name: str, step: Step) -> Alternative:
        return Alternative(
            name, lambda: (torch.randint(num_samples, (batch,), generator=generator),), step, steps
        )

    alternatives = [
        alternative("cross-entropy", train(plain)),
        # The same thing twice: what the machine's noise makes of a ratio of exactly 1.
        alternative("cross-entropy again", train(plain)),
        alternative("ours", with_criterion(criterion)),
    ]
    compiled_criterion = compiled(criterion, batch, generator)
    if compiled_criterion is not None:
        alternatives.append(alternative("ours, compiled", with_criterion(compiled_criterion)))
    return take_turns(title, alternatives, rounds)


# ------------------------------------------------------------------------- the forms

FORM_BATCH, MLP_BATCH, FORM_SAMPLES, RESNET_SAMPLES = 64, 1024, 10**4, 1024


def form_alternative(
    name: str, num_classes: int, generator: torch.Generator, num_samples: int = FORM_SAMPLES
) -> Alternative:
    """One form of the loss past its first epoch, when all samples have been visited.

    Args:
        name: ``"losses"``, ``"targets"``, ``"predictions"`` or ``"regression"``; what stands in
            brackets after it is for the reader.
        num_classes: number of classes.
        generator: of the data.
        num_samples: size of the table.
    """
    form = name.partition(" (")[0]
    if form == "losses":
        options: dict[str, Any] = {}
    else:
        options = {"task": "regression"} if form == "regression" else {"num_classes": num_classes}
    criterion = DiscrimLoss(num_samples, EPOCHS, **options)
    classes = torch.randint(num_classes, (num_samples,), generator=generator)
    values = torch.randn(num_samples, generator=generator)

    def arguments(index: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        rows = len(index)
        losses = torch.empty(rows).exponential_(1.0, generator=generator).requires_grad_()
        given: dict[str, Tensor] = {}
        if form in ("targets", "predictions"):
            given["target"] = classes[index]
        if form == "predictions":
            logits = torch.randn(rows, num_classes, generator=generator)
            given["logits"] = logits.requires_grad_()
        if form == "regression":
            predictions = torch.randn(rows, generator=generator).requires_grad_()
            given.update(target=values[index], predictions=predictions)
        return losses, index, given

    def draw() -> Batch:
        return arguments(torch.randperm(num_samples, generator=generator)[:FORM_BATCH])  # type: ignore[return-value]

    def step(losses: Tensor, index: Tensor, given: dict[str, Tensor]) -> None:
        criterion(losses, index, **given).backward()

    criterion.set_epoch(1)
    for index in torch.randperm(num_samples, generator=generator).split(1000):
        losses, index, given = arguments(index)
        criterion(losses, index, **given)
    criterion.set_epoch(2)
    return Alternative(name, draw, step, clock=time.process_time)


def measure_forms(rounds: int, generator: torch.Generator) -> Group:
    mean = Alternative(
        "mean of the losses, no method",
        lambda: draw_losses(FORM_SAMPLES, FORM_BATCH, generator),
        criterion_step(mean_loss),
        clock=time.process_time,
    )
    alternatives = [
        mean,
        *(
            form_alternative(form, CLASSES, generator)
            for form in ("losses", "targets", "predictions", "regression")
        ),
        form_alternative("targets (10^4 classes)", 10**4, generator),
        form_alternative("targets (10^6 samples)", CLASSES, generator, 10**6),
        form_alternative("predictions (10^6 samples)", CLASSES, generator, 10**6),
    ]
    return take_turns(f"The forms of the loss alone, batches of {FORM_BATCH}", alternatives, rounds)


def mlp() -> nn.Module:
    """256 hidden units on 784 features."""
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, CLASSES))


def measure_training(
    title: str,
    model: nn.Module,
    images_shape: tuple[int, ...],
    batch: int,
    rounds: int,
    generator: torch.Generator,
) -> Group:
    """A step of a network with cross-entropy and with each form of the loss."""
    num_samples = images_shape[0]
    train = trained_by(model, images_shape, generator)

    def alternative(name: str, form: str | None) -> Alternative:
        options = {"num_classes": CLASSES} if form in ("targets", "predictions") else {}
        criterion = DiscrimLoss(num_samples, EPOCHS, **options)  # type: ignore[arg-type]

        def ours(logits: Tensor, target: Tensor, index: Tensor) -> Tensor:
            given = {} if form == "losses" else {"target": target}
            if form == "predictions":
                given["logits"] = logits
            losses = F.cross_entropy(logits, target, reduction="none")
            value: Tensor = criterion(losses, index, **given)
            return value

        step = train(plain if form is None else ours)
        if form is not None:
            for index in torch.arange(num_samples).split(1000):
                step(index)
            criterion.set_epoch(2)
        return Alternative(
            name,
            lambda: (torch.randperm(num_samples, generator=generator)[:batch],),
            step,
            steps=2,
            clock=time.process_time,
        )

    names = {"cross-entropy": None, **{f"ours, {form}": form for form in TRAINING_FORMS}}
    alternatives = [alternative(name, form) for name, form in names.items()]
    return take_turns(f"{title}, batches of {batch}", alternatives, rounds)


TRAINING_FORMS = ("losses", "targets", "predictions")


VERDICT_SAMPLES, VERDICT_ROUNDS = 10**5, 10


def measure_verdicts(rounds: int, generator: torch.Generator) -> Group:
    """`verdicts()` after two epochs on labels of which a fifth is wrong; predictions are right."""
    true = torch.randint(CLASSES, (VERDICT_SAMPLES,), generator=generator)
    shift = torch.randint(1, CLASSES, (VERDICT_SAMPLES,), generator=generator)
    is_wrong = torch.rand(VERDICT_SAMPLES, generator=generator) < 0.2
    target = torch.where(is_wrong, (true + shift) % CLASSES, true)

    def alternative(form: str) -> Alternative:
        options = {} if form == "losses" else {"num_classes": CLASSES}
        criterion = DiscrimLoss(VERDICT_SAMPLES, 2, **options)  # type: ignore[arg-type]
        for epoch, sharpness in ((1, 1.0), (2, 4.0)):
            criterion.set_epoch(epoch)
            for index in torch.randperm(VERDICT_SAMPLES, generator=generator).split(1000):
                logits = torch.randn(len(index), CLASSES, generator=generator)
                logits += sharpness * F.one_hot(true[index], CLASSES)
                losses = F.cross_entropy(logits, target[index], reduction="none")
                given = {} if form == "losses" else {"target": target[index]}
                if form == "predictions":
                    given["logits"] = logits
                criterion(losses, index, **given)
        return Alternative(form, tuple, criterion.verdicts, steps=1, clock=time.process_time)

    title = f"verdicts() of {power(VERDICT_SAMPLES)} samples"
    return take_turns(title, [alternative(form) for form in TRAINING_FORMS], rounds)


def form_table(group: Group, before: dict[str, Any] | None) -> str:
    """Return the minimum times of each row, and those of an earlier run."""
    earlier = {}
    if before is not None:
        same = [found for found in before["groups"] if found["title"] == group.title]
        earlier = {row["name"]: row["least"] for found in same for row in found["rows"]}
    heading = "| | ms, least | ratio of least | ms, median |"
    lines = [f"## {group.title}", "", heading + (" before, least | ratio |" if earlier else "")]
    lines.append("|---|---:|---:|---:|" + ("---:|---:|" if earlier else ""))
    first = group.rows[0]
    for row in group.rows:
        columns = [row.least, row.least / first.least, row.milliseconds]
        if row.name in earlier:
            columns += [earlier[row.name], earlier[row.name] / earlier[first.name]]
        lines.append(f"| {row.name} | " + " | ".join(map(three_digits, columns)) + " |")
    return "\n".join(lines)


def run_forms(arguments: argparse.Namespace) -> None:
    """Run the part of the program for `--forms`."""
    generator = torch.Generator().manual_seed(0)
    before = None if arguments.before is None else json.loads(arguments.before.read_text())
    command = shlex.join(["python", "-m", "benchmarks.step_cost", *sys.argv[1:]])
    conditions = environment()
    groups = [
        measure_verdicts(min(arguments.repeats, VERDICT_ROUNDS), generator),
        measure_forms(arguments.repeats, generator),
        measure_training(
            "An MLP training step",
            mlp(),
            (FORM_SAMPLES, 784),
            MLP_BATCH,
            arguments.repeats,
            generator,
        ),
        measure_training(
            "A small ResNet training step",
            small_resnet(),
            (RESNET_SAMPLES, 3, 32, 32),
            FORM_BATCH,
            arguments.repeats,
            generator,
        ),
    ]
    heading = [
        "# What the forms of DiscrimLoss cost",
        "",
        f"`{command}`, {arguments.repeats} rounds.",
        ", ".join(f"{name} {value}" for name, value in conditions.items()) + ".",
        "",
        "Ratios are to the first row. Times are those of the processor, one thread. The machine",
        "was busy with other work, so the least of all rounds is what to compare.",
    ]
    text = "\n\n".join(["\n".join(heading), *(form_table(group, before) for group in groups)])
    print(text)
    if arguments.out is not None:
        record = {"command": command, "environment": conditions}
        record["groups"] = [asdict(group) for group in groups]
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        stem = arguments.out.name
        arguments.out.with_name(f"{stem}.json").write_text(json.dumps(record, indent=2) + "\n")
        arguments.out.with_name(f"{stem}.md").write_text(text + "\n")


# ------------------------------------------------------------------------- reporting


@dataclass(frozen=True)
class Target:
    """A target and its result. `met` is None if it was not measured."""

    aim: str
    measured: str
    met: bool | None


def judge(
    sizes: tuple[int, ...], loss_alone: Group, dense: list[Group], lenet: Group, resnet: Group
) -> list[Target]:
    times = [loss_alone.row(ours_at(size)).milliseconds for size in sizes]
    flatness = max(times) / min(times)
    whole_range = sizes[0] == SIZES[0] and sizes[-1] == SIZES[-1]
    targets = [
        Target(
            f"our step flat within 1.5x from {power(SIZES[0])} to {power(SIZES[-1])} samples",
            f"{flatness:.2f}x from {power(sizes[0])} to {power(sizes[-1])}",
            flatness <= 1.5 if whole_range else None,
        )
    ]
    aim = f"at least 100x cheaper than a dense parameter at {power(10**7)} samples"
    at_ten_million = [group.rows[1] for group in dense if group.rows[0].name == ours_at(10**7)]
    for row in at_ten_million:
        targets.append(Target(aim, f"{row.ratio:.0f}x", row.ratio >= 100))
    if not at_ten_million:
        targets.append(Target(aim, "–", None))
    for group, name, limit in ((resnet, "small ResNet", 0.03), (lenet, "LeNet", 0.10)):
        added = group.row("ours").ratio - 1.0
        targets.append(
            Target(f"at most {limit:.0%} on top of a {name} step", f"{added:+.1%}", added <= limit)
        )
    return targets


def group_table(group: Group) -> str:
    lines = [
        f"## {group.title}",
        "",
        f"| | ms per step | ratio | quartiles over {group.rounds} rounds |",
        "|---|---:|---:|---:|",
    ]
    for row in group.rows:
        low, high = (three_digits(quartile) for quartile in row.ratio_quartiles)
        ratio = f"{three_digits(row.ratio)} | {low} – {high}"
        lines.append(f"| {row.name} | {three_digits(row.milliseconds)} | {ratio} |")
    return "\n".join(lines)


def epoch_table(costs: list[EpochCost]) -> str:
    lines = [
        "## Once an epoch: `set_epoch`",
        "",
        "| samples | seconds | on top of the epoch's steps of the loss alone |",
        "|---|---:|---:|",
    ]
    lines += [
        f"| {power(cost.num_samples)} | {three_digits(cost.seconds)} | {cost.share_of_steps:.1%} |"
        for cost in costs
    ]
    return "\n".join(lines)


def target_table(targets: list[Target]) -> str:
    verdicts = {True: "met", False: "not met", None: "not measured in this run"}
    lines = ["## Targets", "", "| target | measured | |", "|---|---:|---|"]
    lines += [
        f"| {target.aim} | {target.measured} | {verdicts[target.met]} |" for target in targets
    ]
    return "\n".join(lines)


def environment() -> dict[str, Any]:
    return {
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "discrimloss": __version__,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def power(size: int) -> str:
    return f"10^{round(math.log10(size))}"


def ours_at(size: int) -> str:
    return f"ours, {power(size)} samples"


def three_digits(value: float) -> str:
    """Return three significant digits, or a whole number if it has more digits."""
    decimals = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 2
    return f"{value:,.{decimals}f}"


# ------------------------------------------------------------------------ the program


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a training step with DiscrimLoss costs.")
    parser.add_argument(
        "--out",
        type=Path,
        help=f"where the .json and the .md go (default: {DEFAULT_OUT}; nowhere with --quick)",
    )
    parser.add_argument("--batch", type=int, default=128, help="rows of a batch")
    parser.add_argument(
        "--repeats",
        type=int,
        help="rounds of the loss alone; slower things take fewer (default: 200; 5 with --quick)",
    )
    parser.add_argument("--forms", action="store_true", help="only the forms and the MLP")
    parser.add_argument("--before", type=Path, help="the .json of an earlier run of --forms")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few rounds, small sizes")
    arguments = parser.parse_args()
    if arguments.out is None and not arguments.quick:
        arguments.out = Path(DEFAULT_OUT + "_of_forms" if arguments.forms else DEFAULT_OUT)
    if arguments.repeats is None:
        arguments.repeats = 5 if arguments.quick else 200
    return arguments


def main() -> None:
    arguments = parse_arguments()
    batch, rounds = arguments.batch, arguments.repeats
    sizes = QUICK_SIZES if arguments.quick else SIZES
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if arguments.forms:
        run_forms(arguments)
        return
    generator = torch.Generator().manual_seed(0)

    command = shlex.join(["python", "-m", "benchmarks.step_cost", *sys.argv[1:]])
    conditions = environment()
    heading = [
        "# What a training step with DiscrimLoss costs",
        "",
        f"`{command}`, batches of {batch}.",
        ", ".join(f"{name} {value}" for name, value in conditions.items()) + ".",
        "",
        "The first row of each table is what its ratios refer to. Ratios are of medians; the",
        "quartiles are of the ratios within each round.",
    ]
    report: list[str] = []

    def say(text: str) -> None:
        report.append(text)
        print(text, end="\n\n", flush=True)

    say("\n".join(heading))
    criteria = {size: in_second_epoch(size) for size in sizes}
    loss_alone = measure_loss_alone(criteria, batch, rounds, generator)
    say(group_table(loss_alone))
    dense = measure_dense(criteria, batch, max(3, rounds // 20), generator)
    for group in dense:
        say(group_table(group))
    once_per_epoch = measure_once_per_epoch(criteria, loss_alone, batch, generator)
    say(epoch_table(once_per_epoch))
    criteria.clear()  # a gigabyte that the networks need not share the machine with

    lenet_steps = measure_network(
        "A LeNet training step, 1x28x28",
        lenet(),
        (60_000, 1, 28, 28),
        batch,
        rounds=max(3, rounds // 2),
        steps=5,
        generator=generator,
    )
    say(group_table(lenet_steps))
    resnet_steps = measure_network(
        "A small ResNet training step, 3x32x32",
        small_resnet(),
        (50_000, 3, 32, 32),
        batch,
        rounds=max(3, rounds // 3),
        steps=1,
        generator=generator,
    )
    say(group_table(resnet_steps))
    targets = judge(sizes, loss_alone, dense, lenet_steps, resnet_steps)
    say(target_table(targets))

    if arguments.out is not None:
        record = {
            "command": command,
            "batch": batch,
            "environment": conditions,
            "targets": [asdict(target) for target in targets],
            "groups": [asdict(group) for group in (loss_alone, *dense, lenet_steps, resnet_steps)],
            "once_per_epoch": [asdict(cost) for cost in once_per_epoch],
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        stem = arguments.out.name
        arguments.out.with_name(f"{stem}.json").write_text(json.dumps(record, indent=2) + "\n")
        arguments.out.with_name(f"{stem}.md").write_text("\n\n".join(report) + "\n")


if __name__ == "__main__":
    main()
