"""Tables: their rows, which can be written back with new labels."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, AnyStr

from discrimloss.auditing.sources.base import (
    Corrections,
    Label,
    SourceError,
    SourceOptions,
    Store,
)
from discrimloss.auditing.sources.values import as_text
from discrimloss.judging.verdicts import import_pandas
from discrimloss.options import did_you_mean

if TYPE_CHECKING:
    import pandas

_BLOCK = 1 << 20


class Rows(ABC):
    """The rows of a table, counted from 0.

    Empty cells, nulls and absent keys are missing values. In a column of numbers, common words such
    as ``NA``, ``nan``, ``null`` and ``?`` are missing values too. In a column of texts, these words
    are texts, because a class may be called ``None``.
    """

    name: str
    """Name in messages."""
    file_name: str
    """Name of the file or the folder that `write` writes."""
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Notes on how the table is read."""
    note_on_corrected: str | None = None
    """A note on the corrected table."""
    has_ids: bool = False
    """Whether `default_ids` are other ids than row numbers."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def series(self, column: str) -> pandas.Series:
        """Return a column with its type: numbers, booleans, dates or texts."""

    def frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Return columns with their types, by default all."""
        names = self.columns if columns is None else columns
        frame: pandas.DataFrame = import_pandas().DataFrame({n: self.series(n) for n in names})
        return frame

    def raw_labels(self, column: str) -> pandas.Series:
        """Return a column for reading labels: numbers, or texts exactly as they are written."""
        return self.series(column)

    def cells(self, column: str) -> list[Any]:
        """Return the values of a column, None if missing."""
        series = self.series(column)
        missing = series.isna().to_numpy()
        return [None if gone else value for value, gone in zip(series, missing, strict=True)]

    def texts(self, column: str) -> list[str | None]:
        """Return a column as texts, None if missing or empty."""
        return [as_text(value) or None for value in self.cells(column)]

    @abstractmethod
    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the names and values of a row as texts."""

    @abstractmethod
    def checksum(self) -> str:
        """Return a checksum that changes whenever a row changes."""

    @abstractmethod
    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the rows with new labels and without dropped rows. Everything else is unchanged.

        Args:
            path: the file to write, in the format of these rows.
            new_labels: new labels, by row.
            column: the column with the labels.
            dropped: rows to leave out.
        """

    def corrected(
        self, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> Any:
        """Like `write`, but return the data. For rows in memory."""
        raise SourceError(f"{self.name} is not in memory: write the corrected data to a file")

    def require_label(self, label: Label, column: str) -> None:  # noqa: B027 (texts take any)
        """Raise a `SourceError` if a column cannot store a label."""

    def default_ids(self) -> list[str]:
        """Return one id per row, if there is no column of ids."""
        return [str(number) for number in range(len(self))]

    def require(self, column: str, option: str) -> str:
        """Return the name of a column, or raise a `SourceError` that lists the columns.

        Args:
            column: the given name.
            option: the option with the name, e.g. ``"--label"``.
        """
        if column not in self.columns:
            raise SourceError(
                f"{self.name} has no column {column!r} ({option}): "
                f"{did_you_mean(column, self.columns)}"
            )
        return column

    def require_rows(self) -> None:
        """Raise a `SourceError` if two columns have the same name, or there are no rows."""
        seen: set[str] = set()
        for column in self.columns:
            if column in seen:
                raise SourceError(
                    f"{self.name} has two columns named {column!r}: column names must be unique"
                )
            seen.add(column)
        if not len(self):
            raise SourceError(f"{self.name} has no rows: there is nothing to audit")


class FileRows(Rows):
    """The rows of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = self.file_name = path.name

    def checksum(self) -> str:
        """Return a checksum of the file's bytes."""
        digest = hashlib.blake2b(digest_size=16)
        with self.path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def corrected_lines(
        self,
        lines: Iterable[tuple[AnyStr, bool]],
        new_labels: Mapping[int, Label],
        dropped: Collection[int],
        relabel: Callable[[AnyStr, Label], AnyStr],
    ) -> Iterator[AnyStr]:
        """Yield the lines of the file with new labels, and without the lines of dropped rows.

        Args:
            lines: the lines, and whether each is a row.
            new_labels: new labels, by row.
            dropped: rows to leave out.
            relabel: function of a line and a label, which returns the line with this label.
        """
        dropped, number = frozenset(dropped), -1
        for line, is_row in lines:
            number += is_row
            if is_row and number in dropped:
                continue
            is_changed = is_row and number in new_labels
            yield relabel(line, new_labels[number]) if is_changed else line
        if number + 1 != len(self):
            raise SourceError(f"{self.path} changed while it was being corrected: try again")


class LabelColumn(Store):
    """A table with a column of labels.

    Args:
        rows: rows of the table.
        options: `label` is the column of labels, and `id` the column of ids, if there is one.
    """

    def __init__(self, rows: Rows, options: SourceOptions) -> None:
        self.rows = rows
        self.name, self.notes = rows.name, rows.notes
        self.file_name, self.note_on_corrected = rows.file_name, rows.note_on_corrected
        self.column = _label_column(rows, options)
        self.id_column = options.id
        if options.id is not None:
            rows.require(options.id, "--id")

    def __len__(self) -> int:
        return len(self.rows)

    def labels(self) -> pandas.Series:
        """Return the column of labels."""
        return self.rows.raw_labels(self.column)

    def ids(self) -> list[str]:
        """Return the column of ids, or the row numbers."""
        if self.id_column is None:
            return self.rows.default_ids()
        return _unique_ids(self.rows, self.id_column)

    @property
    def has_numbered_ids(self) -> bool:
        """Return whether neither a column nor the rows themselves have ids."""
        return self.id_column is None and not self.rows.has_ids

    def checksum(self) -> str:
        """Return the checksum of the rows."""
        return self.rows.checksum()

    def require_label(self, label: Label) -> None:
        """Raise a `SourceError` if the column cannot store this label."""
        self.rows.require_label(label, self.column)

    def write(self, directory: Path, corrections: Corrections) -> list[Path]:
        """Write the same table under the same name."""
        path = directory / self.rows.file_name
        self.rows.write(path, corrections.labels, self.column, corrections.dropped)
        return [path]

    def save(self, path: Path, corrections: Corrections) -> Path:
        """Write the table to this file. For data in memory, the suffix determines the format."""
        if isinstance(self.rows, FileRows):
            return super().save(path, corrections)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.rows.write(path, corrections.labels, self.column, corrections.dropped)
        return path

    def corrected(self, corrections: Corrections) -> Any:
        """Return the table with the corrections, with its original type."""
        return self.rows.corrected(corrections.labels, self.column, corrections.dropped)

    def fields(self, row: int, *hidden: str | None) -> tuple[tuple[str, str], ...]:
        """Return the names and values of a row without its label and hidden columns."""
        names = (self.column, *hidden)
        return tuple(field for field in self.rows.row(row) if field[0] not in names)


def _label_column(rows: Rows, options: SourceOptions) -> str:
    if options.label is None:
        raise SourceError(
            f"choose the column of {rows.name} with the labels, --label COLUMN: "
            f"it has {', '.join(rows.columns)}"
        )
    column = rows.require(options.label, "--label")
    others = {"--id": options.id, "--text": options.text, "--image": options.image}
    for option, other in others.items():
        if other == column:
            raise SourceError(f"--label and {option} name the same column, {column!r}: choose two")
    return column


def _unique_ids(rows: Rows, column: str) -> list[str]:
    first_row: dict[str, int] = {}
    for number, text in enumerate(rows.texts(column)):
        if text is None:
            raise SourceError(
                f"row {number} of {rows.name} (from 0) is empty in the column {column!r}: "
                "give every row an id, or leave out --id"
            )
        if text in first_row:
            raise SourceError(
                f"rows {first_row[text]} and {number} of {rows.name} (from 0) have the same id "
                f"{text!r} in the column {column!r}: ids must differ, or leave out --id"
            )
        first_row[text] = number
    return list(first_row)
