"""The file that decisions are kept in: one writer, and no saved decision is ever lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime, timezone
from pathlib import Path
from threading import RLock
from typing import IO, Any

from typing_extensions import Self

from discrimloss.auditing.review.decisions import UNDO, Event, read_decisions
from discrimloss.auditing.sources.base import Label
from discrimloss.errors import DiscrimLossError
from discrimloss.files.locks import exclusive_lock


class DecisionLog:
    """Decisions in a file, safe for many threads.

    An event is on disk before the method that adds it returns. The lock lasts as long as the
    process, however that ends.

    Args:
        path: the file; it is created if it does not exist.
        now: gives the time of an event.

    Raises:
        LockedError: another process has the log open.
        DiscrimLossError: the file cannot be read or written.
    """

    def __init__(self, path: Path, now: Callable[[], str] | None = None) -> None:
        self.path = path
        self._now = now or _utc_now
        self.mutex: AbstractContextManager[Any] = RLock()
        """To hold while several things are read or written that belong together."""
        refusal = f"{path.parent} is being reviewed already: use that page, or end that review"
        with ExitStack() as stack:
            try:
                stack.enter_context(exclusive_lock(path.with_suffix(".lock"), refusal))
                self.decisions, length = read_decisions(path)
                self._file = self._open_at(length)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise DiscrimLossError(
                    f"cannot write decisions to {path.parent} ({reason}): make it writable"
                ) from error
            self._lock = stack.pop_all()

    def _open_at(self, length: int) -> IO[bytes]:
        """Open the file, and cut off a line that was never finished."""
        file = self.path.open("ab", buffering=0)
        if file.tell() != length:
            file.truncate(length)
            os.fsync(file.fileno())
        _sync_entry(self.path)
        return file

    def decide(
        self, name: str, tab: str, action: str, index: int, sample_id: str, label: Label | None
    ) -> Event:
        """Save a decision, unless the event of that name is saved already."""
        with self.mutex:
            known = self.decisions.find(name)
            if known is not None:
                return known
            event = Event(name, tab, action, index, sample_id, self._now(), label)
            self._append(event)
            return event

    def undo(self, name: str, tab: str) -> Event | None:
        """Take back the last decision of a tab, unless the undo of that name is saved already.

        Returns:
            The undo; None if the tab has no decision left to take back.
        """
        with self.mutex:
            known = self.decisions.find(name)
            if known is not None:
                return known
            last = self.decisions.last_of_tab(tab)
            if last is None:
                return None
            event = Event(name, tab, UNDO, last.index, last.id, self._now(), undoes=last.event)
            self._append(event)
            return event

    def _append(self, event: Event) -> None:
        if self._file.closed:
            raise DiscrimLossError("this review has ended: start it again")
        length = self._file.seek(0, os.SEEK_END)
        line = event.as_line()
        try:
            if self._file.write(line) != len(line):
                raise OSError("only a part of it fitted on the disk")
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(length)  # to a shorter file: this needs no room
            raise DiscrimLossError(f"cannot write to {self.path} ({error}): make room") from error
        self.decisions.add(event)

    def close(self) -> None:
        """Release the lock, after a decision that is being saved."""
        with self.mutex:
            self._file.close()
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _sync_entry(path: Path) -> None:
    """Make sure that a new file is still listed after a power cut."""
    if os.name == "posix":
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _utc_now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
