"""The command line: `discrimloss`."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; `arguments` are those of the process if None."""
    try:
        from discrimloss.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        print(
            "discrimloss: the command line needs an extra: pip install 'discrimloss[cli]'",
            file=sys.stderr,
        )
        return 2
    return run(sys.argv[1:] if arguments is None else list(arguments))
