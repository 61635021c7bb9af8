"""The errors that discrimloss raises.

As everywhere in Python, a wrong argument of a function is a `ValueError`, `TypeError` or
`IndexError`. Everything else that the user can fix, such as a damaged file, a full directory or a
missing column, is a `DiscrimLossError`: one sentence that says what is wrong and what to do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path


class DiscrimLossError(Exception):
    """An error that the user can fix. Its message says what is wrong, where, and what to do.

    The command line prints it and exits with `exit_code`.

    Args:
        sentence: the message.
        exit_code: exit code of the command line.
    """

    def __init__(self, sentence: str = "", exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class SharedError(DiscrimLossError):
    """An error that all processes of a launcher raise. Only the first process prints it."""


class MissingExtraError(DiscrimLossError, ImportError):
    """A library of an optional extra is not installed."""


def is_first_process() -> bool:
    """Return whether this is the first process of a launcher such as torchrun, or the only one."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def needs_extra(extra: str, what: str = "this integration") -> Iterator[None]:
    """Turn a failed import into an error that names the extra to install.

    Use it as a context manager, or as a decorator of functions that import a library on first use.

    Args:
        extra: name of the extra in `pyproject.toml`.
        what: what needs the extra, as the subject of the message.

    Raises:
        MissingExtraError: a library is not installed. Other errors are not changed: about missing
            modules of this package, about imports that fail inside an installed library, and
            nested instances of `MissingExtraError`.
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
    """Return whether the failed import is in a file of this package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = "" if trace is None else trace.tb_frame.f_code.co_filename
    return name != __file__ and Path(__file__).parents[1] in Path(name).parents


def _brings(extra: str, library: str) -> bool:
    """Return whether a library is among the requirements of an extra."""
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
