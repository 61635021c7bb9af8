"""What all commands on a finished audit share: how their errors are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from discrimloss.cli.errors import CommandError

AuditArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The --out directory of `discrimloss audit`.")
]


@contextmanager
def told_in_a_sentence() -> Iterator[None]:
    """What goes wrong with an audit or its source, as a `CommandError`."""
    try:
        from discrimloss.auditing.sources.base import SourceError

        try:
            yield
        except SourceError as error:
            raise CommandError(str(error)) from error
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "discrimloss":
            raise
        raise CommandError(
            str(error)
            if "pip install" in str(error)
            else f"this needs an extra ({missing} is missing): pip install 'discrimloss[audit]'"
        ) from error
