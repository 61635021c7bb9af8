"""The column of a table that says which split a row belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discrimloss.auditing.sources.tables import Rows

SPLIT_COLUMNS = ("split", "subset", "partition", "set", "fold", "usage")
"""A column of one of these names tells which split a row belongs to."""
SPLIT_NAMES = ("train", "test", "val", "dev", "eval", "hold")
"""Splits begin with one of these, unless the column is called split."""
MOST_SPLITS = 20


def find_split_column(rows: Rows, label_column: str | None) -> str | None:
    """The name of the column of splits, if the table has one.

    Args:
        rows: of the table.
        label_column: the one with the labels, which is none.
    """
    for column in rows.columns:
        if column.strip().casefold() not in SPLIT_COLUMNS or column == label_column:
            continue
        distinct = {name for name in rows.texts(column) if name is not None}
        is_usual = all(name.casefold().startswith(SPLIT_NAMES) for name in distinct)
        if 2 <= len(distinct) <= MOST_SPLITS and (is_usual or column.casefold() == "split"):
            return column
    return None
