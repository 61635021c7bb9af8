"""Makes the training runs of a benchmark, once and in a directory each, and reads them."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrimloss.recipes import load_recipe
from discrimloss.training.grid import JobResult, train_runs
from discrimloss.training.interruption import Interrupted
from discrimloss.training.run import RunRequest

RESULTS = Path(__file__).parent / "results"
Summary = dict[str, Any]


@dataclass(frozen=True)
class Run:
    group: str
    """Name of the runs that differ only in the seed. They are one row of the table."""
    recipe: str
    settings: tuple[str, ...]
    seed: int

    @property
    def folder(self) -> str:
        return f"{self.group}-{self.seed}"

    @property
    def all_settings(self) -> tuple[str, ...]:
        return (*self.settings, f"seed={self.seed}", "threads=1", "tensorboard=false")

    @property
    def command(self) -> str:
        return shlex.join(["discrimloss", "train", self.recipe, *self.all_settings])


def place_parser(about: str) -> argparse.ArgumentParser:
    """Return a parser of the common options: the directories, and the number of parallel runs."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = os.environ.get("DISCRIMLOSS_DATA")
    parser.add_argument(
        "--data", type=Path, default=data, required=data is None, help="or DISCRIMLOSS_DATA"
    )
    parser.add_argument("--runs", type=Path, required=True, help="where the runs are kept")
    parser.add_argument("--jobs", type=int, default=2)
    return parser


def argument_parser(about: str, experiments: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser of the same options and a choice of experiments."""
    parser = place_parser(about)
    parser.add_argument("--only", nargs="+", choices=list(experiments))
    return parser


def train_all(chosen: Iterable[Run], data: Path, runs: Path, jobs: int) -> None:
    """Train with one thread per run. Skip finished runs; continue stopped ones."""
    requests = []
    for run in chosen:
        config, out = load_recipe(run.recipe, run.all_settings), runs / run.folder
        requests.append(RunRequest(config, data, out, resume=True, command=run.command))
    try:
        results = train_runs(requests, jobs, print_end)
    except Interrupted as stopped:
        raise SystemExit(f"stopped {stopped}; the same command continues") from None
    if any(result.error for result in results):
        raise SystemExit("some runs failed, see above: the same command tries them again")


def print_end(result: JobResult) -> None:
    """Print whether a job succeeded."""
    how = "done" if result.error is None else f"failed ({result.error})"
    print(f"{result.job.name}: {how} after {result.seconds:.0f} s", flush=True)


def collect(made: Iterable[Run], runs: Path) -> dict[str, list[Summary]]:
    """Return the summaries of finished runs, by group."""
    results: dict[str, list[Summary]] = {}
    for run in made:
        summary = runs / run.folder / "summary.json"
        if summary.exists():
            results.setdefault(run.group, []).append(json.loads(summary.read_text("utf-8")))
    return results


def stored(name: str) -> dict[str, list[Summary]]:
    """Return the summaries of an earlier `write`."""
    path = RESULTS / f"{name}.json"
    found: dict[str, list[Summary]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def with_same_command(
    old: dict[str, list[Summary]], runs: Iterable[Run]
) -> dict[str, list[Summary]]:
    """Return the stored summaries that were made by the commands of these runs."""
    commands = {run.command for run in runs}
    kept = {name: [s for s in group if s["command"] in commands] for name, group in old.items()}
    return {name: group for name, group in kept.items() if group}


def updated(
    old: dict[str, list[Summary]], new: dict[str, list[Summary]], order: Iterable[str]
) -> dict[str, list[Summary]]:
    """Return old and new summaries by group. New ones replace old ones of the same seed."""
    merged = {}
    for group in dict.fromkeys(order):
        by_seed = {s["seed"]: s for s in (*old.get(group, []), *new.get(group, []))}
        if by_seed:
            merged[group] = [by_seed[seed] for seed in sorted(by_seed)]
    return merged


def write(name: str, report: str, results: dict[str, list[Summary]]) -> None:
    """Write a page and the summaries behind it."""
    (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(report)
    print(report)


def spread(values: Iterable[float | None], digits: int = 2, factor: float = 1.0) -> str:
    """Return ``mean ± standard deviation`` of the values that exist."""
    numbers = [factor * value for value in values if value is not None]
    if not numbers:
        return "–"
    mean = f"{statistics.mean(numbers):.{digits}f}"
    return f"{mean} ± {statistics.stdev(numbers):.{digits}f}" if len(numbers) > 1 else mean


def column(key: str, summaries: list[Summary]) -> list[Any]:
    return [summary.get(key) for summary in summaries]


def table(titles: list[str], rows: Iterable[list[str]]) -> list[str]:
    head = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return head + [f"| {' | '.join(row)} |" for row in rows]


def versions(results: dict[str, list[Summary]]) -> list[str]:
    """Return a line for each set of versions that runs were made with."""
    found = {json.dumps(s["versions"]) for group in results.values() for s in group}
    return [
        "Made with " + ", ".join(f"{k} {v}" for k, v in json.loads(text).items()) + "."
        for text in sorted(found)
    ]
