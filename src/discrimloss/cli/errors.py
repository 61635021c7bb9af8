"""What a command tells a person when it cannot go on."""

from __future__ import annotations

from collections.abc import Collection


class CommandError(Exception):
    """One sentence that says what to do, and the exit code."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


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
