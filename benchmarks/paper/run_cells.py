"""Runs the cells of a table, several at once; a stopped command continues where it was."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.paper.cells import Cell
from benchmarks.paper.sample_figures import sample_figures
from benchmarks.paper.store import Content, ResultsStore, machine
from discrimloss.files.atomic_write import atomic_write
from discrimloss.files.locks import LockedError
from discrimloss.training.grid import IMPORTED_ONCE, Job, JobResult, run_jobs
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.run_directory import HISTORY_LINES, RunDirectory

LEFT_OUT_OF_HISTORY = ("seconds",)
Train = Callable[[RunRequest], Any]


class Watcher(Protocol):
    """Is called for every cell that has ended."""

    def on_done(self, cell: Cell, content: Content, seconds: float) -> None:
        """A result is in the store."""

    def on_failure(self, cell: Cell, sentence: str) -> None:
        """A run ended without a result."""

    def on_elsewhere(self, cell: Cell) -> None:
        """Another process runs this cell, or has just finished it."""


@dataclass
class Outcome:
    """What became of the cells."""

    done: list[Cell] = field(default_factory=list)
    failed: list[Cell] = field(default_factory=list)
    elsewhere: list[Cell] = field(default_factory=list)


@dataclass(frozen=True)
class Places:
    """Where data and runs are."""

    data: Path | None
    runs: Path
    keep_runs: bool = False

    def run_directory(self, cell: Cell) -> Path:
        """The directory of the cell's run."""
        return self.runs / cell.table.name / cell.name

    def log(self, cell: Cell) -> Path:
        """What the run printed."""
        return self.runs / cell.table.name / f"{cell.name}.log"

    def identity(self, cell: Cell) -> Path:
        """Which experiment the run directory is of: beside it, as it may hold only a run."""
        return self.runs / cell.table.name / f"{cell.name}.experiment"


def run_cells(
    cells: Sequence[Cell],
    store: ResultsStore,
    places: Places,
    jobs: int,
    watcher: Watcher,
    train: Train = run_training,
) -> Outcome:
    """Run the cells in their order, `jobs` at once, and store each result when it is there.

    Raises:
        Interrupted: on Ctrl-C or SIGTERM, after a checkpoint of every run.
    """
    outcome = Outcome()

    def take(result: JobResult) -> None:
        cell: Cell = result.job.arguments[0]
        if result.error is not None:
            outcome.failed.append(cell)
            log = f"{cell.name} failed ({result.error}); its log is {places.log(cell)}"
            watcher.on_failure(cell, log)
        elif result.value is None:
            outcome.elsewhere.append(cell)
            watcher.on_elsewhere(cell)
        else:
            outcome.done.append(cell)
            watcher.on_done(cell, result.value, result.seconds)

    fresh = ResultsStore(store.path)  # without the lines that ours has read
    wanted = [
        Job(cell.name, run_cell, (cell, fresh, places, train), places.log(cell)) for cell in cells
    ]
    run_jobs(wanted, jobs, take, ("benchmarks.paper.run_cells", *IMPORTED_ONCE))
    return outcome


def run_cell(cell: Cell, store: ResultsStore, places: Places, train: Train) -> Content | None:
    """Run a cell and store its result, or continue an unfinished run of it.

    Returns:
        The result; None if another process runs the cell or has just finished it.
    """
    try:
        with store.locked(cell):
            if store.has(cell):
                return None
            train(_request(cell, places))
            content = _result(cell, places)
            store.write(cell, content)
    except LockedError:
        return None
    if not places.keep_runs:
        shutil.rmtree(places.run_directory(cell))
        places.log(cell).unlink(missing_ok=True)
        places.identity(cell).unlink(missing_ok=True)
    return content


def _request(cell: Cell, places: Places) -> RunRequest:
    """The run of a cell. An unfinished run with the same settings is resumed."""
    identity = places.identity(cell)
    try:
        resume = bool(json.loads(identity.read_text(encoding="utf-8")) == cell.identity)
    except (OSError, ValueError):
        resume = False
    if not resume:
        identity.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(identity) as unfinished:
            unfinished.write_text(json.dumps(cell.identity), encoding="utf-8")
    return RunRequest(
        cell.config,
        places.data or Path(),
        places.run_directory(cell),
        resume=resume,
        overwrite=not resume,
        command=command(cell),
    )


def _result(cell: Cell, places: Places) -> Content:
    directory = RunDirectory(places.run_directory(cell))
    summary = directory.summary()
    versions = summary.pop("versions")
    del summary["command"]
    lines = (directory / HISTORY_LINES).read_text(encoding="utf-8").splitlines()
    return {
        "command": command(cell),
        **cell.identity,
        "versions": versions,
        "machine": machine(),
        "summary": summary,
        "history": history_columns([json.loads(line) for line in lines]),
        "samples": sample_figures(directory.path, summary, cell.table.kind) or None,
    }


def command(cell: Cell) -> str:
    """The command that trains a cell's run by itself."""
    return shlex.join(["discrimloss", "train", cell.recipe, *cell.settings])


def history_columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows of epochs as a list for each metric, six digits each; None where a row lacks it."""
    names = dict.fromkeys(name for row in rows for name in row if name not in LEFT_OUT_OF_HISTORY)
    return {name: [_short(row.get(name)) for row in rows] for name in names}


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
