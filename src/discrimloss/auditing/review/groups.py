"""The group of a sample, as the page shows it: all members with a glimpse of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.review.orders import DUPLICATES, Order
from discrimloss.auditing.review.queue import Filter
from discrimloss.auditing.sources.base import SourceError

if TYPE_CHECKING:
    from discrimloss.auditing.review.session import ReviewSession

GLIMPSE = 160
"""Characters of a text, or of the values of a row."""


def group_of(
    session: ReviewSession, order: Order, name: str, wanted: Filter, rank: int
) -> dict[str, Any] | None:
    """The group of a sample; None if it is in none, or alone in it.

    Members are the samples that pass the filter by verdict and class, whatever is decided on them.
    Copies of a sample are all shown: what tells them apart is the label.

    Args:
        session: the review.
        order: with groups.
        name: of the order.
        wanted: the filter.
        rank: of the sample.
    """
    number = int(order.group[rank])
    if number < 0:
        return None
    passing = session.queue.ranks(replace(wanted, state=None))
    members = np.flatnonzero(order.group == number)
    if name != DUPLICATES:
        members = np.intersect1d(members, passing)
    if len(members) < 2:
        return None
    numbers = np.unique(order.group[passing])
    numbers = numbers[numbers >= 0]
    rows = []
    for member in members[np.argsort(order.place[members])].tolist():
        row = session.decided.row(member)
        row["glimpse"] = _glimpse(session, row["index"])
        rows.append(row)
    return {
        "number": int(np.searchsorted(numbers, number)) + 1,
        "groups": len(numbers),
        "rows": rows,
    }


def _glimpse(session: ReviewSession, index: int) -> str:
    if session.source.kind == "images":
        return ""
    try:
        view = session.source.view(index)
    except (SourceError, OSError, ValueError):
        return ""
    if view.text is not None:
        return " ".join(view.text[: 2 * GLIMPSE].split())[:GLIMPSE]
    fields = [f"{name} {value}" for name, value in view.fields]
    return " · ".join(fields)[:GLIMPSE]
