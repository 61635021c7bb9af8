"""The history of a run, as CSV, as JSON lines and for TensorBoard."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import platform
from functools import cache
from importlib import metadata
from typing import Any

from discrimloss._version import __version__
from discrimloss.training.run_directory import (
    HISTORY,
    HISTORY_LINES,
    TENSORBOARD,
    RunDirectory,
)

Row = dict[str, Any]
PACKAGES = ("torch", "numpy", "accelerate", "transformers", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries of a run."""
    python = {"discrimloss": __version__, "python": platform.python_version()}
    return python | _installed_packages()


@cache
def _installed_packages() -> dict[str, str]:
    return {
        package: metadata.version(package)
        for package in PACKAGES
        if importlib.util.find_spec(package.replace("scikit-learn", "sklearn")) is not None
    }


class History:
    """The history with one row per epoch, written at the end of each epoch.

    Args:
        directory: directory of the run.
        tensorboard: whether to write an event file, if TensorBoard is installed.
        rows: rows of the epochs before a resumption.
    """

    def __init__(self, directory: RunDirectory, tensorboard: bool, rows: list[Row]) -> None:
        self.directory = directory
        self.rows = list(rows)
        has_files = tensorboard and directory.is_kept
        self._tensorboard = has_files and importlib.util.find_spec("tensorboard") is not None
        self._writer: Any = None

    def add(self, row: Row) -> None:
        """Add the row of an epoch, and write the files."""
        self.rows.append(row)
        self.write()
        if self._tensorboard:
            self._add_event(row)

    def _add_event(self, row: Row) -> None:
        if self._writer is None:
            from torch.utils.tensorboard.writer import SummaryWriter

            # Purge what an interrupted run logged after its last checkpoint. The resumed run logs
            # these epochs again.
            self._writer = SummaryWriter(str(self.directory / TENSORBOARD), purge_step=row["epoch"])
        for name, value in row.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, row["epoch"])
        self._writer.flush()

    def write(self) -> None:
        """Write all rows."""
        self.directory.write(HISTORY, as_csv(self.rows))
        lines = "".join(json.dumps(row) + "\n" for row in self.rows)
        self.directory.write(HISTORY_LINES, lines)

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()


def as_csv(rows: list[Row]) -> str:
    """Return rows as CSV with a header. Missing values are empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
