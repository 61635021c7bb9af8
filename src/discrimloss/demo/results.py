"""Writes the results of the demo, as a table and as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from discrimloss.demo.experiment import VALUE_NAMES, Experiment, mean_and_std
from discrimloss.demo.picture import save_picture
from discrimloss.training.records import versions

PICTURE, SUMMARY, TABLE, VERDICTS = "suspicious.png", "summary.json", "table.md", "verdicts.csv"

NOTHING = "–"


def write_results(experiment: Experiment, command: str, directory: Path) -> None:
    """Write the four files with the results into an existing directory."""
    first = experiment.first
    save_picture(first, directory / PICTURE)
    first.verdicts.to_csv(directory / VERDICTS)
    (directory / TABLE).write_text(markdown_table(experiment, command), encoding="utf-8")
    text = json.dumps(summary(experiment, command), indent=2, allow_nan=False)
    (directory / SUMMARY).write_text(text + "\n", encoding="utf-8")


def title(experiment: Experiment) -> str:
    """Return the title of the table."""
    return (
        f"Handwritten digits, {100 * experiment.noise:g} % wrong labels, "
        f"after {experiment.epochs} epochs"
    )


def table_head(experiment: Experiment) -> tuple[str, str, str]:
    """Return the column headers of the table."""
    number = len(experiment.seeds)
    unit = f"in %, mean ± standard deviation, {number} seeds" if number > 1 else "in %, 1 seed"
    return unit, "cross-entropy", "DiscrimLoss"


def table_rows(experiment: Experiment) -> list[tuple[str, str, str]]:
    """Return the rows of the table, with the columns of `table_head`."""

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
    """Return a Markdown page with the table and the command that reproduces it."""
    lines = [f"{title(experiment)}.", ""]
    lines += [f"| {' | '.join(table_head(experiment))} |", "|---|---:|---:|"]
    lines += [f"| {' | '.join(row)} |" for row in table_rows(experiment)]
    made_with = ", ".join(f"{name} {version}" for name, version in versions().items())
    first, last = experiment.seeds[0], experiment.seeds[-1]
    seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
    lines += ["", f"Made by `{command}` ({seeds}; {made_with})."]
    return "\n".join(lines) + "\n"


def summary(experiment: Experiment, command: str) -> dict[str, Any]:
    """Return all metrics, per seed and over all seeds, and the command that reproduces them."""
    values = {}
    for name in VALUE_NAMES:
        per_seed = experiment.per_seed(name)
        mean, std = mean_and_std(per_seed)
        values[name] = {"mean": mean, "std": std, "per_seed": per_seed}
    digits = experiment.first.digits
    settings = digits.config.as_dict()
    return {
        "command": command,
        "versions": versions(),
        "data": {
            "name": "sklearn.datasets.load_digits",
            "training_samples": len(digits.labels.target),
            "test_samples": 0 if digits.task.test is None else len(digits.task.test),
        },
        "training": {
            key: settings[key] for key in ("recipe", "model", "optimizer", "schedule", "batch_size")
        },
        "noise": experiment.noise,
        "epochs": experiment.epochs,
        "seeds": list(experiment.seeds),
        "figures": values,
    }
