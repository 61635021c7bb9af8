"""`discrimloss reproduce`: the paper's tables and figures, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from discrimloss.cli.data_directory import DataOption, check_is_directory, required
from discrimloss.cli.errors import CommandError, needs_extra

if TYPE_CHECKING:
    from discrimloss.reproduce.cell_run import Places
    from discrimloss.reproduce.cells import Cell
    from discrimloss.reproduce.run_cells import Outcome
    from discrimloss.reproduce.store import ResultsStore, StoredCell
    from discrimloss.reproduce.table_file import PaperTable

TRAIN_NEEDS = ("accelerate", "tomlkit", "sklearn", "pandas", "pyarrow", "transformers", "pooch")
REPORT_NEEDS = ("matplotlib", "jinja2", "plotly", "safetensors", "PIL")
RESULTS = Path("benchmarks", "results")
RUNS = Path("runs", "reproduce")
LISTS = ("--methods", "--noise")


class ReproduceCommand(TyperCommand):
    """Takes several words after one --methods or --noise, where TABLE stands before them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give every word of a list the name of its option, which is what typer understands."""
        return super().parse_args(ctx, spread_lists(args))


def spread_lists(arguments: list[str]) -> list[str]:
    """``--noise 0.4 0.8`` as ``--noise 0.4 --noise 0.8``.

    Only where the table is named first: after a list, its name would be one more word of it.

    >>> spread_lists(["mnist", "--noise", "0.4", "0.8", "--small"])
    ['mnist', '--noise', '0.4', '--noise', '0.8', '--small']
    """
    if not arguments or arguments[0].startswith("-"):
        return arguments
    spread: list[str] = []
    name, is_first = "", True
    for word in arguments:
        if word.startswith("-"):
            name, is_first = (word if word in LISTS else ""), True
        elif name:
            spread += [] if is_first else [name]
            is_first = False
        spread.append(word)
    return spread


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(help="A table's name, or a TOML file. Without it: what there is."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Seeds 1 to N. [default: the table's own number]"),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME ...", help="Only these rows or methods."),
    ] = None,
    noise: Annotated[
        list[str] | None,
        typer.Option(metavar="LEVEL ...", help="Only these noise levels or columns."),
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="At reduced size, for two CPU cores; marked as such.")
    ] = False,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Runs at once.")] = 2,
    data: DataOption = None,
    results: Annotated[
        Path, typer.Option(metavar="DIR", help="The results store; pages go there too.")
    ] = RESULTS,
    runs: Annotated[
        Path, typer.Option(metavar="DIR", help="Where runs are while they last.")
    ] = RUNS,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep the directories of finished runs.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Run cells again that were made with other settings."),
    ] = False,
    render_only: Annotated[
        bool, typer.Option("--render-only", help="Run nothing: make the pages from the store.")
    ] = False,
) -> None:
    """Run a table or figure of the paper, cell by cell, and set ours beside the paper's figures.

    Each cell, a method at a noise level with a seed, is a `discrimloss train` on one thread. Its
    result goes to RESULTS/TABLE/; cells that are there are not run again. Ctrl-C stops after a
    checkpoint of every run, and the same command goes on. The pages are RESULTS/TABLE.md,
    TABLE.csv and TABLE-*.png.
    """
    try:
        from discrimloss.data.base import DataError
        from discrimloss.options import OptionError
        from discrimloss.reproduce.store import ResultsStore, StoreError

        store = ResultsStore(results)
        try:
            if table is None:
                _list(store)
                return
            _reproduce(
                table, store, seeds, methods or [], noise or [], small, jobs, data, runs,
                keep_runs, overwrite, render_only,
            )  # fmt: skip
        except (OptionError, StoreError, DataError) as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            place = error.filename or results
            raise CommandError(
                f"cannot read or write {place} ({reason}): make room, or name another place"
            ) from error
    except ModuleNotFoundError as error:
        raise _needs_extra(error) from error


def _needs_extra(error: ModuleNotFoundError) -> Exception:
    told = needs_extra(error, TRAIN_NEEDS, "reproducing", "train,report")
    if told is error:
        told = needs_extra(error, REPORT_NEEDS, "reproducing", "train,report")
    return told


def _list(store: ResultsStore) -> None:
    from rich.console import Console
    from rich.table import Table

    from discrimloss.reproduce.cells import all_cells
    from discrimloss.reproduce.table_file import load_table, table_files

    console = Console(highlight=False)
    shown = Table(show_edge=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    shown.add_column("table", no_wrap=True)
    for title in ("cells", "in the store", "small cells", "in the store"):
        shown.add_column(title, justify="right")
    shown.add_column("")
    for name in table_files():
        table = load_table(name)
        counts: list[str] = []
        for is_small in (False, True):
            cells = all_cells(table, is_small=is_small)
            found = sum(store.has(cell) for cell in cells)
            counts += [str(len(cells)), str(found)]
        shown.add_row(name, *counts, table.title)
    console.print(shown)
    console.print("\nRun one: discrimloss reproduce TABLE [--small] --data DIR")


def _reproduce(
    name: str,
    store: ResultsStore,
    seeds: int | None,
    rows: list[str],
    columns: list[str],
    small: bool,
    jobs: int,
    data: Path | None,
    runs: Path,
    keep_runs: bool,
    overwrite: bool,
    render_only: bool,
) -> None:
    from discrimloss.cli.reproduce_sentences import (
        stale_sentence,
        unreadable_sentence,
        what_is_missing,
    )
    from discrimloss.reproduce.cell_run import Places
    from discrimloss.reproduce.cells import all_cells
    from discrimloss.reproduce.render import both_sizes, write
    from discrimloss.reproduce.table_file import load_table

    table = load_table(name)
    store.require_writable()
    cells = all_cells(table, seeds, rows, columns, small)  # a wrong name is told in any case
    missing = []
    if not render_only:
        absent, stale = _sorted_out(cells, store)
        wanted = {cell.name for cell in absent}
        if overwrite:
            wanted |= {stored.cell.name for stored in stale}
        todo = [cell for cell in cells if cell.name in wanted]
        if data is not None:
            check_is_directory(data)
        _require_data(todo, data)
        stored = len(cells) - len(absent) - len(stale)
        told = f"Cells: {len(cells)} in all, {stored} in the store, {len(absent)} to be run"
        typer.echo(told + stale_sentence(stale, overwrite))
        outcome = _run(todo, store, Places(data, runs, keep_runs), jobs, table)
        missing = what_is_missing(outcome, [] if overwrite else stale, store)
    sizes = both_sizes(table, store)
    for file in write(sizes, store.path):
        typer.echo(f"Wrote {file}")
    if unreadable := [sentence for results in sizes for sentence in results.unreadable]:
        told = unreadable_sentence(unreadable, store.path / f"{table.name}.md")
        raise CommandError("; ".join([told, *missing]))
    if missing:
        raise CommandError("; ".join(missing), exit_code=1)


def _sorted_out(cells: list[Cell], store: ResultsStore) -> tuple[list[Cell], list[StoredCell]]:
    """What is not in the store, and what is there but of other settings."""
    missing, stale = [], []
    for cell in cells:
        stored = store.read(cell)
        if stored is None:
            cell.identity  # noqa: B018 -- a wrong setting is told before anything runs
            missing.append(cell)
        elif stored.is_stale:
            stale.append(stored)
    return missing, stale


def _require_data(cells: list[Cell], directory: Path | None) -> None:
    """Raise what is missing for these cells, if anything is: each would fail by itself."""
    from discrimloss.training.local_data import require_data

    looked_at = []
    for cell in cells:
        config = cell.config
        wanted = (config.data, config.noise.kind == "human", config.noise.labels)
        if wanted not in looked_at:
            require_data(config, required(directory) if cell.needs_data else Path())
            looked_at.append(wanted)


def _run(
    cells: list[Cell], store: ResultsStore, places: Places, jobs: int, table: PaperTable
) -> Outcome:
    from discrimloss.cli.reproduce_display import ReproduceDisplay
    from discrimloss.reproduce.render import render
    from discrimloss.reproduce.run_cells import run_cells
    from discrimloss.training.interruption import Interrupted

    try:
        with ReproduceDisplay(len(cells), jobs) as display:
            return run_cells(cells, store, places, jobs, display)
    except Interrupted as stopped:
        render(table, store)
        raise CommandError(
            f"stopped {stopped}; the same command goes on",
            exit_code=128 + stopped.signal_number,
        ) from None
