"""Finds the column of a table with the split of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discrimloss.auditing.sources.tables import Rows

SPLIT_COLUMNS = ("split", "subset", "partition", "set", "fold", "usage")
"""Names of columns with the split of each row."""
SPLIT_NAMES = ("train", "test", "val", "dev", "eval", "hold")
"""Values of splits begin with one of these, unless the column is called split."""
MOST_SPLITS = 20


def find_split_column(rows: Rows, label_column: str | None) -> str | None:
    """Return the name of the column of splits, if the table has one.

    Args:
        rows: rows of the table.
        label_column: the column with the labels, which is not considered.
    """
    for column in rows.columns:
        if column.strip().casefold() not in SPLIT_COLUMNS or column == label_column:
            continue
        distinct = {name for name in rows.texts(column) if name is not None}
        is_usual = all(name.casefold().startswith(SPLIT_NAMES) for name in distinct)
        if 2 <= len(distinct) <= MOST_SPLITS and (is_usual or column.casefold() == "split"):
            return column
    return None
