"""The file with the decisions. It has a single writer, and no saved decision is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from threading import RLock
from typing import IO, Any

from typing_extensions import Self

from discrimloss.auditing.review.decisions import UNDO, Event, read_decisions
from discrimloss.auditing.review.saved_record import SavedRecord
from discrimloss.auditing.sources.base import Label
from discrimloss.errors import DiscrimLossError
from discrimloss.files.locks import exclusive_lock

DECISIONS = "decisions.jsonl"


class DecisionLog:
    """Decisions in a file, safe for many threads.

    An event is on disk before the method that adds it returns. The lock is released when the
    process ends in any way.

    Args:
        path: the file, which is created if it does not exist.
        now: returns the time of an event.

    Raises:
        LockedError: another process has the log open.
        DiscrimLossError: the file cannot be read or written.
    """

    def __init__(self, path: Path, now: Callable[[], str] | None = None) -> None:
        self.path = path
        self._now = now or _utc_now
        self.mutex: AbstractContextManager[Any] = RLock()
        """The lock to hold while reading or writing several related values."""
        refusal = f"{path.parent} is already being reviewed: use that page, or end that review"
        with ExitStack() as stack:
            try:
                stack.enter_context(exclusive_lock(path.with_suffix(".lock"), refusal))
                self.decisions, length = read_decisions(path)
                self._file = self._open_at(length)
                self._saved = SavedRecord(path)
                self._saved.begin(path.read_bytes())
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise DiscrimLossError(
                    f"cannot write decisions to {path.parent} ({reason}): make it writable"
                ) from error
            self._lock = stack.pop_all()

    def _open_at(self, length: int) -> IO[bytes]:
        """Open the file, and cut off an unfinished last line."""
        file = self.path.open("ab", buffering=0)
        if file.tell() != length:
            file.truncate(length)
            os.fsync(file.fileno())
        _sync_entry(self.path)
        return file

    def decide(
        self,
        name: str,
        tab: str,
        action: str,
        index: int,
        sample_id: str,
        label: Label | None,
        reviewer: str | None = None,
    ) -> Event:
        """Save a decision, unless an event with this name is already saved."""
        made = Event(name, tab, action, index, sample_id, "", label, reviewer=reviewer)
        return self.decide_all(made)[0]

    def decide_all(self, *made: Event) -> list[Event]:
        """Save decisions together, unless the first is already saved. Return the saved ones.

        Args:
            made: events of one tab. Their time is set here. The first one names the group.
        """
        with self.mutex:
            known = self.decisions.find(made[0].event)
            if known is not None:
                return self.decisions.of_group(known)
            group = made[0].event if len(made) > 1 else None
            now = self._now()
            events = [replace(event, time=now, group=group) for event in made]
            self._append(*events)
            return events

    def undo(self, name: str, tab: str, reviewer: str | None = None) -> Event | None:
        """Undo the last decision of a tab, unless an undo with this name is already saved.

        A decision on several samples is undone for all of them.

        Returns:
            The undo, or the first of several. None if the tab has no decision to undo.
        """
        with self.mutex:
            known = self.decisions.find(name)
            if known is not None:
                return known
            undone = self.decisions.last_of_tab(tab)
            if not undone:
                return None
            names = numbered_names(name, len(undone))
            return self.decide_all(
                *(
                    Event(each, tab, UNDO, event.index, event.id, "", None, event.event, reviewer)
                    for each, event in zip(names, undone, strict=True)
                )
            )[0]

    def _append(self, *events: Event) -> None:
        """Save events, all of them or none."""
        if self._file.closed:
            raise DiscrimLossError("this review has ended: start it again")
        length = self._file.seek(0, os.SEEK_END)
        lines = b"".join(event.as_line() for event in events)
        try:
            if self._file.write(lines) != len(lines):
                raise OSError("the disk is full, and only part of it was written")
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(length)  # needs no free space
            raise DiscrimLossError(f"cannot write to {self.path} ({error}): make room") from error
        self._saved.add(lines)
        for event in events:
            self.decisions.add(event)

    def close(self) -> None:
        """Wait until no decision is being saved, then close the file and release the lock."""
        with self.mutex:
            self._file.close()
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def numbered_names(name: str, number: int) -> list[str]:
    """Return a name for each event of a group: ``name``, ``name-1``, ``name-2`` and so on."""
    return [name, *(f"{name}-{place}" for place in range(1, number))]


def _sync_entry(path: Path) -> None:
    """Make sure that a new file still exists after a power failure."""
    if os.name == "posix":
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _utc_now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
