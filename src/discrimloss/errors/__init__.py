"""The errors that discrimloss raises, and the sentence about an extra that is not installed.

A wrong argument of a function is a `ValueError`, `TypeError` or `IndexError`, as everywhere in
Python. Everything else that the user can mend, such as a damaged file, a full directory or a column
that is not there, is a `DiscrimLossError`: one sentence that says what is wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager


class DiscrimLossError(Exception):
    """One sentence that says what is wrong, where, and what to do.

    The command line prints it and exits with `exit_code`.

    Args:
        sentence: what to print.
        exit_code: of the command line.
    """

    def __init__(self, sentence: str = "", exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class MissingExtraError(DiscrimLossError, ImportError):
    """A library of an optional extra is not installed."""


@contextmanager
def needs_extra(
    extra: str, what: str = "this integration", libraries: Collection[str] | None = None
) -> Iterator[None]:
    """Turn a failed import within the block into a sentence that says which extra to install.

    Args:
        extra: of `pyproject.toml`.
        what: needs it, as the subject of the sentence.
        libraries: that the extra installs; another missing library is another error. All of them
            if None.
    """
    try:
        yield
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if libraries is not None and missing not in libraries:
            raise
        raise MissingExtraError(
            f"{what} needs an extra ({error.name or error} is missing): "
            f"pip install 'discrimloss[{extra}]'"
        ) from error
