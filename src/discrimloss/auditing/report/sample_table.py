"""The table of all suspicious samples, as compact columns that the page sorts and filters."""

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
"""Largest number of samples in the table, the worst first."""
MOST_VIEWS = 10_000
"""Rows of tables and files are read for so many samples; the others have labels only."""
MOST_PICTURES = 400
LONGEST_ID = 120
ID_BYTES = 4_000_000
"""For all ids: with many samples, the ends of long ids are shown."""
LONGEST_TEXT = 2_000
SHORTEST_TEXT = 20
BYTES = 10_000_000
"""For the whole table without pictures: with many samples, texts are cut shorter."""
BYTES_OF_ROW = 32
"""Labels, verdict, probability and loss of a sample."""
MOST_FIELDS = 40


@dataclass(frozen=True)
class SampleTable:
    """Suspicious samples, worst first."""

    columns: dict[str, Any]
    """The columns in the form that `table.js` reads."""
    rows: int
    """How many samples it has."""
    suspicious: int
    """How many there are."""
    note: str = ""
    """What is left out."""


def make_table(
    samples: pandas.DataFrame, view: View | None, *, is_text: bool = False
) -> SampleTable:
    """The table of the suspicious samples.

    Args:
        samples: as in `ReportRun`.
        view: shows a sample, given its row; None to show labels only.
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
    """The place of a label among all labels of the table; -1 for none."""
    return -1 if is_missing(label) else names.setdefault(label_text(label), len(names))


def thousandths(probability: Any) -> list[float]:
    """Probabilities in thousandths, rounded as `percent` rounds them.

    What is not zero but rounds to it is 0.4, and what is not one but rounds to it is 999.9.
    """
    values = np.nan_to_num(np.asarray(probability, dtype=np.float64))
    rounded = [round(10 * float(f"{100 * value:.1f}")) for value in values.tolist()]
    return [
        0.4 if 0.0 < value < 0.0005 else 999.9 if value < 1.0 and shown == 1000 else shown
        for value, shown in zip(values.tolist(), rounded, strict=True)
    ]


def _losses(values: Any) -> list[float | None]:
    """Losses with the digits that the cards show."""
    return [
        None
        if value is None or not math.isfinite(value)
        else float(format_number(value).replace(",", ""))
        for value in values.tolist()
    ]


def _contents(rows: Rows, view: View, ids: Sequence[str], is_text: bool) -> dict[str, Any]:
    """Texts, fields and images, of as many of the worst samples as there is room for."""
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
    """The beginning of a text, at most so many bytes of it."""
    encoded = text.encode()
    return text if len(encoded) <= size else f"{encoded[:size].decode(errors='ignore')}…"


def _fields(views: Any, room: int) -> dict[str, Any]:
    """Values of the fields, as far as there is room; the names of the fields only once."""
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
        notes.append(f"Of {total:,} suspicious samples these are the {rows:,} worst.")
    shown = max(len(columns.get(name, ())) for name in ("text", "fields", "picture"))
    if 0 < shown < rows:
        what = "Pictures" if "picture" in columns else "Contents"
        notes.append(
            f"{what} of the {shown:,} worst are in this file; the review page has all of them."
        )
    return " ".join(notes)
