"""The errors that discrimloss raises, and the sentence about an extra that is not installed.

A wrong argument of a function is a `ValueError`, `TypeError` or `IndexError`, as everywhere in
Python. Everything else that the user can fix, such as a damaged file, a full directory or a column
that is not there, is a `DiscrimLossError`: one sentence that says what is wrong and what to do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path


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


class SharedError(DiscrimLossError):
    """An error that all processes of a launcher know. The first of them prints it."""


class MissingExtraError(DiscrimLossError, ImportError):
    """A library of an optional extra is not installed."""


def is_first_process() -> bool:
    """Whether a launcher, such as torchrun, started this process first; true without one."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def needs_extra(extra: str, what: str = "this integration") -> Iterator[None]:
    """Turn a failed import into a sentence that says which extra to install.

    A context manager, and a decorator of functions that import a library on first use.

    Args:
        extra: name of the extra in `pyproject.toml`.
        what: subject of the sentence: what needs the extra.

    Raises:
        MissingExtraError: a library is not installed. A missing module of this package, an import
            that fails within a library that is installed, and a `MissingExtraError` from within
            pass as they are.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or str(error)).partition(".")[0]
        if library == "discrimloss" or not (_is_ours(error) or _brings(extra, library)):
            raise
        raise MissingExtraError(
            f"{what} needs an extra ({library} is missing): pip install 'discrimloss[{extra}]'"
        ) from error


def _is_ours(error: ModuleNotFoundError) -> bool:
    """Whether the import that failed is in a file of this package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = "" if trace is None else trace.tb_frame.f_code.co_filename
    return name != __file__ and Path(__file__).parents[1] in Path(name).parents


def _brings(extra: str, library: str) -> bool:
    """Whether an extra names a library among its requirements."""
    try:
        requirements = requires("discrimloss") or []
    except PackageNotFoundError:
        return False
    names = [
        re.split(r"[\[<>=!~; ]", requirement)[0]
        for requirement in requirements
        if re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", requirement)
    ]
    return library.replace("_", "-").lower() in [name.replace("_", "-").lower() for name in names]
