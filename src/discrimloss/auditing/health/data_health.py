"""Problems of the data besides its labels, with one entry for each kind."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas

CONFLICTING, ACROSS_SPLITS, EXACT, NEAR, OUTLIERS, RARE, BROKEN, ORDER = (
    "conflicting_duplicates",
    "duplicates_across_splits",
    "exact_duplicates",
    "near_duplicates",
    "outliers",
    "rare_classes",
    "broken_samples",
    "row_order",
)
TITLES = {
    CONFLICTING: "duplicates with different labels",
    ACROSS_SPLITS: "duplicates across splits",
    EXACT: "exact duplicates",
    NEAR: "near duplicates",
    OUTLIERS: "outliers",
    RARE: "rare classes",
    BROKEN: "empty or broken samples",
    ORDER: "rows out of order",
}
"""Titles of all kinds of problems, the most serious first."""
ADVICE = {
    CONFLICTING: "At most one of the labels is right: decide which.",
    ACROSS_SPLITS: "Test results are too good: remove them from one of the splits.",
    EXACT: "Keep one of each group, unless they are repeated on purpose.",
    NEAR: "Keep them in the same split, or keep one of each group.",
    OUTLIERS: "Check whether they belong to this data.",
    RARE: "Collect more samples, or merge classes; models hardly learn them.",
    BROKEN: "Repair or drop them.",
    ORDER: "Shuffle the rows before splitting them.",
}
HEALTHY = "no duplicates, outliers, rare classes, broken samples or rows out of order were found."
"""Text that is shown if there is no entry."""
COLUMNS = ("problem", "id", "index", "group", "remark")
"""Columns of ``health.csv`` and of `DataHealth.to_pandas`."""
IDS_IN_SUMMARY = 20
NO_INDEX = -1
"""Index of rows that were left out of the audit."""


@dataclass(frozen=True)
class HealthEntry:
    """One kind of problem, and the samples that have it."""

    problem: str
    """One of `TITLES`."""
    detail: str
    """The finding, as a sentence."""
    ids: tuple[str, ...]
    """The ids of the samples, group by group or most severe first."""
    index: tuple[int, ...]
    """The positions of the samples. -1 for a row that was left out of the audit."""
    group: tuple[int, ...] = ()
    """The group number of each sample. Empty without groups."""
    remarks: tuple[str, ...] = ()
    """A remark on each sample. Empty without remarks."""

    @property
    def title(self) -> str:
        """The name of the problem for users."""
        return TITLES[self.problem]

    @property
    def advice(self) -> str:
        """What to do, as a sentence."""
        return ADVICE[self.problem]

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self) -> Iterator[tuple[str, str, int, int | None, str]]:
        """Yield one row per sample, with the columns `COLUMNS`."""
        for place, (name, index) in enumerate(zip(self.ids, self.index, strict=True)):
            group = self.group[place] if self.group else None
            yield self.problem, name, index, group, self.remarks[place] if self.remarks else ""

    def first_rows(self, number: int) -> list[tuple[str, str, int, int | None, str]]:
        """Return the rows of the first samples."""
        return list(islice(self.rows(), number))

    def row_index(self) -> npt.NDArray[np.int64]:
        """Return the positions of the samples that were audited."""
        return np.array([place for place in self.index if place != NO_INDEX], dtype=np.int64)


class DataHealth(Sequence[HealthEntry]):
    """Problems of the data besides its labels. Empty if there are none.

    Entries are accessed by position or by the name of a problem, such as ``"outliers"``.

    Args:
        entries: the entries, most serious first.
        notes: sentences about limits of the checks.
    """

    def __init__(self, entries: Sequence[HealthEntry] = (), notes: Sequence[str] = ()) -> None:
        self.entries, self.notes = tuple(entries), tuple(notes)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, str):
            if which not in TITLES:
                raise KeyError(f"there is no problem {which!r}: {', '.join(TITLES)}")
            found = [entry for entry in self.entries if entry.problem == which]
            return found[0] if found else HealthEntry(which, "None was found.", (), ())
        return self.entries[which]

    def problems_of(self, index: int) -> list[tuple[str, str]]:
        """Return the problems of one sample: titles, and remarks or groups."""
        return self._problems.get(index, [])

    def duplicate_groups(self, samples: int) -> npt.NDArray[np.int64]:
        """Return the group of exact or near duplicates of each sample, or -1.

        Groups that have a sample in common are merged.

        Args:
            samples: number of audited samples.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        index, group, groups = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        for problem in (EXACT, CONFLICTING, ACROSS_SPLITS, NEAR):
            entry: HealthEntry = self[problem]
            place = np.array(entry.index, np.int64)
            own = np.array(entry.group, np.int64)[place != NO_INDEX]
            index, group = [*index, place[place != NO_INDEX]], [*group, own + groups]
            groups += own.max(initial=-1) + 1
        rows, columns = np.concatenate(index), np.concatenate(group) + samples
        edges = coo_array((np.ones(len(rows)), (rows, columns)), shape=[samples + groups] * 2)
        found = connected_components(edges, directed=False)[1][:samples].astype(np.int64)
        return np.where(np.isin(np.arange(samples), rows), found, -1)

    @cached_property
    def _problems(self) -> dict[int, list[tuple[str, str]]]:
        found: dict[int, list[tuple[str, str]]] = {}
        for entry in self.entries:
            for _, _, index, group, remark in entry.rows():
                words = remark or ("" if group is None else f"group {group + 1}")
                found.setdefault(index, []).append((entry.title, words))
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """Return one row per problem and sample: problem, id, index, group and remark."""
        import pandas

        rows = [row for entry in self.entries for row in entry.rows()]
        frame = pandas.DataFrame(rows, columns=list(COLUMNS))
        return frame.astype({"index": "int64", "group": "Int64"})

    def to_csv(self) -> str:
        """Return `to_pandas` as the text of ``health.csv``."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for entry in self.entries:
            writer.writerows(
                ("" if value is None or value == NO_INDEX else value for value in row)
                for row in entry.rows()
            )
        return text.getvalue()

    def to_summary(self) -> list[dict[str, Any]]:
        """Return the entries for ``summary.json``, each with its first samples."""
        return [
            {
                "problem": entry.problem,
                "title": entry.title,
                "samples": len(entry),
                "detail": entry.detail,
                "advice": entry.advice,
                "ids": list(entry.ids[:IDS_IN_SUMMARY]),
            }
            for entry in self.entries
        ]

    @classmethod
    def read(cls, summary: Sequence[dict[str, Any]], table: str) -> DataHealth:
        """Read the summary of an audit and the text of its ``health.csv``."""
        rows: dict[str, list[dict[str, str]]] = {}
        for row in csv.DictReader(io.StringIO(table)):
            rows.setdefault(row["problem"], []).append(row)
        entries = []
        for entry in summary:
            found = rows.get(entry["problem"], [])
            has_groups = any(row["group"] for row in found)
            has_remarks = any(row["remark"] for row in found)
            entries.append(
                HealthEntry(
                    entry["problem"],
                    entry["detail"],
                    tuple(row["id"] for row in found),
                    tuple(int(row["index"] or NO_INDEX) for row in found),
                    tuple(int(row["group"]) for row in found) if has_groups else (),
                    tuple(row["remark"] for row in found) if has_remarks else (),
                )
            )
        return cls(entries)

    def __repr__(self) -> str:
        if not self.entries:
            return "DataHealth(no problem was found)"
        lines = (f"  {entry.title}: {len(entry):,}. {entry.detail}" for entry in self.entries)
        return "\n".join(["DataHealth(", *lines, ")"])
