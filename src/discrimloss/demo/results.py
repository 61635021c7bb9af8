"""The demo's figures as a table and as files."""

from __future__ import annotations

import csv
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discrimloss import __version__
from discrimloss.demo import experiment as settings
from discrimloss.demo.digits import NUM_CLASSES, NUM_PIXELS
from discrimloss.demo.experiment import FIGURE_NAMES, Experiment, SeedRun, mean_and_std
from discrimloss.demo.picture import save_picture

PICTURE, SUMMARY, TABLE, VERDICTS = "suspicious.png", "summary.json", "table.md", "verdicts.csv"

NOTHING = "–"


def write_results(experiment: Experiment, command: str, directory: Path) -> None:
    """Write all four files into an existing directory."""
    first = experiment.first
    save_picture(first, directory / PICTURE)
    _write_verdicts(first, directory / VERDICTS)
    (directory / TABLE).write_text(markdown_table(experiment, command), encoding="utf-8")
    text = json.dumps(summary(experiment, command), indent=2, allow_nan=False)
    (directory / SUMMARY).write_text(text + "\n", encoding="utf-8")


def title(experiment: Experiment) -> str:
    """What the table is about."""
    return (
        f"Handwritten digits, {100 * experiment.noise:g} % wrong labels, "
        f"after {experiment.epochs} epochs"
    )


def table_head(experiment: Experiment) -> tuple[str, str, str]:
    """The head of the table, over the cells of `table_rows`."""
    number = len(experiment.seeds)
    unit = f"in %, mean ± standard deviation, {number} seeds" if number > 1 else "in %, 1 seed"
    return unit, "cross-entropy", "DiscrimLoss"


def table_rows(experiment: Experiment) -> list[tuple[str, str, str]]:
    """Rows of the table, as wide as `table_head`."""

    def cell(name: str) -> str:
        mean, std = mean_and_std(experiment.per_seed(name))
        if mean is None:
            return NOTHING
        return f"{100 * mean:.1f}" + ("" if std is None else f" ± {100 * std:.1f}")

    true_noise_rate, _ = mean_and_std(experiment.per_seed("true_noise_rate"))
    assert true_noise_rate is not None
    return [
        ("test accuracy", cell("cross_entropy_accuracy"), cell("discrimloss_accuracy")),
        ("wrong labels found (recall)", NOTHING, cell("recall")),
        ("flagged labels that are wrong (precision)", NOTHING, cell("precision")),
        (
            f"estimated noise rate (true: {100 * true_noise_rate:.1f})",
            NOTHING,
            cell("estimated_noise_rate"),
        ),
    ]


def markdown_table(experiment: Experiment, command: str) -> str:
    """The table as a page of its own, with what is needed to make it again."""
    lines = [f"{title(experiment)}.", ""]
    lines += [f"| {' | '.join(table_head(experiment))} |", "|---|---:|---:|"]
    lines += [f"| {' | '.join(row)} |" for row in table_rows(experiment)]
    made_with = ", ".join(f"{name} {version}" for name, version in versions().items())
    first, last = experiment.seeds[0], experiment.seeds[-1]
    seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
    lines += ["", f"Made by `{command}` ({seeds}; {made_with})."]
    return "\n".join(lines) + "\n"


def summary(experiment: Experiment, command: str) -> dict[str, Any]:
    """Every figure, for each seed and over all, and what is needed to make them again."""
    figures = {}
    for name in FIGURE_NAMES:
        per_seed = experiment.per_seed(name)
        mean, std = mean_and_std(per_seed)
        figures[name] = {"mean": mean, "std": std, "per_seed": per_seed}
    digits = experiment.first.digits
    return {
        "command": command,
        "versions": versions(),
        "data": {
            "name": "sklearn.datasets.load_digits",
            "training_samples": len(digits.target),
            "test_samples": len(digits.test_target),
        },
        "training": {
            "model": f"MLP {NUM_PIXELS}-{settings.HIDDEN_UNITS}-{NUM_CLASSES}",
            "optimizer": "SGD",
            "learning_rate": settings.LEARNING_RATE,
            "momentum": settings.MOMENTUM,
            "schedule": "cosine, by epoch",
            "batch_size": settings.BATCH_SIZE,
        },
        "noise": experiment.noise,
        "epochs": experiment.epochs,
        "seeds": list(experiment.seeds),
        "figures": figures,
    }


def versions() -> dict[str, str]:
    """What ran."""
    return {
        "discrimloss": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def _write_verdicts(run: SeedRun, path: Path) -> None:
    """One line per training sample, worst first; `index` is its row in `load_digits()`."""
    verdicts = run.verdicts
    weight, average_loss = np.asarray(verdicts.weight), np.asarray(verdicts.average_loss)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            (
                "index",
                "given_label",
                "suggested_label",
                "verdict",
                "p_incorrect",
                "weight",
                "average_loss",
            )
        )
        for sample in verdicts.most_suspicious(len(verdicts)):
            writer.writerow(
                (
                    int(run.digits.index[sample]),
                    int(run.digits.target[sample]),
                    int(run.suggested[sample]),
                    verdicts.verdict[sample],
                    f"{verdicts.p_incorrect[sample]:.6g}",
                    f"{weight[sample]:.6g}",
                    f"{average_loss[sample]:.6g}",
                )
            )
