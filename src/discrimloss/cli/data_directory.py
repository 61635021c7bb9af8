"""Where datasets are: an option of several commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from discrimloss.cli.errors import CommandError

ENVIRONMENT = "DISCRIMLOSS_DATA"

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", envvar=ENVIRONMENT, help="Where the datasets are."),
]


def required(directory: Path | None) -> Path:
    """The data directory, or a `CommandError` if none was named: no place is made up."""
    if directory is None:
        raise CommandError(
            f"name the data directory with --data DIR or in the environment variable {ENVIRONMENT}"
        )
    return directory


def check_is_directory(directory: Path) -> None:
    """Raise a `CommandError` unless this directory is there."""
    if not directory.is_dir():
        what = "is not a directory" if os.path.lexists(directory) else "does not exist"
        raise CommandError(f"the data directory {directory} {what}")
