"""Runs the cells of a grid, several at once; it may be stopped, and goes on where it was."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.paper.cell_run import AlreadyDoneError, CellFailedError, CellRun, Places
from benchmarks.paper.cells import Cell
from benchmarks.paper.store import CellLockedError, Content, ResultsStore
from discrimloss.training.interruption import Interrupted, stop_on_signals

SECONDS_BETWEEN_LOOKS = 0.1


class Watcher(Protocol):
    """Someone who is told of every cell."""

    def on_start(self, cell: Cell) -> None:
        """A run has started."""

    def on_done(self, cell: Cell, content: Content) -> None:
        """A result is in the store."""

    def on_failure(self, cell: Cell, sentence: str) -> None:
        """A run ended without a result."""

    def on_elsewhere(self, cell: Cell) -> None:
        """Another process is at work on this cell, or has just ended it."""


@dataclass
class Outcome:
    """What became of the cells."""

    done: list[Cell] = field(default_factory=list)
    failed: list[Cell] = field(default_factory=list)
    elsewhere: list[Cell] = field(default_factory=list)


def run_cells(
    cells: Sequence[Cell], store: ResultsStore, places: Places, jobs: int, watcher: Watcher
) -> Outcome:
    """Run the cells in their order, `jobs` at once, and keep each result as it comes.

    Raises:
        Interrupted: someone asked to stop; all runs wrote a checkpoint and ended.
    """
    outcome, queue = Outcome(), deque(cells)
    running: list[CellRun] = []
    with stop_on_signals() as stop:
        stop.may_wait = True
        try:
            while queue or running:
                while queue and len(running) < jobs and not stop:
                    _start(queue.popleft(), store, places, watcher, running, outcome)
                if stop:
                    raise Interrupted(stop.signal_number or 0, "after a checkpoint of every run")
                for run in [run for run in running if not run.is_running]:
                    _take(run, watcher, outcome)
                    running.remove(run)
                if running:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            _stop_all(running)
    return outcome


def _start(
    cell: Cell,
    store: ResultsStore,
    places: Places,
    watcher: Watcher,
    running: list[CellRun],
    outcome: Outcome,
) -> None:
    run = CellRun(cell, places, store)
    try:
        run.start()
    except (CellLockedError, AlreadyDoneError):
        run.close()
        outcome.elsewhere.append(cell)
        watcher.on_elsewhere(cell)
        return
    except BaseException:
        run.close()
        raise
    running.append(run)
    watcher.on_start(cell)


def _take(run: CellRun, watcher: Watcher, outcome: Outcome) -> None:
    try:
        content = run.finish()
    except CellFailedError as error:
        outcome.failed.append(run.cell)
        watcher.on_failure(run.cell, str(error))
    else:
        outcome.done.append(run.cell)
        watcher.on_done(run.cell, content)
    finally:
        run.close()


def _stop_all(running: list[CellRun]) -> None:
    """Let every run write its checkpoint and end; asked a second time, let it end at once."""
    for run in running:
        run.stop()
    try:
        for run in running:
            run.wait()
    except Interrupted:
        for run in running:
            run.stop()
        for run in running:
            run.wait()
    for run in running:
        run.close()
