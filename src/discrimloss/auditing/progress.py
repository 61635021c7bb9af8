"""A progress bar over all runs of an audit, in a terminal or a notebook."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # training imports torch's compiler
    from discrimloss.training.loop import Observer
    from discrimloss.training.records import Row

ObserverOfRun = Callable[[int, int], "Observer"]
"""Makes the observer of a run from its number, counted from 1, and its epochs."""


@contextmanager
def observing(progress: bool | ObserverOfRun, runs: int) -> Iterator[ObserverOfRun | None]:
    """Observers of the runs, while the block lasts.

    Args:
        progress: True for a bar, on standard error if that is a terminal, or in a notebook; False
            for nothing; or makes observers.
        runs: how many there are.
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
        disable=not (console.is_terminal or has_widgets),
    )
    task = bar.add_task("reading", total=None)
    with bar:
        yield lambda run, epochs: BarObserver(bar, task, run, runs, epochs)


class BarObserver:
    """Moves the bar of an audit by one run.

    Args:
        bar: a `rich.progress.Progress`.
        task: of the bar.
        run: number of the run.
        runs: how many there are.
        epochs: of each run.
    """

    def __init__(self, bar: Any, task: Any, run: int, runs: int, epochs: int) -> None:
        self.bar, self.task = bar, task
        self.run, self.runs, self.epochs = run, runs, epochs

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        """Move the bar."""
        if self.bar.disable:
            return
        of_runs = f"run {self.run}/{self.runs}, " if self.runs > 1 else ""
        self.bar.update(
            self.task,
            description=f"{of_runs}epoch {epoch}/{self.epochs}",
            total=float(self.runs * self.epochs),
            completed=(self.run - 1) * self.epochs + epoch - 1 + step / steps,
        )

    def on_epoch(self, row: Row) -> None:
        """Do nothing: `on_step` moves the bar."""
