"""A line for each finished cell, with the time left."""

from __future__ import annotations

from benchmarks.paper.cells import Cell
from benchmarks.paper.store import Content


class Display:
    """Prints what becomes of each cell.

    Args:
        cells: how many there are to run.
        jobs: how many run at once.
    """

    def __init__(self, cells: int, jobs: int) -> None:
        self.cells = cells
        self.jobs = jobs
        self.done = 0
        self._seconds: list[float] = []

    def on_done(self, cell: Cell, content: Content, seconds: float) -> None:
        """A result is in the store."""
        self._seconds.append(seconds)
        test = content["summary"].get("test")
        value = "done" if test is None else f"{test['last']:.2f} [{test['best']:.2f}]"
        self._print(cell, f"{value} in {_duration(seconds)}")

    def on_failure(self, cell: Cell, sentence: str) -> None:
        """A run ended without a result."""
        self._print(cell, sentence)

    def on_elsewhere(self, cell: Cell) -> None:
        """Another process runs this cell, or has just finished it."""
        self._print(cell, "another process runs it")

    def _print(self, cell: Cell, what: str) -> None:
        self.done += 1
        place = f"{self.done} of {self.cells}{self._time_left()}"
        print(f"{cell.table.name} {cell.name}: {what} ({place})", flush=True)

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
