"""The recipes that fit two CPU cores, each with DiscrimLoss and with the plain task loss beside it.

    python benchmarks/recipes.py --data DIR --runs DIR

Every run is a `discrimloss train` in its own directory below RUNS: finished ones are not run again,
stopped ones go on. The table is made from their summaries and written to results/recipes.md, with
all summaries in results/recipes.json. One thread for each of `--jobs` runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
METHODS = ("plain", "discrimloss")
ABOUT = """\
`python benchmarks/recipes.py --data DIR --runs DIR`. Accuracy in %, or mean absolute error for
digitsum and utkface, where lower is better. AUROC of the average loss; precision and recall of the
verdict `incorrect`. Minutes on one thread, two runs at once on two cores of a shared machine."""


@dataclass(frozen=True)
class Experiment:
    name: str
    recipe: str
    settings: tuple[str, ...]
    methods: tuple[str, ...] = METHODS


EXPERIMENTS = [
    Experiment("mnist-40", "mnist", ("noise.kind=permuted", "noise.rate=0.4")),
    Experiment("digitsum-0", "digitsum", ("noise.rate=0",)),
    Experiment("digitsum-40", "digitsum", ("noise.rate=0.4",)),
    Experiment("cifar10-clean", "cifar10-small", ("noise.kind=none",), ("plain",)),
    Experiment("cifar10-40", "cifar10-small", ("noise.rate=0.4",)),
    Experiment(
        "cifar10-worse", "cifar10-small", ("noise.kind=human", "noise.labels=worse", "epochs=6")
    ),
    Experiment("utkface-40", "utkface-small", ("noise.rate=0.4",)),
    Experiment("wikihow-40", "wikihow-small", ("noise.rate=0.4",)),
]


@dataclass(frozen=True)
class Run:
    experiment: Experiment
    method: str
    seed: int

    @property
    def folder(self) -> str:
        return f"{self.experiment.name}/{self.method}-{self.seed}"

    @property
    def settings(self) -> list[str]:
        return [*self.experiment.settings, f"method={self.method}", f"seed={self.seed}"]


def train(run: Run, data: Path, runs: Path) -> None:
    out = runs / run.folder
    if (out / "summary.json").exists():
        return
    command = [sys.executable, "-m", "discrimloss.cli", "train", run.experiment.recipe]
    command += [*run.settings, "threads=1", "--data", str(data), "--out", str(out), "--resume"]
    finished = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    if finished.returncode != 0:
        raise SystemExit(f"{run.folder}: {finished.stderr.strip()}")
    print(f"{run.folder}: done", flush=True)


def spread(values: list[float], digits: int = 2, factor: float = 1.0) -> str:
    values = [factor * value for value in values if value is not None]
    if not values:
        return "–"
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def render(results: dict[str, list[dict[str, Any]]]) -> str:
    titles = ["command", "method", "test, last epoch", "best epoch", "fit of the given labels"]
    titles += ["noise true / estimated, %", "AUROC", "precision", "recall", "seeds", "minutes"]
    lines = [
        "# The recipes that fit two CPU cores",
        "",
        ABOUT,
        "",
        f"| {' | '.join(titles)} |",
        "|---" * len(titles) + "|",
    ]
    for experiment in EXPERIMENTS:
        command = shlex.join(["discrimloss", "train", experiment.recipe, *experiment.settings])
        for method in experiment.methods:
            summaries = results.get(f"{experiment.name}/{method}", [])
            if not summaries:
                continue

            def column(key: str, summaries: list[dict[str, Any]] = summaries) -> list[Any]:
                return [summary.get(key) for summary in summaries]

            metric = summaries[0]["metric"]
            noise = [spread(column(key), 1, 100) for key in ("noise_true", "noise_estimated")]
            row = [f"`{command}`", f"`{method}`"]
            row += [f"**{spread([s['test']['last'] for s in summaries])}**"]
            row += [spread([s["test"]["best"] for s in summaries])]
            row += [spread(column(f"train_{metric}_noisy")), " / ".join(noise)]
            row += [spread(column(key), 3) for key in ("auroc", "precision", "recall")]
            row += [" ".join(str(s["seed"]) for s in summaries)]
            row += [spread(column("seconds"), 1, 1 / 60)]
            lines.append(f"| {' | '.join(row)} |")
    versions = {json.dumps(s["versions"]) for group in results.values() for s in group}
    for text in sorted(versions):
        lines += [
            "",
            "Made with " + ", ".join(f"{k} {v}" for k, v in json.loads(text).items()) + ".",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("DISCRIMLOSS_DATA"))
    parser.add_argument("--runs", type=Path, required=True, help="where the runs are kept")
    parser.add_argument("--only", nargs="+", choices=[e.name for e in EXPERIMENTS])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where the data is: --data DIR, or DISCRIMLOSS_DATA")

    runs = [
        Run(experiment, method, seed)
        for seed in range(1, options.seeds + 1)
        for experiment in EXPERIMENTS
        for method in experiment.methods
    ]
    chosen = [run for run in runs if not options.only or run.experiment.name in options.only]
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda run: train(run, options.data, options.runs), chosen))

    results: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        summary = options.runs / run.folder / "summary.json"
        if summary.exists():
            key = f"{run.experiment.name}/{run.method}"
            results.setdefault(key, []).append(json.loads(summary.read_text(encoding="utf-8")))
    report = render(results)
    (HERE / "results" / "recipes.json").write_text(json.dumps(results, indent=1) + "\n")
    (HERE / "results" / "recipes.md").write_text(report)
    print(report)


if __name__ == "__main__":
    main()
