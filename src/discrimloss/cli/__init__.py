"""The command line: `discrimloss`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from discrimloss.errors import MissingExtraError, needs_extra


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        arguments: the arguments after `discrimloss`. By default those of this process.
    """
    try:
        with needs_extra("cli", "the command line"):
            from discrimloss.cli.app import run
    except MissingExtraError as error:
        print(f"discrimloss: {error}", file=sys.stderr)
        return error.exit_code
    return run(sys.argv[1:] if arguments is None else list(arguments))
