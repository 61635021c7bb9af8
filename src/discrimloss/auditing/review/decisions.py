"""What people decided on samples: events, and what they come to.

Decisions are kept as events, one line of JSON each, and are only ever added: what holds now follows
from all of them in their order. An undo is an event too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from discrimloss.auditing.sources.base import Label, SourceError

KEEP, RELABEL, DROP, SKIP, REOPEN = "keep", "relabel", "drop", "skip", "reopen"
UNDO = "undo"
ACTIONS = (KEEP, RELABEL, DROP, SKIP, REOPEN)
DECIDED = (KEEP, RELABEL, DROP)
"""What settles a sample. `SKIP` puts it off, `REOPEN` takes back whatever was decided."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""How the names of events and of tabs look."""


@dataclass(frozen=True)
class Event:
    """One thing that a person did."""

    event: str
    """Its name. The page makes it, so that what is sent twice counts once."""
    tab: str
    """The name of the browser tab it was done in."""
    action: str
    index: int
    """The position of the sample in the source's `ids`."""
    id: str
    """The name of the sample."""
    time: str
    """In UTC, as ISO 8601 has it."""
    label: Label | None = None
    """The new label, if it is a `RELABEL`."""
    undoes: str | None = None
    """The event that is taken back, if it is an `UNDO`."""

    def as_line(self) -> bytes:
        """A line of the log."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        try:
            return json.dumps(known, ensure_ascii=False).encode() + b"\n"
        except UnicodeEncodeError:  # the name of a file that is not in UTF-8
            return json.dumps(known).encode() + b"\n"


def event_of_line(line: bytes) -> Event:
    """The event of a line of the log, or a `ValueError`."""
    table = json.loads(line.decode())
    if not isinstance(table, dict):
        raise ValueError("it is not a JSON object")
    try:
        event = Event(**table)
    except TypeError as error:
        raise ValueError("it has other keys than a decision") from error
    _check(event)
    return event


def _check(event: Event) -> None:
    for name in (event.event, event.tab):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError("its event or its tab has no name")
    if event.action not in (*ACTIONS, UNDO):
        raise ValueError(f"there is no action {event.action!r}")
    if type(event.index) is not int or event.index < 0 or not isinstance(event.id, str):
        raise ValueError("it names no sample")
    is_label = isinstance(event.label, str | float | int) and not isinstance(event.label, bool)
    if is_label != (event.action == RELABEL):
        raise ValueError("a relabel, and nothing else, has a label")
    if isinstance(event.undoes, str) != (event.action == UNDO):
        raise ValueError("an undo, and nothing else, undoes an event")


class Decisions:
    """What holds after a number of events.

    The last event of a sample that was not taken back is the one that counts, whichever tab it came
    from. An undo takes back the last event of its own tab, and again the one before.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = []
        self._by_name: dict[str, Event] = {}
        self._of_sample: dict[int, list[Event]] = {}
        self._of_tab: dict[str, list[Event]] = {}
        for event in events:
            self.add(event)

    @property
    def version(self) -> int:
        """How many events there were."""
        return len(self.events)

    def find(self, name: str) -> Event | None:
        """The event of that name."""
        return self._by_name.get(name)

    def current(self, index: int) -> Event | None:
        """The event that counts for a sample; None, also after a `REOPEN`: it is open."""
        event = self.latest(index)
        return None if event is None or event.action == REOPEN else event

    def latest(self, index: int) -> Event | None:
        """The last event of a sample that was not taken back."""
        events = self._of_sample.get(index)
        return events[-1] if events else None

    def all_current(self) -> dict[int, Event]:
        """The event that counts, for each sample that has one."""
        every = {index: self.current(index) for index in sorted(self._of_sample)}
        return {index: event for index, event in every.items() if event is not None}

    def last_of_tab(self, tab: str) -> Event | None:
        """What an undo in this tab would take back."""
        events = self._of_tab.get(tab)
        return events[-1] if events else None

    def add(self, event: Event) -> None:
        """Take an event into account, or raise a `ValueError` if it cannot be."""
        if event.event in self._by_name:
            raise ValueError(f"there is an event {event.event} already")
        if event.undoes is not None:
            undone = self._by_name.get(event.undoes)
            if undone is None or undone not in self._of_tab.get(undone.tab, ()):
                raise ValueError("it undoes what is not there")
            self._of_tab[undone.tab].remove(undone)
            self._of_sample[undone.index].remove(undone)
        else:
            self._of_tab.setdefault(event.tab, []).append(event)
            self._of_sample.setdefault(event.index, []).append(event)
        self._by_name[event.event] = event
        self.events.append(event)


def read_decisions(path: Path) -> tuple[Decisions, int]:
    """All decisions of a log, and the length of the part of the file that holds them.

    What follows the last complete line is the rest of a line that was being written when the
    machine stopped. Nobody was told that it was saved.

    Raises:
        SourceError: a complete line is no event.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Decisions(), 0
    except OSError as error:
        raise SourceError(f"cannot read {path} ({_reason(error)})") from error
    length = content.rfind(b"\n") + 1
    decisions = Decisions()
    for number, line in enumerate(content[:length].split(b"\n")[:-1], 1):
        try:
            decisions.add(event_of_line(line))
        except ValueError as error:
            raise SourceError(
                f"line {number} of {path} is no decision ({error}): mend or remove that line"
            ) from error
    return decisions, length


def require_same_samples(decisions: Decisions, ids: tuple[str, ...], path: Path) -> None:
    """Raise a `SourceError` if a log speaks of other samples than those of the source."""
    for event in decisions.events:
        if event.index >= len(ids) or ids[event.index] != event.id:
            raise SourceError(
                f"{path} holds a decision on {event.id!r}, which is not a sample of this audit: "
                "move that file away, or review the audit it was made for"
            )


def number_label(label: Any) -> float:
    """A number as a label, from a number or what a person typed; else a `ValueError`."""
    try:
        number = math.nan if isinstance(label, bool) else float(label)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{label!r} is no finite number")
    return number


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def summary_of(event: Event | None) -> dict[str, Any] | None:
    """What a page is told of the event that counts."""
    if event is None:
        return None
    return {
        "event": event.event,
        "tab": event.tab,
        "action": event.action,
        "label": event.label,
        "time": event.time,
    }
