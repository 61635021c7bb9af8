"""The paper's tables and figures, measured here: ``python -m benchmarks.paper TABLE --data DIR``.

A table is a grid of cells. Each cell, a method at a noise level with one seed, is a `discrimloss
train` on one thread. Its result goes into RESULTS; cells that are there do not run again. Ctrl-C
stops after a checkpoint of every run, and the same command continues. The pages are
RESULTS/TABLE.md, TABLE.csv and TABLE-*.png. Without TABLE: what there is.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper.cells import Cell, all_cells
from benchmarks.paper.display import Display
from benchmarks.paper.pages import both_sizes, render, write
from benchmarks.paper.run_cells import Outcome, Places, run_cells
from benchmarks.paper.store import ResultsStore, StoredCell
from benchmarks.paper.table_file import PaperTable, load_table, table_files
from discrimloss.errors import DiscrimLossError
from discrimloss.training.interruption import Interrupted
from discrimloss.training.local_data import require_data

DATA = "DISCRIMLOSS_DATA"
FAILED, REFUSED = 1, 2


class CommandError(DiscrimLossError):
    """The sentence with which the command ends, and its exit code."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    store = ResultsStore(options.results)
    try:
        if options.table is None:
            list_tables(store)
        else:
            reproduce(options, store)
    except DiscrimLossError as error:
        print(f"benchmarks.paper: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        place = error.filename or options.results
        print(f"benchmarks.paper: cannot read or write {place} ({reason})", file=sys.stderr)
        return REFUSED
    return 0


def parser() -> argparse.ArgumentParser:
    """Every option of the command."""
    found = argparse.ArgumentParser(
        prog="python -m benchmarks.paper",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    found.add_argument("table", metavar="TABLE", nargs="?", help="a table's name, or a TOML file")
    found.add_argument(
        "--seeds", metavar="N", type=_count, help="seeds 1 to N; default: the table's own number"
    )
    found.add_argument(
        "--methods", metavar="NAME", nargs="+", default=[], help="only these rows or methods"
    )
    found.add_argument(
        "--noise", metavar="LEVEL", nargs="+", default=[], help="only these noise levels or columns"
    )
    found.add_argument(
        "--small", action="store_true", help="at reduced size, for two CPU cores; marked as such"
    )
    found.add_argument("--jobs", metavar="N", type=_count, default=2, help="runs at once")
    data = os.environ.get(DATA)
    found.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        default=None if data is None else Path(data),
        help=f"where the datasets are; default: {DATA}",
    )
    found.add_argument(
        "--results",
        metavar="DIR",
        type=Path,
        default=Path("benchmarks", "results"),
        help="the results store, and where the pages go; default: benchmarks/results",
    )
    found.add_argument(
        "--runs",
        metavar="DIR",
        type=Path,
        default=Path("runs", "paper"),
        help="where unfinished runs are; default: runs/paper",
    )
    found.add_argument(
        "--keep-runs", action="store_true", help="keep the directories of finished runs"
    )
    found.add_argument(
        "--overwrite", action="store_true", help="run cells with outdated settings again"
    )
    found.add_argument(
        "--render-only", action="store_true", help="run nothing: write the pages from the store"
    )
    return found


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return number


def list_tables(store: ResultsStore) -> None:
    """Print every table, how many cells it has and how many of them are in the store."""
    print(f"{'table':16}{'cells':>6}{'stored':>8}{'small':>8}{'stored':>8}")
    for name in table_files():
        table = load_table(name)
        counts: list[int] = []
        for is_small in (False, True):
            cells = all_cells(table, is_small=is_small)
            counts += [len(cells), sum(store.has(cell) for cell in cells)]
        full, full_stored, small, small_stored = counts
        row = f"{name:16}{full:6}{full_stored:8}{small:8}{small_stored:8}"
        print(f"{row}  {table.title}")
    print("\nRun one: python -m benchmarks.paper TABLE [--small] --data DIR")


def reproduce(options: argparse.Namespace, store: ResultsStore) -> None:
    """Run the missing cells of a table, then write its pages."""
    table = load_table(options.table)
    store.require_writable()
    cells = all_cells(table, options.seeds, options.methods, options.noise, options.small)
    problems: list[str] = []
    if not options.render_only:
        store.require_readable(table.name)
        missing, stale = _to_run(cells, store)
        again = [stored.cell for stored in stale] if options.overwrite else []
        todo = [cell for cell in cells if cell in missing or cell in again]
        _require_data(todo, options.data)
        stored = len(cells) - len(missing) - len(stale)
        print(f"Cells: {len(cells)}, {stored} in the store, {len(todo)} to run", flush=True)
        if stale:
            print(_outdated(stale, options.overwrite), flush=True)
        places = Places(options.data, options.runs, options.keep_runs)
        outcome = _run(todo, store, places, options.jobs, table)
        problems = why_missing(outcome, [] if options.overwrite else stale, store)
    sizes = both_sizes(table, store)
    for file in write(sizes, store.path):
        print(f"Wrote {file}")
    unreadable = [sentence for results in sizes for sentence in results.unreadable]
    if unreadable:
        page = store.path / f"{table.name}.md"
        more = f"; {page} names {len(unreadable) - 1} more" if len(unreadable) > 1 else ""
        raise CommandError("; ".join([f"{unreadable[0]}{more}", *problems]))
    if problems:
        raise CommandError("; ".join(problems), exit_code=FAILED)


def _to_run(cells: list[Cell], store: ResultsStore) -> tuple[list[Cell], list[StoredCell]]:
    """Cells that are not in the store, and stored ones with other settings."""
    missing, stale = [], []
    for cell in cells:
        stored = store.read(cell)
        if stored is None:
            cell.identity  # noqa: B018 -- a wrong setting is an error before anything runs
            missing.append(cell)
        elif stored.is_stale:
            stale.append(stored)
    return missing, stale


def _require_data(cells: list[Cell], directory: Path | None) -> None:
    """Raise an error if data of these cells is missing: every run would fail by itself."""
    if directory is not None and not directory.is_dir():
        what = "is not a directory" if os.path.lexists(directory) else "does not exist"
        raise CommandError(f"the data directory {directory} {what}")
    checked = []
    for cell in cells:
        config = cell.config
        wanted = (config.data, config.noise.kind == "human", config.noise.labels)
        if wanted in checked:
            continue
        if cell.needs_data and directory is None:
            raise CommandError(
                f"name the data directory with --data DIR or in the environment variable {DATA}"
            )
        require_data(config, directory or Path())
        checked.append(wanted)


def _run(
    cells: list[Cell], store: ResultsStore, places: Places, jobs: int, table: PaperTable
) -> Outcome:
    try:
        return run_cells(cells, store, places, jobs, Display(len(cells), jobs))
    except Interrupted as stopped:
        render(table, store)
        raise CommandError(
            f"stopped {stopped}; the same command continues",
            exit_code=128 + stopped.signal_number,
        ) from None


def _outdated(stale: Sequence[StoredCell], overwrite: bool) -> str:
    example = f"{stale[0].cell.name}: {stale[0].differences[0]}"
    what = "run again" if overwrite else "left out: --overwrite runs them again"
    return f"Outdated settings: {_number(len(stale))} ({example}), {what}"


def why_missing(outcome: Outcome, outdated: Sequence[StoredCell], store: ResultsStore) -> list[str]:
    """A clause for each reason why a requested cell has no result, with what to do."""
    unfinished = [cell for cell in outcome.elsewhere if not store.has(cell)]
    clauses = (
        (outcome.failed, "{} failed, see above: the same command tries again"),
        (unfinished, "{} left to another process: the same command runs what it leaves"),
        (outdated, "{} left out with outdated settings: --overwrite runs such cells again"),
    )
    return [clause.format(_number(len(cells))) for cells, clause in clauses if cells]


def _number(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


if __name__ == "__main__":
    sys.exit(main())
