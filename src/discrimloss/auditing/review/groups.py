"""The group of a sample as the page shows it: all members in short form."""

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
"""Maximum number of characters of a text or of the values of a row."""


def group_of(
    session: ReviewSession, order: Order, name: str, wanted: Filter, rank: int
) -> dict[str, Any] | None:
    """Return the group of a sample, or None if it has no group or is alone in it.

    Members are all samples that pass the filter by verdict and class, decided or not. Copies of a
    sample are all shown, because their labels may differ.

    Args:
        session: the review.
        order: an order with groups.
        name: name of the order.
        wanted: the filter.
        rank: rank of the sample.
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
