"""A bar that shows how far a download is, on a terminal only."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class DownloadBar:
    """Appears when it is told of a file, and vanishes with `stop`: lines can be printed then."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._shown: tuple[Progress, TaskID] | None = None

    def __call__(self, name: str, done: int, total: int | None) -> None:
        """Of the file `name` there are `done` of `total` bytes; None if that is not known."""
        if not self._console.is_terminal:
            return
        if self._shown is None:
            bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            # `done` at the start was there before: it would make the first rate a lie.
            self._shown = bar, bar.add_task(name, total=total, completed=done)
            bar.start()
        bar, task = self._shown
        bar.update(task, description=name, completed=done, total=total)

    def stop(self) -> None:
        """Make the bar vanish until the next call."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None
