"""Shows the progress of an audit: a bar in a terminal or a notebook, else occasional lines."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.sources.features import watched_rows

if TYPE_CHECKING:  # importing training loads torch's compiler, which is slow
    from discrimloss.training.loop import Observer
    from discrimloss.training.records import Row

ObserverOfRun = Callable[[int, int], "Observer"]
"""Makes the observer of a run. Arguments: the number of the run, from 1, and its epochs."""
FIRST_LINE, NEXT_LINES = 10.0, 30.0
"""Without a terminal: the seconds before the first line, and between lines."""


@contextmanager
def observing(progress: bool | ObserverOfRun, runs: int) -> Iterator[ObserverOfRun | None]:
    """Yield a function that makes the observers of the runs.

    Args:
        progress: True for a bar in a notebook or on a terminal's standard error, and otherwise
            for occasional lines; False for no output; or a function that makes observers.
        runs: number of runs.
    """
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    has_widgets = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("passed"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    if not (console.is_terminal or has_widgets):
        lines = Lines()
        with watched_rows(lines.on_rows):
            yield lambda run, epochs: LineObserver(lines, run, runs, epochs)
        return
    task = bar.add_task("reading", total=None)

    def on_rows(done: int, rows: int) -> None:
        words = f"reading {done:,}/{rows:,}"
        bar.update(task, description=words, total=float(rows), completed=done)

    with bar, watched_rows(on_rows):
        yield lambda run, epochs: BarObserver(bar, task, run, runs, epochs)


class Lines:
    """Prints progress lines to standard error, for logs and pipes.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self._next = self._began + FIRST_LINE

    def on_rows(self, done: int, rows: int) -> None:
        """Report that the features of `done` samples are computed."""
        self.print_if_due(lambda: f"reading, {done:,} of {rows:,} samples")

    def print_if_due(self, words: Callable[[], str]) -> None:
        """Print a line if enough time has passed since the last one."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + NEXT_LINES
        print(f"{words()} after {now - self._began:.0f} s", file=sys.stderr, flush=True)


class LineObserver:
    """Prints occasional lines about the progress of a run.

    Args:
        lines: prints the lines.
        run: number of the run.
        runs: number of runs.
        epochs: number of epochs of each run.
    """

    def __init__(self, lines: Lines, run: int, runs: int, epochs: int) -> None:
        self.lines, self.run, self.runs, self.epochs = lines, run, runs, epochs

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        """Print a line if enough time has passed since the last one."""
        done = ((self.run - 1) * self.epochs + epoch - 1 + step / steps) / self.epochs / self.runs
        self.lines.print_if_due(lambda: f"predicting, {100 * done:.0f} %")

    def on_epoch(self, row: Row) -> None:
        """Do nothing: `on_step` prints."""


class BarObserver:
    """Moves the progress bar of an audit during one run.

    Args:
        bar: a `rich.progress.Progress`.
        task: the id of the bar's task.
        run: number of the run.
        runs: number of runs.
        epochs: number of epochs of each run.
    """

    def __init__(self, bar: Any, task: Any, run: int, runs: int, epochs: int) -> None:
        self.bar, self.task = bar, task
        self.run, self.runs, self.epochs = run, runs, epochs

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        """Move the bar."""
        of_runs = f"run {self.run}/{self.runs}, " if self.runs > 1 else ""
        self.bar.update(
            self.task,
            description=f"{of_runs}epoch {epoch}/{self.epochs}",
            total=float(self.runs * self.epochs),
            completed=(self.run - 1) * self.epochs + epoch - 1 + step / steps,
        )

    def on_epoch(self, row: Row) -> None:
        """Do nothing: `on_step` moves the bar."""
