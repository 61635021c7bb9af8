"""What a person sees of a reproduction: a line for each cell, and a bar with the time left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn

from discrimloss.cli.displays import TerminalBar

if TYPE_CHECKING:
    from discrimloss.reproduce.cells import Cell
    from discrimloss.reproduce.store import Content


class ReproduceDisplay(TerminalBar):
    """Lines on standard output; the bar on a terminal only.

    Args:
        cells: how many are to be run.
        jobs: how many at once.
    """

    def __init__(self, cells: int, jobs: int) -> None:
        self.cells = cells
        self.jobs = jobs
        self.done = 0
        self._seconds: list[float] = []
        self._started: dict[str, float] = {}
        self._console = Console(highlight=False, soft_wrap=True)
        super().__init__(
            TextColumn("{task.completed:.0f} of {task.total:.0f} cells"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[last]}"),
        )
        self._task = self._progress.add_task("cells", total=cells, left="", last="")

    def on_start(self, cell: Cell) -> None:
        """A run has started."""
        self._started[cell.name] = time.monotonic()

    def on_done(self, cell: Cell, content: Content) -> None:
        """A result is in the store."""
        took = time.monotonic() - self._started[cell.name]
        self._seconds.append(took)
        test = content["summary"].get("test")
        figure = "done" if test is None else f"{test['last']:.2f} [{test['best']:.2f}]"
        self._tell(cell, f"{figure} in {_duration(took)}")

    def on_failure(self, cell: Cell, sentence: str) -> None:
        """A run ended without a result."""
        self._tell(cell, sentence)

    def on_elsewhere(self, cell: Cell) -> None:
        """Another process is at work on this cell, or has just ended it."""
        self._tell(cell, "another process is at it")

    def _tell(self, cell: Cell, what: str) -> None:
        self.done += 1
        left = self._time_left()
        self._console.print(
            f"{cell.table.name} {cell.name}: {what} ({self.done} of {self.cells}{left})",
            markup=False,
        )
        last = f"{cell.name} {what}" if len(what) < 30 else cell.name
        self._progress.update(self._task, completed=self.done, left=left.lstrip(", "), last=last)

    def _time_left(self) -> str:
        left = self.cells - self.done
        if not left or not self._seconds:
            return ""
        each = sum(self._seconds) / len(self._seconds)
        return f", about {_duration(each * left / min(self.jobs, left))} left"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
