"""Does the audit find wrong labels? Compares `discrimloss.audit` at its defaults with others.

    python -m benchmarks.audit_quality run --data DIR --cifar DIR    # run what is not stored yet
    python -m benchmarks.audit_quality run --data DIR --only small/  # rows with this in their title
    python -m benchmarks.audit_quality page                          # the page, from what is stored

Texts, tables, encoder features, images and regression targets; clean labels, injected and real
noise; 50 to 1,000 rows; AQuA's protocol. `audit_design` has the rows, `audit_rivals` the methods,
`audit_sets` the layout of DIR.

Each cell is a line of results/audit_quality.jsonl, appended when its job ends. Stored cells are not
run again, so the same command continues a stopped program. Changes in the code are not detected:
remove the lines of the affected methods. `run` also writes the page.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.audit_cell import cell_methods, run_cells
from benchmarks.audit_design import SEEDS, Row, design, in_turns
from benchmarks.audit_page import render
from benchmarks.audit_rivals import OURS
from benchmarks.stored_cells import (
    Waiting,
    argument_parser,
    chosen_rows,
    read_lines,
    run_command,
    run_waiting,
    write_results_page,
)
from discrimloss.training.grid import Job

NAME = "audit_quality"
IMPORTED_ONCE = ("benchmarks.audit_cell",)
CACHE = Path(tempfile.gettempdir()) / "discrimloss-audit-quality"


@dataclass(frozen=True)
class Cells:
    """A job: some cells of one row and one seed."""

    row: Row
    seed: int
    methods: tuple[str, ...]

    @property
    def title(self) -> str:
        """Return the title of the job, for messages."""
        return f"{self.row.title}, seed {self.seed}"


def waiting_cells(
    rows: Iterable[Row], seeds: Iterable[int], stored: list[dict[str, Any]]
) -> list[Cells]:
    """Return jobs for the cells that are not stored: seed by seed, with the parts in turn."""
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


def in_words(line: dict[str, Any]) -> str:
    """Return the average precision of a cell, or the flagged fraction of clean labels."""
    precision, flagged = line.get("average_precision"), line.get("flagged")
    if precision is not None:
        return f"{line['method']} {precision:.2f}"
    return f"{line['method']}" if flagged is None else f"{line['method']} ({100 * flagged:.1f} %)"


def run(options: argparse.Namespace) -> None:
    """Run the cells that are not stored yet, then write the page."""
    path = options.out / f"{NAME}.jsonl"
    rows = chosen_rows(design(), options)
    cells = waiting_cells(rows, SEEDS[: options.seeds], read_lines(path))
    print(f"{len(rows)} rows, {len(cells)} of them with seeds to run", flush=True)
    places = (options.data, options.cifar, options.cache)
    jobs = [Job(c.title, run_cells, (c.row, c.seed, c.methods, *places)) for c in cells]
    waiting = [Waiting(job) for job in jobs]
    succeeded = run_waiting(waiting, path, options.workers, IMPORTED_ONCE, in_words)
    write_page(options)
    if not succeeded:
        raise SystemExit("some cells failed, see above: the same command tries them again")


def write_page(options: argparse.Namespace) -> None:
    """Write the page from the stored lines."""
    write_results_page(options.out, NAME, lambda lines: render(lines, design()), must_have=OURS)


def main(arguments: list[str] | None = None) -> None:
    """Run a command."""
    parser, runs = argument_parser(__doc__ or "", run, write_page, SEEDS)
    runs.add_argument("--cache", type=Path, default=CACHE, help="where encoder features are kept")
    run_command(parser, NAME, arguments)


if __name__ == "__main__":
    main()
