"""`discrimloss reproduce`, a command of version 0.1: raise an error that names its replacement."""

from __future__ import annotations

import typer

from discrimloss.errors import DiscrimLossError

ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def reproduce(context: typer.Context) -> None:
    """Moved in 0.2: run `python -m benchmarks.paper` from a clone of the repository."""
    raise DiscrimLossError(
        "the paper's tables are no longer in the package: clone the repository, install it with "
        "the extras train and bench, and run `python -m benchmarks.paper` there"
    )
