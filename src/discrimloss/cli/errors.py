"""What a command tells a person when it cannot go on."""

from __future__ import annotations

from collections.abc import Collection

from discrimloss.errors import DiscrimLossError


class CommandError(DiscrimLossError):
    """One sentence that says what to do, and the exit code."""


def needs_extra(
    error: ModuleNotFoundError, libraries: Collection[str], what: str, extra: str
) -> Exception:
    """The sentence for a library of an extra that is not installed; any other error as it is."""
    missing = (error.name or "").partition(".")[0]
    if missing not in libraries:
        return error
    return CommandError(
        f"{what} needs an extra ({missing} is missing): pip install 'discrimloss[{extra}]'"
    )
