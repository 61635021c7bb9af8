"""Locks between processes, for directories or files with a single writer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from discrimloss.errors import DiscrimLossError


class LockedError(DiscrimLossError):
    """Another process holds the lock."""


@contextmanager
def exclusive_lock(file: Path, refusal: str) -> Iterator[None]:
    """Hold a lock until the block ends. The system releases it if the process is killed.

    The lock file is never removed. Otherwise, two processes could hold the lock at once.

    Args:
        file: the lock file. It is created, with its directory, if it does not exist.
        refusal: the message of the error.

    Raises:
        LockedError: another process holds the lock. Raised without waiting.
        OSError: the lock file cannot be created.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(file, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise LockedError(refusal) from error
    try:
        yield
    finally:
        lock.release()
