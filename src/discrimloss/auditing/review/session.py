"""A review: the requests of the page about the samples of an audit, and decisions on them.

This module does not depend on HTTP. Its methods return values that can be written as JSON.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.evidence.why import Evidence
from discrimloss.auditing.health.data_health import DataHealth
from discrimloss.auditing.review.decided_samples import DecidedSamples
from discrimloss.auditing.review.decision_log import DECISIONS, DecisionLog
from discrimloss.auditing.review.decisions import require_same_samples
from discrimloss.auditing.review.groups import group_of
from discrimloss.auditing.review.new_labels import RequestError
from discrimloss.auditing.review.orders import RANDOM, UNGROUPED, WORST, Order, ReviewOrders
from discrimloss.auditing.review.queue import OPEN, STATES, Filter, ReviewQueue
from discrimloss.auditing.review.spot_check import count_spot_check
from discrimloss.auditing.sources.base import AuditSource, SourceError
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import LABELS, Verdicts

LONGEST_TEXT = 200_000
LONGEST_BEGINNING = 120
MOST_ROWS = 200
MOST_CHANGES = 500
DISAGREED, BY_OTHERS = "disagreed", "others"
"""Additional states to filter by, if there are several reviewers."""


class ReviewSession:
    """The samples of an audit and the decisions on them. Safe for many threads.

    Args:
        verdicts: verdicts of the audit.
        source: the audited source.
        directory: directory for the decisions.
        evidence: why samples are suspicious.
        health: problems of the data besides its labels.
        review_command: command that starts this review again.
        apply_command: command that writes the corrected data.
        cache: the directory with cached pixels or features of the audit.

    Raises:
        LockedError: another process reviews this audit.
        DiscrimLossError: verdicts or decisions do not belong to the source.
    """

    def __init__(
        self,
        verdicts: Verdicts,
        source: AuditSource,
        directory: Path,
        evidence: Evidence | None = None,
        health: DataHealth | None = None,
        review_command: str = "result.review()",
        apply_command: str = "result.apply()",
        cache: Path | None = None,
    ) -> None:
        self.source, self.directory = source, directory
        self.review_command, self.apply_command = review_command, apply_command
        self.is_shared = False
        """Whether other machines can reach the page. Decisions then need a reviewer's name."""
        self.queue = ReviewQueue(verdicts, source, health)
        duplicates = None if health is None else health.duplicate_groups(len(verdicts))
        self.orders = ReviewOrders(self.queue, source, duplicates, cache)
        self.evidence = evidence or Evidence()
        self.log = DecisionLog(directory / DECISIONS)
        try:
            require_same_samples(self.log.decisions, source.ids, self.log.path)
        except DiscrimLossError:
            self.log.close()
            raise
        self.decided = DecidedSamples(source, self.queue, self.log)
        self._reading = Lock()  # sources need not be safe for many threads

    def close(self) -> None:
        """Close the review, so that another process can open it."""
        self.log.close()

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the source. A page stores unsaved decisions under this key."""
        return self.source.fingerprint()

    def decide(self, request: Any) -> dict[str, Any]:
        """Save a decision from a page. See `DecidedSamples.decide`."""
        return self.decided.decide(request, needs_reviewer=self.is_shared)

    def about(self) -> dict[str, Any]:
        """Return the values that do not change during a review."""
        queue = self.queue
        return {
            "name": Path(self.source.options.path).name or "data in memory",
            "directory": str(self.directory),
            "audit": self.fingerprint,
            "kind": self.source.kind,
            "is_regression": self.source.is_regression,
            "is_shared": self.is_shared,
            "orders": self.orders.names,
            "class_names": list(self.source.class_names),
            "class_counts": {
                verdict: queue.class_counts(None if verdict == "all" else verdict)
                for verdict in ("all", *LABELS)
            },
            "problem_counts": queue.problem_counts(),
            "verdict_counts": {**queue.verdicts.counts, "all": len(queue)},
            "review_command": self.review_command,
            "apply_command": self.apply_command,
        }

    def samples(
        self,
        wanted: Filter,
        offset: int | None,
        near: int | None,
        limit: int,
        order: str = WORST,
        reviewer: str = "",
    ) -> dict[str, Any]:
        """Return some of the samples that pass a filter.

        Args:
            wanted: the filter.
            offset: position of the first sample. None puts `near` in the middle.
            near: index of a sample, which need not pass the filter.
            limit: maximum number of samples.
            order: one of `ReviewOrders.names`.
            reviewer: name of the reviewer.
        """
        if not 1 <= limit <= MOST_ROWS:
            raise RequestError(f"limit must be from 1 to {MOST_ROWS}")
        if offset is not None and offset < 0:
            raise RequestError("offset must be 0 or more")
        if order not in self.orders.names:
            raise RequestError(f"order must be one of {', '.join(self.orders.names)}")
        if near is not None:
            self.decided.require_sample(near)
        self._check_filter(wanted)
        arranged = self._arranged(order)
        with self.log.mutex:
            places = np.sort(arranged.place[self._passing(wanted, reviewer)])
            place = 0 if near is None else int(arranged.place[self.queue.rank_of[near]])
            position = int(np.searchsorted(places, place))
            start = max(position - limit // 2, 0) if offset is None else offset
            following = self._next(places, arranged, wanted, None if near is None else place)
            answer = {
                "version": self.log.decisions.version,
                "total": len(places),
                "offset": start,
                "place": place,
                "position": position,
                "contains": position < len(places) and int(places[position]) == place,
                "next": following,
                "rows": [self._placed(int(p), arranged) for p in places[start : start + limit]],
                "progress": self.queue.state_counts(wanted.verdict, wanted.given, wanted.problem),
            }
            if order == RANDOM:
                answer["spot_check"] = self._spot_check(arranged)
        if near is not None and order not in UNGROUPED:
            rank = int(self.queue.rank_of[near])
            with self._reading, self.log.mutex:
                answer["group"] = group_of(self, arranged, order, wanted, rank)
        return answer

    def _arranged(self, order: str) -> Order:
        if order == WORST:
            return self.orders.get(order)
        with self._reading:  # the first time, contents are compared
            return self.orders.get(order)

    def _spot_check(self, arranged: Order) -> dict[str, Any]:
        """Return the estimate of the noise rate from the decisions in random order."""
        ranked = self.queue.index[arranged.rank]
        events = (self.log.decisions.current(int(index)) for index in ranked)
        found = count_spot_check(None if event is None else event.action for event in events)
        return {**asdict(found), "interval": list(found.interval)}

    def _passing(self, wanted: Filter, reviewer: str) -> npt.NDArray[np.intp]:
        """Return the ranks of samples that pass a filter, including filters by reviewer."""
        if wanted.state not in (DISAGREED, BY_OTHERS):
            return self.queue.ranks(wanted)
        ranks = self.queue.ranks(replace(wanted, state=None))
        is_wanted = self.queue.disagrees.copy()
        if wanted.state == BY_OTHERS:
            is_wanted[:] = False
            is_wanted[self.queue.rank_of[self.log.decisions.undecided_by(reviewer)]] = True
        return np.array([rank for rank in ranks if is_wanted[rank]], dtype=np.intp)

    def _placed(self, place: int, arranged: Order) -> dict[str, Any]:
        rank = int(arranged.rank[place])
        return self.decided.row(rank) | {"place": place, "group": int(arranged.group[rank])}

    def _next(
        self, places: npt.NDArray[Any], arranged: Order, wanted: Filter, place: int | None
    ) -> int | None:
        """Return the next open sample or, in a view of decided samples, the next sample.

        The first sample follows the last one, because the reviewer may have skipped it.
        """
        if wanted.state in (None, STATES[OPEN]):
            places = places[self.queue.state[arranged.rank[places]] == OPEN]
        after = -1 if place is None else place
        places = places[places != after]
        if not len(places):
            return None
        following = places[np.searchsorted(places, after) % len(places)]
        return int(self.queue.index[arranged.rank[following]])

    def sample(self, index: int) -> dict[str, Any]:
        """Return one sample without its image."""
        self.decided.require_sample(index)
        rank = int(self.queue.rank_of[index])
        with self.log.mutex:
            answer = self.decided.row(rank)
        answer |= self._why(index)
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

    def _why(self, index: int) -> dict[str, Any]:
        """Return the evidence on a sample, the most similar samples, and its problems."""
        queue = self.queue
        found = self.evidence.why(index, queue.ids, queue.verdicts.given_label)
        similar = () if found is None else found.similar
        return {
            "why": [] if found is None else list(found.sentences),
            "similar": [
                {
                    "index": other.index,
                    "id": other.id,
                    "label": queue.given_label(other.index),
                    "text": self._beginning(other.index),
                }
                for other in similar
            ],
            "problems": [
                {"title": title, "remark": remark}
                for title, remark in queue.health.problems_of(index)
            ],
        }

    def _beginning(self, index: int) -> str | None:
        """Return the first words of a text, or None for other samples."""
        if self.source.kind != "text":
            return None
        with self._reading:
            text = self.source.view(index).text or ""
        return " ".join(text[: 2 * LONGEST_BEGINNING].split())[:LONGEST_BEGINNING]

    def image(self, index: int, is_small: bool = False) -> tuple[bytes, str]:
        """Return the image of a sample and its media type."""
        self.decided.require_sample(index)
        try:
            with self._reading:
                view = self.source.view(index) if is_small else self.source.close_view(index)
        except (SourceError, OSError, ValueError) as error:
            raise RequestError(f"sample {index} cannot be read: {error}", 404) from error
        if view.image is None or not view.image_type.startswith("image/"):
            raise RequestError(f"sample {index} is not an image", 404)
        return view.image, view.image_type

    def state(self, since: int) -> dict[str, Any]:
        """Return the decisions of all tabs since a version."""
        with self.log.mutex:
            decisions = self.log.decisions
            if since < 0 or since > decisions.version:
                since = 0  # the page has the version of another log
            events = decisions.events[since:]
            indices = sorted({event.index for event in events})
            current = decisions.all_current()
            return {
                "version": decisions.version,
                "actions": Counter(event.action for event in current.values()),
                "reviewers": Counter(
                    name for index in current for name in decisions.opinions(index) if name
                ),
                "disagreements": int(self.queue.disagrees.sum()),
                "is_complete": len(indices) <= MOST_CHANGES,
                "changes": [
                    {key: row[key] for key in ("index", "state", "decision", "opinions")}
                    for index in indices[:MOST_CHANGES]
                    for row in [self.decided.row(int(self.queue.rank_of[index]))]
                ],
            }

    def _check_filter(self, wanted: Filter) -> None:
        if wanted.verdict not in (None, *LABELS):
            raise RequestError(f"verdict must be one of {', '.join(LABELS)}, or all")
        problems = [entry.problem for entry in self.queue.health]
        if wanted.problem not in (None, *problems):
            raise RequestError(f"problem must be one of {', '.join((*problems, 'all'))}")
        states = (*STATES, DISAGREED, BY_OTHERS)
        if wanted.state not in (None, *states):
            raise RequestError(f"decision must be one of {', '.join(states)}, or all")
