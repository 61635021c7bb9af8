"""A review: what can be asked about the samples of an audit, and what can be decided on them.

Nothing here knows of the web; answers are what JSON can hold.
"""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.directory import DECISIONS, AuditDirectory
from discrimloss.auditing.review.decision_log import DecisionLog, NothingToUndoError
from discrimloss.auditing.review.decisions import (
    ACTIONS,
    NAME,
    RELABEL,
    UNDO,
    Event,
    number_label,
    require_same_samples,
    summary_of,
)
from discrimloss.auditing.review.sample_table import OPEN, STATES, Filter, read_samples
from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import LABELS

LONGEST_LABEL = 200
NOT_IN_FOLDER_NAMES = set('/\\:*?"<>|')
LONGEST_TEXT = 200_000
MOST_ROWS = 200
MOST_CHANGES = 500


class RequestError(DiscrimLossError):
    """Something was asked for that cannot be answered: a status of HTTP and one sentence."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


class ReviewSession:
    """The samples of an audit and what is decided on them. Safe for many threads.

    Args:
        directory: of a finished audit.

    Raises:
        SourceError: there is no finished audit, its source has changed, or it is being reviewed.
    """

    def __init__(self, directory: AuditDirectory) -> None:
        directory.require_finished()
        self.directory = directory
        self.source = directory.source()
        self.table = read_samples(directory, self.source)
        self.log = DecisionLog(directory / DECISIONS)
        try:
            require_same_samples(self.log.decisions, self.source.ids, self.log.path)
        except SourceError:
            self.log.close()
            raise
        for index, event in self.log.decisions.all_current().items():
            self.table.set_state(index, event)
        self._reading = Lock()  # sources need not be safe for many threads

    def close(self) -> None:
        """Let others review."""
        self.log.close()

    # -- what can be asked ------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """What does not change during a review."""
        counts = {label: len(self.table.ranks(Filter(label))) for label in LABELS}
        return {
            "name": Path(self.source.options.path).name,
            "directory": str(self.directory.path),
            "audit": str(self.directory.settings()["fingerprint"]),
            "kind": self.source.kind,
            "is_regression": self.source.is_regression,
            "class_names": list(self.source.class_names),
            "class_counts": {
                verdict: self.table.class_counts(None if verdict == "all" else verdict)
                for verdict in ("all", *LABELS)
            },
            "verdict_counts": {**counts, "all": len(self.table)},
            "review_command": command("review", self.directory),
            "apply_command": command("apply", self.directory),
        }

    def samples(
        self, wanted: Filter, offset: int | None, near: int | None, limit: int
    ) -> dict[str, Any]:
        """A stretch of the samples that pass a filter.

        Args:
            wanted: which samples.
            offset: of the first one; None: so that `near` is in the middle.
            near: a sample, by its index, that need not pass the filter itself.
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
            ranks = self.table.ranks(wanted)
            rank = 0 if near is None else int(self.table.rank_of[near])
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
                "progress": self.table.state_counts(Filter(wanted.verdict, wanted.given)),
            }

    def _next(self, ranks: npt.NDArray[np.intp], wanted: Filter, near: int | None) -> int | None:
        """What to go on with: the next open sample, or in a view of settled ones just the next.

        After the last one comes the first: those before may have been passed over.
        """
        if wanted.state in (None, STATES[OPEN]):
            ranks = ranks[self.table.state[ranks] == OPEN]
        rank = -1 if near is None else int(self.table.rank_of[near])
        ranks = ranks[ranks != rank]
        if not len(ranks):
            return None
        following = ranks[np.searchsorted(ranks, rank) % len(ranks)]
        return int(self.table.index[following])

    def sample(self, index: int) -> dict[str, Any]:
        """All about one sample but its picture."""
        self._require_sample(index)
        rank = int(self.table.rank_of[index])
        with self.log.mutex:
            answer = self._row(rank)
        try:
            with self._reading:
                view = self.source.view(index)
        except (SourceError, OSError, ValueError) as error:
            return answer | {"choices": self.table.choices(rank), "unreadable": str(error)}
        text = None if view.text is None else view.text[:LONGEST_TEXT]
        return answer | {
            "choices": self.table.choices(rank),
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
        """What was decided since a version, by any tab."""
        with self.log.mutex:
            decisions = self.log.decisions
            if since < 0 or since > decisions.version:
                since = 0  # a page that talked to another log
            events = decisions.events[since:]
            indices = sorted({event.index for event in events})
            return {
                "version": decisions.version,
                "actions": Counter(event.action for event in decisions.all_current().values()),
                "is_complete": len(indices) <= MOST_CHANGES,
                "changes": [
                    {
                        "index": index,
                        "state": STATES[self.table.state[self.table.rank_of[index]]],
                        "decision": summary_of(decisions.current(index)),
                    }
                    for index in indices[:MOST_CHANGES]
                ],
            }

    # -- what can be decided ----------------------------------------------------------------------

    def decide(self, request: Any) -> dict[str, Any]:
        """Save what a page sent, and answer when it is safe.

        The answer names, under ``conflict``, a decision on the same sample that the page had not
        seen when it sent its own.
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
            try:
                event = self.log.undo(name, tab)
            except NothingToUndoError as error:
                raise RequestError("there is nothing to undo in this tab", 409) from error
            return self._saved(event, None)

    def _saved(self, event: Event, conflict: Event | None) -> dict[str, Any]:
        current = self.log.decisions.current(event.index)
        self.table.set_state(event.index, current)
        rank = int(self.table.rank_of[event.index])
        return {
            "saved": event.event,
            "action": event.action,
            "version": self.log.decisions.version,
            "row": self._row(rank),
            "conflict": summary_of(conflict),
        }

    def _new_label(self, label: Any) -> Label:
        if self.source.is_regression:
            try:
                return number_label(label)
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

    # -- of both ----------------------------------------------------------------------------------

    def _row(self, rank: int) -> dict[str, Any]:
        return self.table.row(rank, self.log.decisions.current(int(self.table.index[rank])))

    def _require_sample(self, index: Any) -> int:
        if type(index) is not int or not 0 <= index < len(self.table):
            raise RequestError(f"there is no sample {index}", 404)
        return index

    def _check_filter(self, wanted: Filter) -> None:
        if wanted.verdict not in (None, *LABELS):
            raise RequestError(f"verdict must be one of {', '.join(LABELS)}, or all")
        if wanted.state not in (None, *STATES):
            raise RequestError(f"decision must be one of {', '.join(STATES)}, or all")


def command(name: str, directory: AuditDirectory) -> str:
    """What to type for a command on an audit."""
    return shlex.join(["discrimloss", name, str(directory.path)])
