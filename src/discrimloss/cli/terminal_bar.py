"""A bar on standard error while something lasts; nothing where there is no terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress, ProgressColumn
from typing_extensions import Self


class TerminalBar:
    """Shown for as long as the block lasts.

    Args:
        columns: what it is made of.
    """

    def __init__(self, *columns: ProgressColumn) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()
