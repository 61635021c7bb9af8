"""Does the audit find wrong labels? `discrimloss.audit` at its defaults, beside other ways.

    python -m benchmarks.audit_quality run --data DIR --cifar DIR    # run what is not stored yet
    python -m benchmarks.audit_quality run --data DIR --only small/  # rows with this in their title
    python -m benchmarks.audit_quality page                          # the page, from what is stored

Texts, tables, encoder features, images and regression targets; clean labels, injected and real
noise; 50 to 1,000 rows; AQuA's protocol. `audit_design` has the rows, `audit_rivals` the methods,
`audit_sets` the layout of DIR.

Each cell is a line of results/audit_quality.jsonl, appended when its job ends. Stored cells are not
run again, so a stopped program goes on with the same command. A change in the code is not noticed:
remove the lines of the methods it concerns. `run` writes the page as well.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.audit_cell import cell_methods, run_cells
from benchmarks.audit_design import SEEDS, Row, design, in_turns
from benchmarks.audit_page import render
from benchmarks.audit_rivals import OURS
from benchmarks.robustness import RESULTS, append_lines, read_lines
from discrimloss.files.atomic_write import atomic_write
from discrimloss.files.locks import LockedError, exclusive_lock
from discrimloss.training.grid import Job, JobResult, run_jobs
from discrimloss.training.interruption import Interrupted

NAME = "audit_quality"
IMPORTED_ONCE = ("benchmarks.audit_cell",)
CACHE = Path(tempfile.gettempdir()) / "discrimloss-audit-quality"


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


def waiting_cells(
    rows: Iterable[Row], seeds: Iterable[int], stored: list[dict[str, Any]]
) -> list[Cells]:
    """What is not stored yet, one seed of everything first, the parts in turn."""
    is_stored = {(Row.from_dict(line), line["seed"], line["method"]) for line in stored}
    ordered = in_turns(rows)
    waiting = []
    for seed in seeds:
        for row in ordered:
            names = cell_methods(row)
            missing = tuple(name for name in names if (row, seed, name) not in is_stored)
            if missing:
                waiting.append(Cells(row, seed, missing))
    return waiting


class Progress:
    """Stores the lines of each job that ends, and prints how far the program is.

    Args:
        path: of the stored lines.
        jobs: how many there are.
    """

    def __init__(self, path: Path, jobs: int) -> None:
        self.path, self.jobs, self.ended = path, jobs, 0
        self.started = time.monotonic()

    def __call__(self, result: JobResult) -> None:
        """Take a job that has ended."""
        self.ended += 1
        if result.error is None:
            append_lines(self.path, result.value)
            words = "  ".join(in_words(line) for line in result.value)
        else:
            words = f"failed ({result.error})"
        left = (time.monotonic() - self.started) * (self.jobs / self.ended - 1) / 60
        place = f"[{self.ended}/{self.jobs}]"
        print(f"{place} {result.job.name}: {words}  ({left:.0f} min left)", flush=True)


def in_words(line: dict[str, Any]) -> str:
    """The average precision of a cell, or what is flagged of clean labels."""
    precision, flagged = line.get("average_precision"), line.get("flagged")
    if precision is not None:
        return f"{line['method']} {precision:.2f}"
    return f"{line['method']}" if flagged is None else f"{line['method']} ({100 * flagged:.1f} %)"


def run(options: argparse.Namespace) -> None:
    """Run what is not stored yet, then write the page."""
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{NAME}.jsonl"
    rows = chosen_rows(options)
    waiting = waiting_cells(rows, SEEDS[: options.seeds], read_lines(path))
    print(f"{len(rows)} rows, {len(waiting)} of them with seeds to run", flush=True)
    places = (options.data, options.cifar, options.cache)
    jobs = [Job(c.title, run_cells, (c.row, c.seed, c.methods, *places)) for c in waiting]
    try:
        ended = run_jobs(jobs, options.workers, Progress(path, len(jobs)), IMPORTED_ONCE)
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
    files = {row.data_set.file(options.data) for row in rows if not row.data_set.is_cifar}
    missing = sorted(str(file) for file in files if not file.is_file())
    if missing:
        raise SystemExit(f"these files are missing: {', '.join(missing)}")
    if not rows:
        raise SystemExit(f"no row has {options.only!r} in its title")
    return rows


def write_page(options: argparse.Namespace) -> None:
    """Write the page from the stored lines."""
    lines = read_lines(options.out / f"{NAME}.jsonl")
    if not any(line["method"] == OURS for line in lines):
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
    runs = commands.add_parser("run", help="run what is not stored yet, then write the page")
    data = os.environ.get("DISCRIMLOSS_DATA")
    runs.add_argument(
        "--data", type=Path, default=data, required=data is None, help="or DISCRIMLOSS_DATA"
    )
    runs.add_argument("--cifar", type=Path, help="the directory of CIFAR-10 and CIFAR-10N")
    runs.add_argument("--cache", type=Path, default=CACHE, help="where encoder features are kept")
    runs.add_argument("--only", default="", metavar="WORD", help="rows with this in their title")
    runs.add_argument("--seeds", type=int, choices=range(1, len(SEEDS) + 1), default=len(SEEDS))
    runs.add_argument("--workers", type=int, default=2, help="processes, one thread each")
    runs.set_defaults(command=run)
    writes = commands.add_parser("page", help="write the page from what is stored")
    writes.set_defaults(command=write_page)
    for command in (runs, writes):
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
