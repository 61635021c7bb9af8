"""The table of all suspicious samples, in compact columns that the page sorts and filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.report.gallery import (
    FIELD_LENGTH,
    Rows,
    View,
    format_number,
    is_missing,
    label_text,
    shortened,
    small_picture,
    worst_first,
)
from discrimloss.auditing.report.passage import passage
from discrimloss.auditing.sources.contents import SampleView

if TYPE_CHECKING:
    import pandas

SUSPICIOUS = ("incorrect", "undecided", "hard")
FEWEST_ROWS = 100
"""Smallest number of samples in the table, whatever their verdicts."""
MOST_ROWS = 100_000
"""Largest number of samples in the table, most suspicious first."""
MOST_VIEWS = 10_000
"""Maximum number of samples whose tables or files are read. The others have only labels."""
MOST_PICTURES = 400
LONGEST_ID = 120
ID_BYTES = 4_000_000
"""Maximum size of all ids, in bytes. With many samples, only the ends of long ids are shown."""
LONGEST_TEXT = 2_000
SHORTEST_TEXT = 20
BYTES = 10_000_000
"""Maximum size of the table without images, in bytes. With many samples, texts are shorter."""
BYTES_OF_ROW = 32
"""Size of labels, verdict, probability and loss of a sample, in bytes."""
MOST_FIELDS = 40


@dataclass(frozen=True)
class SampleTable:
    """Suspicious samples, most suspicious first."""

    columns: dict[str, Any]
    """The columns in the format of `table.js`."""
    rows: int
    """Number of samples in the table."""
    suspicious: int
    """Number of all suspicious samples."""
    note: str = ""
    """A note on what is left out."""


def make_table(
    samples: pandas.DataFrame, view: View | None, *, is_text: bool = False
) -> SampleTable:
    """Return the table of the suspicious samples.

    Args:
        samples: as in `ReportRun`.
        view: returns the view of a sample by its row; None to show only labels.
        is_text: whether views are texts, which are quick to read.
    """
    order = worst_first(samples)
    verdict = samples["verdict"].to_numpy().astype(str)
    is_suspicious = np.isin(verdict[order], SUSPICIOUS)
    is_suspicious[:FEWEST_ROWS] = True
    rows = order[is_suspicious][:MOST_ROWS]
    chosen = samples.iloc[rows]
    names: dict[str, int] = {}
    columns = {
        "index": rows.tolist(),
        "id": _ids(chosen["id"]),
        "given": [_place(names, value) for value in chosen["given"]],
        "suggested": [_place(names, value) for value in chosen["suggested"]],
        "verdict": chosen["verdict"].astype(str).tolist(),
        "p": thousandths(chosen["p_incorrect"]),
        "loss": _losses(chosen["average_loss"]),
        "labels": [],
    }
    columns["labels"] = list(names)
    columns |= _contents(rows, view, columns["id"], is_text) if view is not None else {}
    total = int(is_suspicious.sum())
    return SampleTable(columns, len(rows), total, _note(total, len(rows), columns))


def _ids(values: Any) -> list[str]:
    longest = min(LONGEST_ID, max(20, ID_BYTES // max(len(values), 1)))
    ids = [str(value) for value in values]
    return [id if len(id) <= longest else f"…{id[1 - longest :]}" for id in ids]


def _place(names: dict[str, int], label: Any) -> int:
    """Return the position of a label among all labels of the table, or -1 for none."""
    return -1 if is_missing(label) else names.setdefault(label_text(label), len(names))


def thousandths(probability: Any) -> list[float]:
    """Return probabilities in thousandths, rounded as by `percent`.

    Probabilities above 0 that round to 0 become 0.4. Those below 1 that round to 1000 become 999.9.
    """
    values = np.nan_to_num(np.asarray(probability, dtype=np.float64))
    rounded = [round(10 * float(f"{100 * value:.1f}")) for value in values.tolist()]
    return [
        0.4 if 0.0 < value < 0.0005 else 999.9 if value < 1.0 and shown == 1000 else shown
        for value, shown in zip(values.tolist(), rounded, strict=True)
    ]


def _losses(values: Any) -> list[float | None]:
    """Return losses with the digits that the cards show."""
    return [
        None
        if value is None or not math.isfinite(value)
        else float(format_number(value).replace(",", ""))
        for value in values.tolist()
    ]


def _contents(rows: Rows, view: View, ids: Sequence[str], is_text: bool) -> dict[str, Any]:
    """Return texts, fields and images of as many of the most suspicious samples as fit."""
    if not len(rows):
        return {}
    first = view(int(rows[0]))
    number = MOST_ROWS if is_text else MOST_VIEWS
    if first.image is not None:
        number = MOST_PICTURES
    views = chain([first], (view(int(row)) for row in rows[1:number]))
    if first.image is not None:
        return _pictures(views)
    room = BYTES - sum(len(id.encode()) + 3 + BYTES_OF_ROW for id in ids)
    if first.text is None:
        return _fields(views, room)
    texts = [passage((shown.text or "")[: 10 * LONGEST_TEXT]) for shown in views]
    sizes = [len(text[:LONGEST_TEXT].encode()) for text in texts]
    longest = LONGEST_TEXT
    while sum(min(size, longest) for size in sizes) > room and longest > SHORTEST_TEXT:
        longest = max(longest * 3 // 4, SHORTEST_TEXT)
    return {"text": [_cut(text, longest) for text in texts]}


def _cut(text: str, size: int) -> str:
    """Return the beginning of a text, at most this number of bytes."""
    encoded = text.encode()
    return text if len(encoded) <= size else f"{encoded[:size].decode(errors='ignore')}…"


def _fields(views: Any, room: int) -> dict[str, Any]:
    """Return the field names, and the values of the fields of as many samples as fit."""
    names: list[str] = []
    values: list[list[str]] = []
    for shown in views:
        fields = shown.fields[:MOST_FIELDS]
        if not names:
            names = [shortened(name, FIELD_LENGTH) for name, _ in fields]
        row = [shortened(value, FIELD_LENGTH) for _, value in fields]
        room -= sum(len(value.encode()) + 3 for value in row)
        if room < 0:
            break
        values.append(row)
    return {"field_names": names, "fields": values}


def _pictures(views: Any) -> dict[str, Any]:
    found = [_picture(shown) for shown in views]
    tiny = [bool(entry and entry[1]) for entry in found]
    return {"picture": [entry[0] if entry else "" for entry in found], "tiny": any(tiny)}


def _picture(shown: SampleView) -> tuple[str, bool] | None:
    return None if shown.image is None else small_picture(shown.image)


def _note(total: int, rows: int, columns: dict[str, Any]) -> str:
    notes = []
    if total > rows:
        notes.append(f"The table has the {rows:,} most suspicious of {total:,} samples.")
    shown = max(len(columns.get(name, ())) for name in ("text", "fields", "picture"))
    if 0 < shown < rows:
        what = "Pictures" if "picture" in columns else "Contents"
        notes.append(
            f"{what} of the {shown:,} most suspicious are in this file; the review page has all."
        )
    return " ".join(notes)
