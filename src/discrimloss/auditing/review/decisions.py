"""Decisions on samples, stored as events.

Each event is one line of JSON. Events are only added, and an undo is an event too. The current
state follows from all events in order.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from discrimloss.auditing.review.saved_record import SavedRecord
from discrimloss.auditing.sources.base import Label
from discrimloss.errors import DiscrimLossError

KEEP, RELABEL, DROP, SKIP, REOPEN = "keep", "relabel", "drop", "skip", "reopen"
UNDO = "undo"
ACTIONS = (KEEP, RELABEL, DROP, SKIP, REOPEN)
DECIDED = (KEEP, RELABEL, DROP)
"""Actions that decide on a sample. `SKIP` postpones it, and `REOPEN` undoes earlier decisions."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The pattern of the names of events and tabs."""
LONGEST_REVIEWER = 40


@dataclass(frozen=True)
class Event:
    """One action of a reviewer."""

    event: str
    """Its unique name, chosen by the page. If an event is sent twice, it counts once."""
    tab: str
    """The name of the browser tab."""
    action: str
    index: int
    """The position of the sample in the source's `ids`."""
    id: str
    """The id of the sample."""
    time: str
    """UTC, in ISO 8601."""
    label: Label | None = None
    """The new label, for a `RELABEL`."""
    undoes: str | None = None
    """The event that is undone, for an `UNDO`."""
    reviewer: str | None = None
    """The reviewer's name, if the page asks for names."""
    group: str | None = None
    """The name of the first event of a group of samples, if there are several."""

    def as_line(self) -> bytes:
        """Return the event as a line of the log."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        try:
            return json.dumps(known, ensure_ascii=False).encode() + b"\n"
        except UnicodeEncodeError:  # a file name that is not UTF-8
            return json.dumps(known).encode() + b"\n"


def event_of_line(line: bytes) -> Event:
    """Parse a line of the log, or raise a `ValueError` if it is not an event."""
    content = json.loads(line.decode())
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    try:
        event = Event(**content)
    except TypeError as error:
        raise ValueError("its keys are not those of a decision") from error
    _check(event)
    return event


def _check(event: Event) -> None:
    for name in (event.event, event.tab):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError("its event or its tab has no name")
    if event.action not in (*ACTIONS, UNDO):
        raise ValueError(f"there is no action {event.action!r}")
    if type(event.index) is not int or event.index < 0 or not isinstance(event.id, str):
        raise ValueError("it has no sample")
    is_label = isinstance(event.label, str | float | int) and not isinstance(event.label, bool)
    if is_label != (event.action == RELABEL):
        raise ValueError("only a relabel has a label, and it must have one")
    if isinstance(event.undoes, str) != (event.action == UNDO):
        raise ValueError("only an undo names an event to undo, and it must name one")
    if event.reviewer is not None and not is_reviewer(event.reviewer):
        raise ValueError("its reviewer has no name")
    if event.group is not None and not isinstance(event.group, str):
        raise ValueError("its group has no name")


def is_reviewer(name: Any) -> bool:
    """Return whether a reviewer's name is valid: printable, short, without surrounding spaces."""
    is_text = isinstance(name, str) and 0 < len(name) <= LONGEST_REVIEWER
    return is_text and name.isprintable() and name == name.strip()


