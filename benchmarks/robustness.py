"""Harm and help: what losses for noisy labels do to accuracy, against cross-entropy.

    python -m benchmarks.robustness run --data DIR --cifar DIR   # train what is not stored yet
    python -m benchmarks.robustness run --data DIR --only glass  # rows with this in their title
    python -m benchmarks.robustness page                         # the page, from what is stored

Texts, tables and images; clean labels, injected and real noise; balanced sets and long tails; few
and many epochs; SGD and AdamW; a constant and a decaying rate. `robustness_design` has the rows,
`robustness_losses` the methods, `robustness_sets` the layout of DIR.

Each cell is a line of results/robustness.jsonl, appended when its job ends. Stored cells are not
run again, so a stopped program goes on with the same command. A change in the code is not noticed:
remove the lines of the methods it concerns. `run` writes the page as well.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.robustness_cell import run_cells
from benchmarks.robustness_design import SEEDS, Row, design
from benchmarks.robustness_losses import METHODS
from benchmarks.robustness_page import render
from discrimloss.files.atomic_write import atomic_write
from discrimloss.files.locks import LockedError, exclusive_lock
from discrimloss.training.grid import Job, JobResult, run_jobs
from discrimloss.training.interruption import Interrupted

RESULTS = Path(__file__).parent / "results"
NAME = "robustness"
IMPORTED_ONCE = ("benchmarks.robustness_cell", "torch._dynamo")
SECONDS_PER_EPOCH = {"texts": 0.03, "tables": 0.02, "images": 0.09, "cifar10": 1.45}
"""Of one network on one core, measured: for the estimate that is printed."""
SECONDS_TO_START = {"texts": 0.6, "tables": 0.3, "images": 0.3, "cifar10": 1.0}
"""Of a job, measured likewise."""
TAIL_FRACTION = 0.4
"""About what a long tail leaves of a set, for the same estimate."""


# ----------------------------------------------------------------------------------- store


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The stored cells. A last line that a killed program left unfinished is left out."""
    if not path.is_file():
        return []
    complete = path.read_text("utf-8").rpartition("\n")[0]
    return [json.loads(line) for line in complete.splitlines()]


def append_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Add cells at the end of the file, in place of an unfinished line if there is one."""
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write("".join(json.dumps(line) + "\n" for line in lines).encode())


# ------------------------------------------------------------------------------------ jobs


@dataclass(frozen=True)
class Cells:
    """Cells of one row and seed that one job runs."""

    row: Row
    seed: int
    methods: tuple[str, ...]

    @property
    def title(self) -> str:
        """For messages."""
        return f"{self.row.title}, seed {self.seed}"

    @property
    def seconds(self) -> float:
        """About how long they take on one core."""
        kind = "cifar10" if self.row.data_set.is_cifar else self.row.data_set.kind
        setting = self.row.setting
        networks = sum(1 + METHODS[name].retrains for name in self.methods)
        size = 1.0 if setting.imbalance == 1 else TAIL_FRACTION
        return SECONDS_TO_START[kind] + networks * size * setting.epochs * SECONDS_PER_EPOCH[kind]


def waiting_cells(
    rows: Iterable[Row], seeds: Iterable[int], methods: Iterable[str], stored: list[dict[str, Any]]
) -> list[Cells]:
    """What is not stored yet.

    Methods share a job, except where training takes far longer than reading the set.
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


class Progress:
    """Stores the lines of each job that ends, and prints how far the program is.

    Args:
        path: of the stored lines.
        waiting: all cells that are to be run.
    """

    def __init__(self, path: Path, waiting: list[Cells]) -> None:
        self.path = path
        self.jobs = len(waiting)
        self.ended = 0
        self.estimated = sum(cells.seconds for cells in waiting)
        self.done = 0.0
        self.started = time.monotonic()

    def __call__(self, result: JobResult) -> None:
        """Take a job that has ended."""
        cells = Cells(*result.job.arguments[:3])
        self.ended += 1
        self.done += cells.seconds
        if result.error is None:
            append_lines(self.path, result.value)
            words = "  ".join(
                f"{line['method']} {line['overall']:.1f}/{line['balanced']:.1f}"
                for line in result.value
            )
        else:
            words = f"failed ({result.error})"
        left = (time.monotonic() - self.started) * (self.estimated / self.done - 1) / 60
        place = f"[{self.ended}/{self.jobs}]"
        print(f"{place} {cells.title}: {words}  ({left:.0f} min left)", flush=True)


