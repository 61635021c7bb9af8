"""The samples of a review with their decisions, and requests to decide."""

from __future__ import annotations

from typing import Any

from discrimloss.auditing.review.decision_log import DecisionLog, numbered_names
from discrimloss.auditing.review.decisions import (
    ACTIONS,
    KEEP,
    LONGEST_REVIEWER,
    NAME,
    RELABEL,
    UNDO,
    Event,
    is_reviewer,
)
from discrimloss.auditing.review.new_labels import RequestError, new_label
from discrimloss.auditing.review.orders import LARGEST_GROUP
from discrimloss.auditing.review.queue import OPEN, STATES, ReviewQueue, decision_row
from discrimloss.auditing.sources.base import AuditSource

LONGEST_GROUP_NAME = 56
"""Maximum length of a group's event name. The events of its samples get a number after it."""
ACCEPT = "accept"
"""Action on a group: relabel each sample with its own suggestion."""


class DecidedSamples:
    """The samples of an audit with their decisions. Safe for many threads.

    Args:
        source: the audited source.
        queue: the samples in the order of review. It records the state of each.
        log: the decisions.
    """

    def __init__(self, source: AuditSource, queue: ReviewQueue, log: DecisionLog) -> None:
        self._source, self._queue, self._log = source, queue, log
        for index in log.decisions.all_current():
            self._note(index)

    def row(self, rank: int) -> dict[str, Any]:
        """Return a sample with its decision, or with those of several reviewers."""
        index = int(self._queue.index[rank])
        decisions = self._log.decisions
        opinions = decisions.opinions(index).values()
        return self._queue.row(rank, decisions.current(index)) | {
            "opinions": [decision_row(event) for event in opinions] if len(opinions) > 1 else [],
            "disagrees": bool(self._queue.disagrees[rank]),
        }

    def require_sample(self, index: Any) -> int:
        """Return the index of a sample in a request, or raise a `RequestError`."""
        if type(index) is not int or not 0 <= index < len(self._queue):
            raise RequestError(f"there is no sample {index}", 404)
        return index

    def decide(self, request: Any, *, needs_reviewer: bool) -> dict[str, Any]:
        """Save a decision from a page, and return its response once the decision is on disk.

        If the sample already had a decision that the page did not know, the response contains that
        earlier decision under ``conflict``.

        Args:
            request: the request, as the page sends it.
            needs_reviewer: whether a decision must have the name of a reviewer.
        """
        if not isinstance(request, dict):
            raise RequestError("a decision must be a JSON object")
        name, tab, action = (request.get(key) for key in ("event", "tab", "action"))
        for value in (name, tab):
            if not isinstance(value, str) or not NAME.fullmatch(value):
                raise RequestError("event and tab must be names of letters, digits, - and _")
        assert isinstance(name, str)
        assert isinstance(tab, str)
        reviewer = _reviewer(request.get("reviewer"), is_required=needs_reviewer)
        if action == UNDO:
            return self._undo(name, tab, reviewer)
        if "indices" in request:
            return self._decide_group(name, tab, action, request["indices"], reviewer)
        if not isinstance(action, str) or action not in ACTIONS:
            raise RequestError(f"action must be one of {', '.join((*ACTIONS, UNDO))}")
        index = self.require_sample(request.get("index"))
        label = new_label(self._source, request.get("label")) if action == RELABEL else None
        with self._log.mutex:
            is_repeated = self._log.decisions.find(name) is not None
            before = self._log.decisions.current(index)
            seen = request.get("seen")
            is_unseen = before is not None and before.event != seen and not is_repeated
            event = self._log.decide(
                name, tab, action, index, self._source.ids[index], label, reviewer
            )
            return self._saved([event], before if is_unseen else None)

    def _decide_group(
        self, name: str, tab: str, action: Any, indices: Any, reviewer: str | None
    ) -> dict[str, Any]:
        """Decide on all open samples of a list. Other samples do not change."""
        if action not in (KEEP, ACCEPT):
            raise RequestError(f"action on a group must be {KEEP} or {ACCEPT}")
        if not isinstance(indices, list) or not 0 < len(indices) <= LARGEST_GROUP:
            raise RequestError(f"indices must be a list of 1 to {LARGEST_GROUP} samples")
        if len(name) > LONGEST_GROUP_NAME:
            raise RequestError(f"the event of a group has at most {LONGEST_GROUP_NAME} characters")
        with self._log.mutex:
            known = self._log.decisions.find(name)
            if known is not None:
                return self._saved(self._log.decisions.of_group(known), None)
            chosen = []
            for index in dict.fromkeys(self.require_sample(index) for index in indices):
                row = self.row(int(self._queue.rank_of[index]))
                label = row["suggested"] if action == ACCEPT else None
                is_other = action == KEEP or label not in (None, row["given"])
                if row["state"] == STATES[OPEN] and is_other:
                    chosen.append((index, label))
            if not chosen:
                raise RequestError("all samples of this group are decided already", 409)
            each = KEEP if action == KEEP else RELABEL
            names = numbered_names(name, len(chosen))
            events = self._log.decide_all(
                *(
                    Event(one, tab, each, index, self._source.ids[index], "", label, None, reviewer)
                    for one, (index, label) in zip(names, chosen, strict=True)
                )
            )
            return self._saved(events, None)

    def _undo(self, name: str, tab: str, reviewer: str | None) -> dict[str, Any]:
        with self._log.mutex:
            event = self._log.undo(name, tab, reviewer)
            if event is None:
                raise RequestError("there is nothing to undo in this tab", 409)
            return self._saved(self._log.decisions.of_group(event), None)

    def _saved(self, events: list[Event], conflict: Event | None) -> dict[str, Any]:
        for event in events:
            self._note(event.index)
        rows = [self.row(int(self._queue.rank_of[event.index])) for event in events]
        return {
            "saved": events[0].event,
            "action": events[0].action,
            "version": self._log.decisions.version,
            "row": rows[0],
            "rows": rows,
            "conflict": decision_row(conflict),
        }

    def _note(self, index: int) -> None:
        decisions = self._log.decisions
        self._queue.set_state(index, decisions.current(index))
        self._queue.disagrees[self._queue.rank_of[index]] = decisions.disagrees(index)


def _reviewer(name: Any, *, is_required: bool) -> str | None:
    if name is None and not is_required:
        return None
    if not is_reviewer(name):
        raise RequestError(
            f"a decision needs the name of the reviewer, of 1 to {LONGEST_REVIEWER} characters"
        )
    return str(name)
