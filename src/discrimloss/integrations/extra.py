"""What an integration says when its library is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn a failed import within the block into a sentence that says which extra to install."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"this integration needs an extra ({error.name or error} is missing): "
            f"pip install 'discrimloss[{extra}]'"
        ) from error