# ------------------------------------------------------------------------------------ main


def run(options: argparse.Namespace) -> None:
    """Train what is not stored yet, then write the page."""
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{NAME}.jsonl"
    rows = chosen_rows(options)
    seeds = SEEDS[: options.seeds]
    waiting = waiting_cells(rows, seeds, options.methods, read_lines(path))
    number = sum(len(cells.methods) for cells in waiting)
    minutes = sum(cells.seconds for cells in waiting) / options.workers / 60
    print(
        f"{len(rows)} rows, {len(rows) * len(seeds) * len(options.methods):,} cells, {number:,} of "
        f"them to run: about {minutes:.0f} minutes with {options.workers} processes",
        flush=True,
    )
    arguments = [
        (cells.row, cells.seed, cells.methods, options.data, options.cifar) for cells in waiting
    ]
    jobs = [
        Job(cells.title, run_cells, given) for cells, given in zip(waiting, arguments, strict=True)
    ]
    try:
        ended = run_jobs(jobs, options.workers, Progress(path, waiting), IMPORTED_ONCE)
    except Interrupted:
        raise SystemExit("stopped; the same command continues") from None
    write_page(options)
    if any(result.error for result in ended):
        raise SystemExit("some cells failed, see above: the same command tries them again")


def chosen_rows(options: argparse.Namespace) -> list[Row]:
    """The rows of the design that are wanted and whose data is there."""
    rows = [row for row in design() if options.only in row.title]
    if options.cifar is None:
        print("without --cifar: the rows on CIFAR-10 are left out")
        rows = [row for row in rows if not row.data_set.is_cifar]
    sets = {row.data_set for row in rows if not row.data_set.is_cifar}
    missing = sorted(str(s.file(options.data)) for s in sets if not s.file(options.data).is_file())
    if missing:
        raise SystemExit(f"these files are missing: {', '.join(missing)}")
    if not rows:
        raise SystemExit(f"no row has {options.only!r} in its title")
    return rows


def write_page(options: argparse.Namespace) -> None:
    """Write the page from the stored lines."""
    lines = read_lines(options.out / f"{NAME}.jsonl")
    if not lines:
        raise SystemExit(f"nothing is stored in {options.out / NAME}.jsonl: run it first")
    page = options.out / f"{NAME}.md"
    with atomic_write(page) as unfinished:
        unfinished.write_text(render(lines, design()), encoding="utf-8")
    print(f"written: {page}")


def argument_parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    trains = commands.add_parser("run", help="train what is not stored yet, then write the page")
    data = os.environ.get("DISCRIMLOSS_DATA")
    trains.add_argument(
        "--data", type=Path, default=data, required=data is None, help="or DISCRIMLOSS_DATA"
    )
    trains.add_argument("--cifar", type=Path, help="the directory of CIFAR-10 and CIFAR-10N")
    trains.add_argument("--only", default="", metavar="WORD", help="rows with this in their title")
    trains.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    trains.add_argument("--seeds", type=int, choices=range(1, len(SEEDS) + 1), default=len(SEEDS))
    trains.add_argument("--workers", type=int, default=2, help="processes, one thread each")
    trains.set_defaults(command=run)
    writes = commands.add_parser("page", help="write the page from what is stored")
    writes.set_defaults(command=write_page)
    for command in (trains, writes):
        command.add_argument("--out", type=Path, default=RESULTS, help="where the results are")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run a command; no other one may use the same results at the time."""
    options = argument_parser().parse_args(arguments)
    lock = options.out / f".{NAME}.lock"
    try:
        with exclusive_lock(lock, f"another program writes the results in {options.out}"):
            options.command(options)
    except LockedError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
