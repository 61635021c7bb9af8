"""A directory of results that is either complete or absent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

from discrimloss.cli.failures import writing
from discrimloss.errors import DiscrimLossError

SUMMARY = "summary.json"
UNFINISHED = ".unfinished-"


class OutputDirectory:
    """The directory of a command's results, which are all written together at the end.

    Args:
        path: a new or empty directory, or one with earlier results of the same command.
        command: the name of the command. In earlier results, the entry `command` of the summary
            begins with it.
        overwrite: whether to replace earlier results. Other files are never replaced.
    """

    def __init__(self, path: Path, command: str, overwrite: bool) -> None:
        self.path = path
        self.command = command
        self.overwrite = overwrite

    def check(self) -> None:
        """Raise an error if results cannot be written to this directory."""
        with self._writing():
            self._check_contents()
            with self._staging():
                pass

    def publish(self, write: Callable[[Path], None]) -> None:
        """Let `write` fill a temporary directory, then move its files to the directory."""
        with self._writing(), self._staging() as staging:
            results = Path(staging, "results")  # only the owner may read the staging directory
            results.mkdir()
            write(results)
            self._check_contents()  # again, because the directory may have changed
            self._move_into_place(results)

    def _writing(self) -> AbstractContextManager[None]:
        return writing(f"to --out {self.path}", "choose a directory that you can write to")

    def _check_contents(self) -> None:
        nearest = self._nearest_existing()
        if not nearest.is_dir():
            raise DiscrimLossError(f"{nearest} is not a directory: choose another path with --out")
        if not self.path.exists() or all(
            entry.name.startswith(UNFINISHED) for entry in self.path.iterdir()
        ):
            return
        if not self._holds_earlier_results():
            raise DiscrimLossError(
                f"--out {self.path} holds other files: choose a new or an empty directory"
            )
        if not self.overwrite:
            raise DiscrimLossError(
                f"--out {self.path} holds an earlier run: "
                "pass --overwrite to replace it, or choose another directory"
            )

    def _holds_earlier_results(self) -> bool:
        try:
            summary = json.loads((self.path / SUMMARY).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        command = summary.get("command") if isinstance(summary, dict) else None
        return isinstance(command, str) and f"{command} ".startswith(f"{self.command} ")

    def _move_into_place(self, results: Path) -> None:
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            results.replace(self.path)
            return
        # Files are moved one by one, so that other files of the user are kept. The summary is
        # moved last: if it exists, the other files are complete.
        for file in sorted(results.iterdir(), key=lambda file: file.name == SUMMARY):
            file.replace(self.path / file.name)

    def _staging(self) -> TemporaryDirectory[str]:
        # The temporary directory is on the same file system as the results. Moving a file is then
        # a rename, which cannot fail half-way.
        return TemporaryDirectory(prefix=UNFINISHED, dir=self._nearest_existing())

    def _nearest_existing(self) -> Path:
        absolute = self.path.absolute()
        return next(path for path in (absolute, *absolute.parents) if os.path.lexists(path))
