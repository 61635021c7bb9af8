"""The directory of the datasets: an option of several commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from discrimloss.errors import DiscrimLossError

ENVIRONMENT = "DISCRIMLOSS_DATA"

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", envvar=ENVIRONMENT, help="Directory with the datasets."),
]


def required(directory: Path | None) -> Path:
    """Return the data directory, or raise an error if it is None: there is no default."""
    if directory is None:
        raise DiscrimLossError(
            f"pass the data directory with --data DIR or in the environment variable {ENVIRONMENT}"
        )
    return directory


def check_is_directory(directory: Path | None) -> None:
    """Raise an error if the option is given but the directory does not exist."""
    if directory is not None and not directory.is_dir():
        what = "is not a directory" if os.path.lexists(directory) else "does not exist"
        raise DiscrimLossError(f"the data directory {directory} {what}")


def is_built_in(dataset: str) -> bool:
    """Return whether a dataset needs no files, because it is generated or part of a library."""
    from discrimloss.data.base import datasets
    from discrimloss.data.published_files import BuiltIn, how_obtained

    return dataset in datasets.names() and isinstance(how_obtained(datasets.get(dataset)), BuiltIn)


def directory_of(dataset: str, given: Path | None) -> Path:
    """Return the given data directory. Raise an error if a dataset with files has none."""
    return Path() if given is None and is_built_in(dataset) else required(given)