class Decisions:
    """The state that follows from a number of events.

    The state of a sample is its last event that was not undone, from any tab. An undo undoes the
    last event of its own tab, and the next undo the one before.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = []
        self._by_name: dict[str, Event] = {}
        self._of_sample: dict[int, list[Event]] = {}
        self._of_tab: dict[str, list[Event]] = {}
        self._of_group: dict[str, list[Event]] = {}
        for event in events:
            self.add(event)

    @property
    def version(self) -> int:
        """The number of events."""
        return len(self.events)

    def find(self, name: str) -> Event | None:
        """Return the event with this name, or None."""
        return self._by_name.get(name)

    def current(self, index: int) -> Event | None:
        """Return the event that determines the state of a sample, or None if the sample is open."""
        events = self._of_sample.get(index)
        return None if not events or events[-1].action == REOPEN else events[-1]

    def all_current(self) -> dict[int, Event]:
        """Return the event that determines the state, for each decided sample."""
        every = {index: self.current(index) for index in sorted(self._of_sample)}
        return {index: event for index, event in every.items() if event is not None}

    def opinions(self, index: int) -> dict[str, Event]:
        """Return the last decision of each reviewer on a sample, by name.

        A `REOPEN` undoes the decisions of all reviewers. Events without a reviewer are ignored.
        """
        found: dict[str, Event] = {}
        for event in self._of_sample.get(index, ()):
            if event.action == REOPEN:
                found.clear()
            else:
                found[event.reviewer or ""] = event
        return found

    def disagrees(self, index: int) -> bool:
        """Return whether reviewers disagree on a sample. Skipping is not a decision."""
        decided = self.opinions(index).values()
        return len({(e.action, e.label) for e in decided if e.action in DECIDED}) > 1

    def undecided_by(self, reviewer: str) -> list[int]:
        """Return the samples on which others decided, but not this reviewer."""
        decided = ((index, self.opinions(index)) for index in self.all_current())
        return [index for index, opinions in decided if reviewer not in opinions]

    def of_group(self, event: Event) -> list[Event]:
        """Return all events of the same group, usually only this one."""
        return [event] if event.group is None else self._of_group[event.group]

    def last_of_tab(self, tab: str) -> list[Event]:
        """Return the events that an undo in this tab would undo: the last one, with its group."""
        events = self._of_tab.get(tab)
        if not events:
            return []
        return [event for event in self.of_group(events[-1]) if event in events]

    def add(self, event: Event) -> None:
        """Add an event, or raise a `ValueError` if it contradicts the others."""
        if event.event in self._by_name:
            raise ValueError(f"there is an event {event.event} already")
        if event.undoes is not None:
            undone = self._by_name.get(event.undoes)
            if undone is None or undone not in self._of_tab.get(undone.tab, ()):
                raise ValueError("it undoes an event that does not exist")
            self._of_tab[undone.tab].remove(undone)
            self._of_sample[undone.index].remove(undone)
        else:
            self._of_tab.setdefault(event.tab, []).append(event)
            self._of_sample.setdefault(event.index, []).append(event)
        if event.group is not None:
            self._of_group.setdefault(event.group, []).append(event)
        self._by_name[event.event] = event
        self.events.append(event)


def read_decisions(path: Path) -> tuple[Decisions, int]:
    """Read a log. Return its decisions and the number of bytes of their lines.

    Bytes after the last line break are an unfinished line from a sudden stop. No page showed it as
    saved, so it is ignored.

    Raises:
        DiscrimLossError: the file cannot be read, saved decisions are missing, or a complete line
            is not an event.
    """
    saved = SavedRecord(path)
    known = saved.read()
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        saved.require_whole(b"", known)
        return Decisions(), 0
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DiscrimLossError(f"cannot read {path} ({reason})") from error
    saved.require_whole(content, known)
    length = content.rfind(b"\n") + 1
    decisions = Decisions()
    for number, line in enumerate(content[:length].split(b"\n")[:-1], 1):
        try:
            decisions.add(event_of_line(line))
        except ValueError as error:
            raise DiscrimLossError(
                f"line {number} of {path} is not a decision ({error}): fix or remove that line"
            ) from error
    return decisions, length


def require_same_samples(decisions: Decisions, ids: Sequence[str], path: Path) -> None:
    """Raise a `DiscrimLossError` if a decision is on a sample that the source does not have."""
    for event in decisions.events:
        if event.index >= len(ids) or ids[event.index] != event.id:
            raise DiscrimLossError(
                f"{path} has a decision on {event.id!r}, which is not a sample of this audit: "
                f"move that file and {path.stem}.saved away, or review the audit it was made for"
            )


def regression_label(label: Any) -> float:
    """Return a regression target from a number or a text, or raise a `ValueError`."""
    try:
        number = math.nan if isinstance(label, bool) else float(label)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{label!r} is not a finite number")
    return number
