"""Harm and help: what losses for noisy labels do to accuracy, against cross-entropy.

    python -m benchmarks.robustness run --data DIR --cifar DIR   # train what is not stored yet
    python -m benchmarks.robustness run --data DIR --only glass  # rows with this in their title
    python -m benchmarks.robustness page                         # the page, from what is stored

Texts, tables and images; clean labels, injected and real noise; balanced sets and long tails; few
and many epochs; SGD and AdamW; a constant and a decaying rate. `robustness_design` has the rows,
`robustness_losses` the methods, `robustness_sets` the layout of DIR.

Each cell is a line of results/robustness.jsonl, appended when its job ends. Stored cells are not
run again, so the same command continues a stopped program. Changes in the code are not detected:
remove the lines of the affected methods. `run` also writes the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.robustness_cell import run_cells
from benchmarks.robustness_design import SEEDS, Row, design
from benchmarks.robustness_losses import METHODS
from benchmarks.robustness_page import render
from benchmarks.stored_cells import (
    Line,
    Waiting,
    argument_parser,
    chosen_rows,
    read_lines,
    run_command,
    run_waiting,
    write_results_page,
)
from discrimloss.training.grid import Job

NAME = "robustness"
IMPORTED_ONCE = ("benchmarks.robustness_cell", "torch._dynamo")
SECONDS_PER_EPOCH = {"texts": 0.03, "tables": 0.02, "images": 0.09, "cifar10": 1.45}
"""Measured seconds of one network on one core, for the estimate that is printed."""
SECONDS_TO_START = {"texts": 0.6, "tables": 0.3, "images": 0.3, "cifar10": 1.0}
"""Measured seconds to start a job."""
TAIL_FRACTION = 0.4
"""Approximate fraction of a set that a long tail leaves, for the same estimate."""


@dataclass(frozen=True)
class Cells:
    """A job: some cells of one row and one seed."""

    row: Row
    seed: int
    methods: tuple[str, ...]

    @property
    def title(self) -> str:
        """Return the title of the job, for messages."""
        return f"{self.row.title}, {' '.join(self.methods)}, seed {self.seed}"

    @property
    def seconds(self) -> float:
        """Return about how long the job takes on one core."""
        kind = "cifar10" if self.row.data_set.is_cifar else self.row.data_set.kind
        setting = self.row.setting
        networks = sum(1 + METHODS[name].retrains for name in self.methods)
        size = 1.0 if setting.imbalance == 1 else TAIL_FRACTION
        return SECONDS_TO_START[kind] + networks * size * setting.epochs * SECONDS_PER_EPOCH[kind]


def waiting_cells(
    rows: Iterable[Row], seeds: Iterable[int], methods: Iterable[str], stored: list[dict[str, Any]]
) -> list[Cells]:
    """Return jobs for the cells that are not stored yet.

    Methods share a job, unless training takes far longer than reading the set.
    """
    is_stored = {(Row.from_dict(line), line["seed"], line["method"]) for line in stored}
    waiting = []
    for seed in seeds:  # one seed of everything first: a stopped program has a page to show
        for row in rows:
            missing = tuple(name for name in methods if (row, seed, name) not in is_stored)
            if row.data_set.kind == "images":
                waiting += [Cells(row, seed, (name,)) for name in missing]
            elif missing:
                waiting.append(Cells(row, seed, missing))
    return waiting


def in_words(line: Line) -> str:
    """Return overall and balanced accuracy of a cell, as text."""
    return f"{line['method']} {line['overall']:.1f}/{line['balanced']:.1f}"


def run(options: argparse.Namespace) -> None:
    """Train the cells that are not stored yet, then write the page."""
    path = options.out / f"{NAME}.jsonl"
    rows = chosen_rows(design(), options)
    seeds = SEEDS[: options.seeds]
    cells = waiting_cells(rows, seeds, options.methods, read_lines(path))
    number = sum(len(one.methods) for one in cells)
    minutes = sum(one.seconds for one in cells) / options.workers / 60
    print(
        f"{len(rows)} rows, {len(rows) * len(seeds) * len(options.methods):,} cells, {number:,} of "
        f"them to run: about {minutes:.0f} minutes with {options.workers} processes",
        flush=True,
    )
    places = (options.data, options.cifar)
    waiting = [
        Waiting(Job(c.title, run_cells, (c.row, c.seed, c.methods, *places)), c.seconds)
        for c in cells
    ]
    succeeded = run_waiting(waiting, path, options.workers, IMPORTED_ONCE, in_words)
    write_page(options)
    if not succeeded:
        raise SystemExit("some cells failed, see above: the same command tries them again")


def write_page(options: argparse.Namespace) -> None:
    """Write the page from the stored lines."""
    write_results_page(options.out, NAME, lambda lines: render(lines, design()))


def main(arguments: list[str] | None = None) -> None:
    """Run a command."""
    parser, runs = argument_parser(__doc__ or "", run, write_page, SEEDS)
    runs.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    run_command(parser, NAME, arguments)


if __name__ == "__main__":
    main()
