"""Runs of `discrimloss train` for a table: each in its own directory, made once, then read."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
Summary = dict[str, Any]


@dataclass(frozen=True)
class Run:
    group: str
    """Runs that differ in the seed only are one group: a row of the table."""
    recipe: str
    settings: tuple[str, ...]
    seed: int

    @property
    def folder(self) -> str:
        return f"{self.group}-{self.seed}"


def place_parser(about: str) -> argparse.ArgumentParser:
    """Where data and runs are, and how many run at once: what every such program takes."""
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
    """Those, and which experiments."""
    parser = place_parser(about)
    parser.add_argument("--only", nargs="+", choices=list(experiments))
    return parser


def train(run: Run, data: Path, runs: Path) -> None:
    """A `discrimloss train` on one thread: not again if it is finished, further if it is not."""
    out = runs / run.folder
    if (out / "summary.json").exists():
        return
    command = [sys.executable, "-m", "discrimloss.cli", "train", run.recipe, *run.settings]
    command += [f"seed={run.seed}", "threads=1", "tensorboard=false"]
    command += ["--data", str(data), "--out", str(out), "--resume"]
    finished = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    if finished.returncode != 0:
        raise SystemExit(f"{run.folder}: {finished.stderr.strip()}")
    print(f"{run.folder}: done", flush=True)


def train_all(chosen: Iterable[Run], data: Path, runs: Path, jobs: int) -> None:
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda run: train(run, data, runs), chosen))


def collect(made: Iterable[Run], runs: Path) -> dict[str, list[Summary]]:
    """The summaries of what is finished, by group."""
    results: dict[str, list[Summary]] = {}
    for run in made:
        summary = runs / run.folder / "summary.json"
        if summary.exists():
            results.setdefault(run.group, []).append(json.loads(summary.read_text("utf-8")))
    return results


def write(name: str, report: str, results: dict[str, list[Summary]]) -> None:
    """A table, and all that it is made from."""
    (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(report)
    print(report)


def spread(values: Iterable[float | None], digits: int = 2, factor: float = 1.0) -> str:
    """``mean ± standard deviation`` of what is there."""
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
    """What the runs were made with, a line for each set of versions."""
    found = {json.dumps(s["versions"]) for group in results.values() for s in group}
    return [
        "Made with " + ", ".join(f"{k} {v}" for k, v in json.loads(text).items()) + "."
        for text in sorted(found)
    ]
