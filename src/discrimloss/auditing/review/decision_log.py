"""The file that decisions are kept in: one writer, and nothing lost that was said to be saved."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import IO, Any

from discrimloss.auditing.review.decisions import UNDO, Event, read_decisions
from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.errors import DiscrimLossError

if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class NothingToUndoError(DiscrimLossError):
    """There is no decision of this tab left to take back."""


class LogWriteError(DiscrimLossError):
    """A decision could not be saved; the log is as it was before."""


class AlreadyOpenError(SourceError, DiscrimLossError):
    """Another process writes this log."""


class DecisionLog:
    """Decisions in a file, safe for many threads.

    An event is on disk before the method that adds it returns. The lock lasts as long as the
    process, however that ends.

    Args:
        path: of the file; it is made if there is none.
        now: gives the time of an event.

    Raises:
        AlreadyOpenError: another process has the log open.
        SourceError: the file cannot be read or written.
    """

    def __init__(self, path: Path, now: Callable[[], str] | None = None) -> None:
        self.path = path
        self._now = now or _utc_now
        self.mutex: AbstractContextManager[Any] = RLock()
        """To hold while several things are read or written that belong together."""
        self._lock_file = self._take_lock()
        try:
            self.decisions, length = read_decisions(path)
            self._file = self._open_at(length)
        except BaseException:
            self._lock_file.close()
            raise

    def _take_lock(self) -> IO[bytes]:
        place = self.path.with_suffix(".lock")
        try:
            file = place.open("ab")
        except OSError as error:
            raise self._cannot_write(error) from error
        try:
            _lock(file)
        except OSError as error:
            file.close()
            raise AlreadyOpenError(
                f"{self.path.parent} is being reviewed already: use that page, or end that review"
            ) from error
        return file

    def _open_at(self, length: int) -> IO[bytes]:
        """The file, without the rest of a line that was never finished."""
        try:
            file = self.path.open("ab", buffering=0)
            if file.tell() != length:
                file.truncate(length)
                os.fsync(file.fileno())
            _sync_entry(self.path)
        except OSError as error:
            raise self._cannot_write(error) from error
        return file

    def _cannot_write(self, error: OSError) -> SourceError:
        reason = (error.strerror or str(error)).lower()
        return SourceError(
            f"cannot write decisions to {self.path.parent} ({reason}): make it writable"
        )

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

    def undo(self, name: str, tab: str) -> Event:
        """Take back the last decision of a tab, unless the undo of that name is saved already.

        Raises:
            NothingToUndoError: there is none left.
        """
        with self.mutex:
            known = self.decisions.find(name)
            if known is not None:
                return known
            last = self.decisions.last_of_tab(tab)
            if last is None:
                raise NothingToUndoError
            event = Event(name, tab, UNDO, last.index, last.id, self._now(), undoes=last.event)
            self._append(event)
            return event

    def _append(self, event: Event) -> None:
        if self._file.closed:
            raise LogWriteError("this review has ended: start it again")
        length = self._file.seek(0, os.SEEK_END)
        line = event.as_line()
        try:
            if self._file.write(line) != len(line):
                raise OSError("only a part of it fitted on the disk")
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(length)  # shorter than what is there: needs no room
            raise LogWriteError(f"cannot write to {self.path} ({error}): make room") from error
        self.decisions.add(event)

    def close(self) -> None:
        """Let others write. Waits for a decision that is being saved."""
        with self.mutex:
            self._file.close()
            self._lock_file.close()

    def __enter__(self) -> DecisionLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
