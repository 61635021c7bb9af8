"""Context managers that add a path and advice to system errors.

`discrimloss.cli.app` prints every error. These context managers are for commands that know more
about an interruption or a failed write than the exception says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from discrimloss.errors import DiscrimLossError
from discrimloss.training.interruption import Interrupted


@contextmanager
def if_stopped(sentence: Callable[[str], str]) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, raise an error with a sentence and the exit code of the signal.

    Args:
        sentence: makes the sentence from "stopped", or from "stopped in epoch 2, after step 1" if
            the training loop was stopped between two steps.
    """
    try:
        yield
    except Interrupted as stopped:
        raise DiscrimLossError(
            sentence(f"stopped {stopped}"), exit_code=128 + stopped.signal_number
        ) from None
    except KeyboardInterrupt:
        raise DiscrimLossError(sentence("stopped"), exit_code=130) from None


@contextmanager
def writing(place: str, advice: str, below: Path | None = None) -> Iterator[None]:
    """If a write fails, raise an error whose sentence has the path and advice.

    Args:
        place: the path in the user's words, such as "to --out DIR".
        advice: the end of the sentence.
        below: if not None, errors about files outside this directory are not changed.
    """
    try:
        yield
    except OSError as error:
        names_a_file = error.filename is not None
        if below and names_a_file and not _is_below(str(error.filename), below):
            raise
        raise DiscrimLossError(f"cannot write {place} ({reason(error)}): {advice}") from error


def reason(error: OSError) -> str:
    """Return the reason from the system, such as "permission denied"."""
    return error.strerror.lower() if error.strerror else " ".join(str(error).split())


def _is_below(file: str, directory: Path) -> bool:
    return Path(file).absolute().is_relative_to(directory.absolute())
