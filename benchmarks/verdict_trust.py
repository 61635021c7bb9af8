"""Verdicts of short runs: are estimates right wherever the verdicts do not say "cannot tell"?

    python -m benchmarks.verdict_trust run --data DIR --mnist DIR   # train what is not stored yet
    python -m benchmarks.verdict_trust run ... --only digits --minutes 10
    python -m benchmarks.verdict_trust run ... --states STATES      # keeps the states of runs
    python -m benchmarks.verdict_trust judge ... --states STATES    # judges them again
    python -m benchmarks.verdict_trust page                         # the page, from what is stored

A network with one hidden layer is trained on clean labels and on labels of which a fifth is wrong
(drawn from the other classes): four optimizers, 1 to 12 epochs, a constant and a cosine rate, in
the three forms of DiscrimLoss. Sets whose own labels have errors are trained on as they are, for
twelve epochs. DIR is laid out as in `robustness_sets`.

Each run is a line of results/verdict_trust.jsonl. Stored runs are not run again, so a stopped
program goes on with the same command. The order is random, so that a part is a fair sample.
Verdicts change nothing in the training, so kept states give the lines that another training would.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks import robustness_sets
from benchmarks.stored_cells import append_lines, read_lines
from discrimloss import DiscrimLoss, Verdicts
from discrimloss.data.digits import load_digits
from discrimloss.data.mnist import load_mnist
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging import run_limits
from discrimloss.judging.verdicts import CANNOT_TELL
from discrimloss.training.seeds import derived_generator

RESULTS = Path(__file__).parent / "results"
NAME = "verdict_trust"
CHOSEN_ON = ("digits", "mnist", "agnews_7600", "adult", "letter", "trec50")
"""Sets on which the limits of `judging.run_limits` were chosen, at other learning rates."""
HELD_OUT = ("stackoverflow20", "airline_sentiment", "spambase", "covertype")
"""Sets that no choice was made on, with labels that count as clean."""
NATURAL = ("cosine_agnews_weak", "vader_tweets", "wrench_youtube", "crowdtruth_treat")
"""Sets with natural wrong labels whose truth is known. Some informed a choice: `LOOKED_AT`."""
LOOKED_AT = ("cosine_agnews_weak", "crowdtruth_treat", "wrench_youtube")
"""That predictions must agree with a hard label was decided after looking at these two."""
MORE_NATURAL = ("davidson_hate", "md_agreement", "wrench_trec", "mammographic_radiologist")
"""Sets with natural wrong labels. No choice here was made on them; other benchmarks use them."""
FORMS = ("losses", "target", "predictions")
OPTIMIZERS = {"sgd": 0.1, "momentum": 0.02, "adam": 1e-3, "adamw": 2e-3}
EPOCHS, SCHEDULES, SEEDS = (1, 3, 6, 12), ("constant", "cosine"), (1, 2, 3, 4, 5)
SEEDS_OF_OTHERS = (1, 2)
"""Seeds of all sets but the digits and MNIST."""
INJECTED = 0.2
IMAGES, HIDDEN, BATCH = 2_000, 128, 64
ALARM, CLOSE = 0.05, 0.05
"""On clean labels, an estimate above `ALARM` is a false alarm. `CLOSE` is the tolerance on noisy
labels."""
BINS = 10
REASONS = {
    "too short": run_limits.TOO_SHORT,
    "not learned": run_limits.NOT_LEARNED,
    "not apart": run_limits.NOT_SEPARATED,
    "unsure": run_limits.UNSURE,
    "class not learned": run_limits.CLASS_NOT_LEARNED,
    "memorised": run_limits.MEMORISED,
    "learned late": run_limits.LEARNED_LATE,
    "no interval": CANNOT_TELL,
}
"""Columns of the page, and the notes that they count."""


@dataclass(frozen=True)
class Case:
    """One run."""

    data_set: str
    form: str
    noise: str
    """``"clean"``, ``"injected"`` or ``"natural"``."""
    optimizer: str
    epochs: int
    schedule: str
    seed: int


def design() -> list[Case]:
    """Return all runs, in the order in which they are trained."""
    cases = [
        Case(name, form, noise, *rest, seed)
        for name, form, noise, *rest, seed in itertools.product(
            CHOSEN_ON + HELD_OUT,
            FORMS,
            ("clean", "injected"),
            OPTIMIZERS,
            EPOCHS,
            SCHEDULES,
            SEEDS,
        )
        if name in ("digits", "mnist") or seed in SEEDS_OF_OTHERS
    ]
    cases += [
        Case(name, form, "natural", optimizer, 12, "cosine", seed)
        for name, form, optimizer, seed in itertools.product(
            NATURAL + MORE_NATURAL, FORMS, ("momentum", "adamw"), SEEDS_OF_OTHERS
        )
    ]
    random.Random(0).shuffle(cases)
    # One seed of everything first. Each round has a run of every set, form and kind of noise.
    rounds: Counter[tuple[str, str, str, int]] = Counter()
    order = {}
    for case in cases:
        group = (case.data_set, case.form, case.noise, case.seed)
        rounds[group] += 1
        order[case] = (case.seed, rounds[group])
    return sorted(cases, key=lambda case: order[case])


# -------------------------------------------------------------------------------- training


def load(name: str, data: Path | None, mnist: Path | None) -> robustness_sets.Samples:
    """Read a set."""
    if name in ("digits", "mnist"):
        if name == "mnist" and mnist is None:
            raise SystemExit("mnist needs its directory: --mnist DIR")
        split = (load_mnist(mnist) if mnist and name == "mnist" else load_digits(Path())).train
        rows = torch.arange(min(IMAGES, len(split.target)))
        inputs, target = split.inputs.rows(rows).flatten(1).float(), split.target[rows]
        inputs = (inputs - inputs.mean()) / inputs.std()
        return robustness_sets.Samples(inputs, target, target, 10)
    if data is None:
        raise SystemExit(f"{name} needs the directory of texts and tables: --data DIR")
    return robustness_sets.load(name, data, None)


def given_labels(case: Case, samples: robustness_sets.Samples) -> tuple[Tensor, Tensor]:
    """Return the labels to train on, and which of them are wrong."""
    if case.noise == "natural":
        return samples.target, samples.target != samples.clean_target
    target = samples.target.clone()
    if case.noise == "injected":
        generator = derived_generator(case.seed, "noise")
        rows = torch.randperm(len(target), generator=generator)[: int(INJECTED * len(target))]
        shift = torch.randint(1, samples.num_classes, (len(rows),), generator=generator)
        target[rows] = (target[rows] + shift) % samples.num_classes
    return target, target != samples.target


def new_criterion(case: Case, number: int, classes: int) -> DiscrimLoss:
    """Return the criterion of a run."""
    options = {} if case.form == "losses" else {"num_classes": classes}
    return DiscrimLoss(num_samples=number, epochs=case.epochs, **options)


def train(case: Case, inputs: Tensor, target: Tensor, classes: int) -> DiscrimLoss:
    """Train a network, and return its criterion."""
    torch.manual_seed(case.seed)
    hidden, number = nn.Linear(inputs.shape[1], HIDDEN), len(target)
    model = nn.Sequential(hidden, nn.ReLU(), nn.Linear(HIDDEN, classes))
    rate, parameters = OPTIMIZERS[case.optimizer], model.parameters()
    optimizer: torch.optim.Optimizer
    if case.optimizer in ("adam", "adamw"):
        kind = torch.optim.Adam if case.optimizer == "adam" else torch.optim.AdamW
        optimizer = kind(parameters, lr=rate)
    else:
        momentum = 0.9 if case.optimizer == "momentum" else 0.0
        optimizer = torch.optim.SGD(parameters, lr=rate, momentum=momentum)
    steps = case.epochs * math.ceil(number / BATCH)
    decays = case.schedule == "cosine"
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps) if decays else None
    criterion = new_criterion(case, number, classes)
    for epoch in range(1, case.epochs + 1):
        criterion.set_epoch(epoch)
        for rows in torch.randperm(number).split(BATCH):
            logits, labels = model(inputs[rows]), target[rows]
            losses = functional.cross_entropy(logits, labels, reduction="none")
            known: dict[str, Tensor] = {} if case.form == "losses" else {"target": labels}
            if case.form == "predictions":
                known["logits"] = logits
            optimizer.zero_grad()
            criterion(losses, rows, **known).backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
    return criterion


def outcome(verdicts: Verdicts, target: Tensor, is_wrong: Tensor) -> dict[str, Any]:
    """Return estimates of the verdicts, and the true values."""
    wrong, given = is_wrong.numpy(), target.numpy()
    incorrect, hard = verdicts.verdict == "incorrect", verdicts.verdict == "hard"
    of_classes = [float(incorrect[given == c].mean()) for c in np.unique(given)]
    return {
        "wrong": float(wrong.mean()),
        "estimate": verdicts.noise_rate,
        "note": verdicts.notes[0] if verdicts.noise_rate is None else "",
        "incorrect": int(incorrect.sum()),
        "found": int((incorrect & wrong).sum()),
        "hard": int(hard.sum()),
        "hard_right": int((hard & ~wrong).sum()),
        "undecided": int((verdicts.verdict == "undecided").sum()),
        "worst_class": max(of_classes),
        "calibration_error": calibration_error(verdicts.p_incorrect, wrong),
        "samples": len(wrong),
    }


def calibration_error(probability: Any, is_wrong: Any) -> float:
    """Return the mean distance of probabilities from frequencies of wrong labels, in ten bins."""
    place = np.minimum((probability * BINS).astype(int), BINS - 1)
    gaps = [
        (place == b).mean() * abs(probability[place == b].mean() - is_wrong[place == b].mean())
        for b in np.unique(place)
    ]
    return float(sum(gaps))


class Loaded:
    """Sets that are read once."""

    def __init__(self, data: Path | None, mnist: Path | None) -> None:
        self.data, self.mnist = data, mnist
        self.sets: dict[str, robustness_sets.Samples] = {}

    def __getitem__(self, name: str) -> robustness_sets.Samples:
        if name not in self.sets:
            self.sets[name] = load(name, self.data, self.mnist)
        return self.sets[name]


def state_file(states: Path, case: Case) -> Path:
    """Return the file in which the state of a run is kept."""
    return states / ("-".join(map(str, asdict(case).values())) + ".pt")


def run(loaded: Loaded, only: str, minutes: float, states: Path | None) -> None:
    """Train what is not stored yet."""
    torch.set_num_threads(1)
    path = RESULTS / f"{NAME}.jsonl"
    stored = {tuple(line["case"].values()) for line in read_lines(path)}
    end = time.monotonic() + 60 * minutes
    for case in design():
        if tuple(asdict(case).values()) in stored or only not in case.data_set:
            continue
        if time.monotonic() > end:
            break
        samples = loaded[case.data_set]
        target, is_wrong = given_labels(case, samples)
        criterion = train(case, samples.inputs, target, samples.num_classes)
        if states is not None:
            states.mkdir(parents=True, exist_ok=True)
            torch.save(criterion.state_dict(), state_file(states, case))
        found = outcome(criterion.verdicts(), target, is_wrong)
        append_lines(path, [{"case": asdict(case), **found}])


def judge(loaded: Loaded, states: Path) -> None:
    """Rewrite all lines from kept states. Runs without a kept state are left out."""
    torch.set_num_threads(1)
    lines = []
    for case in design():
        if not state_file(states, case).is_file():
            continue
        samples = loaded[case.data_set]
        target, is_wrong = given_labels(case, samples)
        criterion = new_criterion(case, len(target), samples.num_classes)
        criterion.load_state_dict(torch.load(state_file(states, case)))
        lines.append({"case": asdict(case), **outcome(criterion.verdicts(), target, is_wrong)})
    with atomic_write(RESULTS / f"{NAME}.jsonl") as unfinished:
        unfinished.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


# ------------------------------------------------------------------------------------ page


def render(lines: list[dict[str, Any]]) -> str:
    """Return the page of the stored runs."""
    parts = [
        "# Trust in the verdicts of short runs",
        "",
        (
            "Made by `python -m benchmarks.verdict_trust run --data DIR --mnist DIR`: networks "
            "with one hidden layer, SGD with and"
        ),
        "without momentum, Adam, AdamW; 1, 3, 6 and 12 epochs; a constant and a cosine rate.",
        (
            f"{len(lines)} of {len(design())} runs are stored, equally many of every set. A run "
            "*tells* if it gives an estimate."
        ),
        (
            "A *false alarm* is an estimate above 5 % on clean labels, a *close* estimate is "
            "within 5 points of the truth."
        ),
        "",
        (
            f"The limits were chosen on {', '.join(CHOSEN_ON)}: on the runs of this page, and on "
            "others. No choice was made on"
        ),
        f"{', '.join(name for name in HELD_OUT + NATURAL if name not in LOOKED_AT)}.",
        f"{', '.join(LOOKED_AT)} were looked at when it was decided which labels are hard.",
        "",
        "## Clean labels, and 20 % wrong",
        "",
        "| form | sets | clean: tells | false alarms | 20 %: tells | close | worst class, clean |",
        "|---|---|---|---|---|---|---|",
    ]
    groups = (("chosen on", CHOSEN_ON), ("held out", HELD_OUT))
    for form in FORMS:
        for title, names in groups:
            parts.append(_trust_row(form, title, _some(lines, form, names)))
        for name in CHOSEN_ON + HELD_OUT:
            own = list(_some(lines, form, (name,)))
            if own:
                parts.append(_trust_row(form, name, own))
    parts += [
        "",
        "## Why runs cannot tell",
        "",
        "Runs on clean labels and with 20 % wrong labels, all sets, by epochs.",
        "",
        "| form | epochs | runs | tell | " + " | ".join(REASONS) + " |",
        "|---|---|---|---|" + "---|" * len(REASONS),
    ]
    for form, epochs in itertools.product(FORMS, EPOCHS):
        parts.append(_reasons_row(form, epochs, _some(lines, form, CHOSEN_ON + HELD_OUT)))
    parts += [
        "",
        "## Wrong labels of the sets' own, 12 epochs",
        "",
        (
            "| form | set | wrong | estimate | precision | recall | hard with right labels "
            "| undecided | calibration error |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for form in FORMS:
        for name in NATURAL + MORE_NATURAL:
            own = list(_some(lines, form, (name,)))
            if own:
                parts.append(_natural_row(form, name, own))
    return "\n".join(parts) + "\n"


def _some(
    lines: Iterable[dict[str, Any]], form: str, names: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    return (
        line for line in lines if line["case"]["form"] == form and line["case"]["data_set"] in names
    )


def _trust_row(form: str, title: str, lines: Iterable[dict[str, Any]]) -> str:
    lines = list(lines)
    clean = [line for line in lines if line["case"]["noise"] == "clean"]
    noisy = [line for line in lines if line["case"]["noise"] == "injected"]
    told = [line for line in clean if line["estimate"] is not None]
    told_noisy = [line for line in noisy if line["estimate"] is not None]
    alarms = sum(line["estimate"] > ALARM for line in told)
    close = sum(abs(line["estimate"] - line["wrong"]) <= CLOSE for line in told_noisy)
    worst = max((line["worst_class"] for line in clean), default=math.nan)
    return (
        f"| {form} | {title} | {len(told)} of {len(clean)} | {alarms} | "
        f"{len(told_noisy)} of {len(noisy)} | {close} | {worst:.2f} |"
    )


def _reasons_row(form: str, epochs: int, lines: Iterable[dict[str, Any]]) -> str:
    own = [line for line in lines if line["case"]["epochs"] == epochs]
    told = sum(line["estimate"] is not None for line in own)
    counts = [sum(line["note"] == note for line in own) for note in REASONS.values()]
    cells = [form, epochs, len(own), told, *counts]
    return "| " + " | ".join(map(str, cells)) + " |"


def _natural_row(form: str, name: str, lines: list[dict[str, Any]]) -> str:
    def total(key: str) -> int:
        return sum(line[key] for line in lines)

    wrong = sum(line["wrong"] * line["samples"] for line in lines)
    told = [line["estimate"] for line in lines if line["estimate"] is not None]
    estimate = f"{100 * np.mean(told):.1f} %" if told else "cannot tell"
    return (
        f"| {form} | {name} | {100 * wrong / total('samples'):.1f} % | {estimate} | "
        f"{_ratio(total('found'), total('incorrect'))} | {_ratio(total('found'), wrong)} | "
        f"{_ratio(total('hard_right'), total('hard'))} of {total('hard')} | "
        f"{_ratio(total('undecided'), total('samples'))} | "
        f"{np.mean([line['calibration_error'] for line in lines]):.3f} |"
    )


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def write_page() -> None:
    """Write the page next to the results."""
    with atomic_write(RESULTS / f"{NAME}.md") as unfinished:
        unfinished.write_text(render(read_lines(RESULTS / f"{NAME}.jsonl")), "utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("command", choices=("run", "judge", "page"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--only", default="", help="sets with this in their name")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--states", type=Path, help="keep the states of runs in this directory")
    given = parser.parse_args(arguments)
    loaded = Loaded(given.data, given.mnist)
    if given.command == "run":
        run(loaded, given.only, given.minutes, given.states)
    elif given.command == "judge":
        if given.states is None:
            parser.error("judge needs --states")
        judge(loaded, given.states)
    write_page()
    print(json.dumps({"runs": len(read_lines(RESULTS / f"{NAME}.jsonl")), "of": len(design())}))


if __name__ == "__main__":
    main()
