"""A review: what the page can ask about the samples of an audit, and decide on them.

This module knows nothing of HTTP; its answers are what JSON can hold.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.review.decision_log import DecisionLog
from discrimloss.auditing.review.decisions import (
    ACTIONS,
    NAME,
    RELABEL,
    UNDO,
    Event,
    regression_label,
    require_same_samples,
)
from discrimloss.auditing.review.queue import OPEN, STATES, Filter, ReviewQueue, decision_row
from discrimloss.auditing.sources.base import AuditSource, Label, SourceError
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import LABELS, Verdicts

DECISIONS = "decisions.jsonl"
LONGEST_LABEL = 200
NOT_IN_FOLDER_NAMES = set('/\\:*?"<>|')
LONGEST_TEXT = 200_000
MOST_ROWS = 200
MOST_CHANGES = 500


class RequestError(DiscrimLossError):
    """A request that cannot be answered: an HTTP status and one sentence."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


class ReviewSession:
    """The samples of an audit and the decisions on them. Safe for many threads.

    Args:
        verdicts: of the audit.
        source: what was audited.
        directory: where decisions are kept.
        review_command: starts this review again.
        apply_command: writes the corrected data.

    Raises:
        LockedError: another process reviews it.
        DiscrimLossError: verdicts or decisions do not belong to the source.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        source: AuditSource,
        directory: Path,
        review_command: str = "result.review()",
        apply_command: str = "result.apply()",
    ) -> None:
        self.source, self.directory = source, directory
        self.review_command, self.apply_command = review_command, apply_command
        self.queue = ReviewQueue(verdicts, source)
        self.log = DecisionLog(directory / DECISIONS)
        try:
            require_same_samples(self.log.decisions, source.ids, self.log.path)
        except DiscrimLossError:
            self.log.close()
            raise
        for index, event in self.log.decisions.all_current().items():
            self.queue.set_state(index, event)
        self._reading = Lock()  # sources need not be safe for many threads

    def close(self) -> None:
        """Let another process review."""
        self.log.close()

    @cached_property
    def fingerprint(self) -> str:
        """Of the source: a page keeps decisions that are not saved yet under this name."""
        return self.source.fingerprint()

    # -- questions --------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """What does not change during a review."""
        queue = self.queue
        return {
            "name": Path(self.source.options.path).name or "data in memory",
            "directory": str(self.directory),
            "audit": self.fingerprint,
            "kind": self.source.kind,
            "is_regression": self.source.is_regression,
            "class_names": list(self.source.class_names),
            "class_counts": {
                verdict: queue.class_counts(None if verdict == "all" else verdict)
                for verdict in ("all", *LABELS)
            },
            "verdict_counts": {**queue.verdicts.counts, "all": len(queue)},
            "review_command": self.review_command,
            "apply_command": self.apply_command,
        }

    def samples(
        self, wanted: Filter, offset: int | None, near: int | None, limit: int
    ) -> dict[str, Any]:
        """Some of the samples that pass a filter.

        Args:
            wanted: the filter.
            offset: position of the first one; None puts `near` in the middle.
            near: index of a sample, which need not pass the filter itself.
            limit: how many at most.
        """
        if not 1 <= limit <= MOST_ROWS:
            raise RequestError(f"limit must be from 1 to {MOST_ROWS}")
        if offset is not None and offset < 0:
            raise RequestError("offset must be 0 or more")
        if near is not None:
            self._require_sample(near)
        self._check_filter(wanted)
        with self.log.mutex:
            ranks = self.queue.ranks(wanted)
            rank = 0 if near is None else int(self.queue.rank_of[near])
            position = int(np.searchsorted(ranks, rank))
            start = max(position - limit // 2, 0) if offset is None else offset
            chosen = [int(rank) for rank in ranks[start : start + limit]]
            return {
                "version": self.log.decisions.version,
                "total": len(ranks),
                "offset": start,
                "position": position,
                "contains": position < len(ranks) and int(ranks[position]) == rank,
                "next": self._next(ranks, wanted, near),
                "rows": [self._row(rank) for rank in chosen],
                "progress": self.queue.state_counts(wanted.verdict, wanted.given),
            }

    def _next(self, ranks: npt.NDArray[np.intp], wanted: Filter, near: int | None) -> int | None:
        """The next open sample or, in a view of decided samples, the next one.

        After the last one comes the first, because a reviewer may have passed over it.
        """
        if wanted.state in (None, STATES[OPEN]):
            ranks = ranks[self.queue.state[ranks] == OPEN]
        rank = -1 if near is None else int(self.queue.rank_of[near])
        ranks = ranks[ranks != rank]
        if not len(ranks):
            return None
        following = ranks[np.searchsorted(ranks, rank) % len(ranks)]
        return int(self.queue.index[following])

    def sample(self, index: int) -> dict[str, Any]:
        """One sample, without its picture."""
        self._require_sample(index)
        rank = int(self.queue.rank_of[index])
        with self.log.mutex:
            answer = self._row(rank)
        try:
            with self._reading:
                view = self.source.view(index)
        except (SourceError, OSError, ValueError) as error:
            return answer | {"choices": self.queue.choices(rank), "unreadable": str(error)}
        text = None if view.text is None else view.text[:LONGEST_TEXT]
        return answer | {
            "choices": self.queue.choices(rank),
            "has_image": view.image is not None,
            "text": text,
            "text_left_out": 0 if text is None else len(view.text or "") - len(text),
            "fields": [[name, value[:LONGEST_TEXT]] for name, value in view.fields],
        }

    def image(self, index: int, is_small: bool = False) -> tuple[bytes, str]:
        """The picture of a sample and its media type."""
        self._require_sample(index)
        try:
            with self._reading:
                view = self.source.view(index) if is_small else self.source.close_view(index)
        except (SourceError, OSError, ValueError) as error:
            raise RequestError(f"sample {index} cannot be read: {error}", 404) from error
        if view.image is None or not view.image_type.startswith("image/"):
            raise RequestError(f"sample {index} is no picture", 404)
        return view.image, view.image_type

    def state(self, since: int) -> dict[str, Any]:
        """Decisions of all tabs since a version."""
        with self.log.mutex:
            decisions = self.log.decisions
            if since < 0 or since > decisions.version:
                since = 0  # the page has seen another log
            events = decisions.events[since:]
            indices = sorted({event.index for event in events})
            return {
                "version": decisions.version,
                "actions": Counter(event.action for event in decisions.all_current().values()),
                "is_complete": len(indices) <= MOST_CHANGES,
                "changes": [
                    {
                        "index": index,
                        "state": STATES[self.queue.state[self.queue.rank_of[index]]],
                        "decision": decision_row(decisions.current(index)),
                    }
                    for index in indices[:MOST_CHANGES]
                ],
            }

    # -- decisions --------------------------------------------------------------------------------

    def decide(self, request: Any) -> dict[str, Any]:
        """Save a decision of a page; returns when it is on disk.

        Under ``conflict`` the answer has a decision on the same sample that the page had not seen
        when it sent its own.
        """
        if not isinstance(request, dict):
            raise RequestError("a decision must be a JSON object")
        name, tab, action = (request.get(key) for key in ("event", "tab", "action"))
        for value in (name, tab):
            if not isinstance(value, str) or not NAME.fullmatch(value):
                raise RequestError("event and tab must be names of letters, digits, - and _")
        assert isinstance(name, str)
        assert isinstance(tab, str)
        if action == UNDO:
            return self._undo(name, tab)
        if not isinstance(action, str) or action not in ACTIONS:
            raise RequestError(f"action must be one of {', '.join((*ACTIONS, UNDO))}")
        index = self._require_sample(request.get("index"))
        label = self._new_label(request.get("label")) if action == RELABEL else None
        with self.log.mutex:
            is_repeated = self.log.decisions.find(name) is not None
            before = self.log.decisions.current(index)
            seen = request.get("seen")
            is_unseen = before is not None and before.event != seen and not is_repeated
            event = self.log.decide(name, tab, action, index, self.source.ids[index], label)
            return self._saved(event, before if is_unseen else None)

    def _undo(self, name: str, tab: str) -> dict[str, Any]:
        with self.log.mutex:
            event = self.log.undo(name, tab)
            if event is None:
                raise RequestError("there is nothing to undo in this tab", 409)
            return self._saved(event, None)

    def _saved(self, event: Event, conflict: Event | None) -> dict[str, Any]:
        current = self.log.decisions.current(event.index)
        self.queue.set_state(event.index, current)
        rank = int(self.queue.rank_of[event.index])
        return {
            "saved": event.event,
            "action": event.action,
            "version": self.log.decisions.version,
            "row": self._row(rank),
            "conflict": decision_row(conflict),
        }

    def _new_label(self, label: Any) -> Label:
        if self.source.is_regression:
            try:
                return regression_label(label)
            except ValueError as error:
                raise RequestError(f"a relabel needs a number here: {error}") from error
        if not isinstance(label, str) or not label.strip():
            raise RequestError("a relabel needs the name of a class")
        if label not in self.source.class_names:
            self._check_new_class(label)
        return label

    def _check_new_class(self, label: str) -> None:
        if len(label) > LONGEST_LABEL:
            raise RequestError(f"the name of a class has at most {LONGEST_LABEL} characters")
        if label != label.strip() or not label.isprintable():
            raise RequestError("the name of a class must be printable, without space around it")
        # A class of a folder of images is a folder, on any file system.
        is_folder = self.source.kind == "images" and Path(self.source.options.path).is_dir()
        if is_folder and (label.startswith(".") or set(label) & NOT_IN_FOLDER_NAMES):
            raise RequestError(
                'a new class of images must be the name of a folder: no / \\ : * ? " < > | '
                "and no dot in front"
            )
        try:
            self.source.require_class(label)
        except SourceError as error:
            raise RequestError(str(error)) from error

    # -- both -------------------------------------------------------------------------------------

    def _row(self, rank: int) -> dict[str, Any]:
        return self.queue.row(rank, self.log.decisions.current(int(self.queue.index[rank])))

    def _require_sample(self, index: Any) -> int:
        if type(index) is not int or not 0 <= index < len(self.queue):
            raise RequestError(f"there is no sample {index}", 404)
        return index

    def _check_filter(self, wanted: Filter) -> None:
        if wanted.verdict not in (None, *LABELS):
            raise RequestError(f"verdict must be one of {', '.join(LABELS)}, or all")
        if wanted.state not in (None, *STATES):
            raise RequestError(f"decision must be one of {', '.join(STATES)}, or all")
