"""The rows of a table: how they are read, and how they are written back with new labels."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.base import Label, SourceError, SourceOptions, Store
from discrimloss.judging.verdicts import import_pandas
from discrimloss.options import did_you_mean

if TYPE_CHECKING:
    import pandas

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
_BLOCK = 1 << 20


class Rows(ABC):
    """The rows of a table, counted from 0.

    An empty cell, a null and a key that is not there are missing. In a column of numbers the usual
    words for it (``NA``, ``nan``, ``null``, ``?`` …) are missing, too. In a column of texts they
    are texts: a class may be called ``None``.
    """

    name: str
    """For messages."""
    file_name: str
    """Of the file or the folder that `write` writes."""
    columns: tuple[str, ...]
    has_ids: bool = False
    """Whether `default_ids` are more than the numbers of the rows."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Columns with their types: numbers, booleans, dates, texts; all of them if None."""

    def raw_labels(self, column: str) -> pandas.Series:
        """A column for reading labels: numbers, or texts exactly as they are written."""
        return self.frame([column])[column]

    def cells(self, column: str) -> list[Any]:
        """The values of a column, None where missing."""
        series = self.frame([column])[column]
        missing = series.isna().to_numpy()
        return [None if gone else value for value, gone in zip(series, missing, strict=True)]

    def texts(self, column: str) -> list[str | None]:
        """A column as texts, None where missing or empty."""
        return [as_text(value) or None for value in self.cells(column)]

    @abstractmethod
    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Names and values of a row, as texts."""

    @abstractmethod
    def checksum(self) -> str:
        """Changes whenever a row changes."""

    @abstractmethod
    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the rows once more, with new labels and without dropped rows; all else stays.

        Args:
            path: what to write, in the format of these rows.
            new_labels: by row.
            column: the one with the labels.
            dropped: rows to leave out.
        """

    def corrected(
        self, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> Any:
        """Like `write`, but returns the data; for rows in memory."""
        raise SourceError(f"{self.name} is not in memory: write the corrected data to a file")

    def require_label(self, label: Label, column: str) -> None:  # noqa: B027 (texts take any)
        """Raise a `SourceError` if a column cannot hold a label."""

    def default_ids(self) -> list[str]:
        """One id per row where no column names them."""
        return [str(number) for number in range(len(self))]

    def require(self, column: str, option: str) -> str:
        """Return the name of a column, or raise a `SourceError` that lists the columns.

        Args:
            column: the name that was given.
            option: where it was given, e.g. ``"--label"``.
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
                    f"{self.name} has two columns named {column!r}: give every column its own name"
                )
            seen.add(column)
        if not len(self):
            raise SourceError(f"{self.name} holds no rows: there is nothing to audit")


class FileRows(Rows):
    """The rows of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = self.file_name = path.name

    def checksum(self) -> str:
        """Covers every byte of the file."""
        digest = hashlib.blake2b(digest_size=16)
        with self.path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def changed_meanwhile(self) -> SourceError:
        """The error for a file that changes while it is copied."""
        return SourceError(f"{self.path} changed while it was written once more: do it again")


class LabelColumn(Store):
    """A table of which one column holds the labels.

    Args:
        rows: of the table.
        options: `label` names the column, `id` perhaps one with ids.
    """

    def __init__(self, rows: Rows, options: SourceOptions) -> None:
        self.rows = rows
        self.name = rows.name
        self.column = _label_column(rows, options)
        self.id_column = options.id
        if options.id is not None:
            rows.require(options.id, "--id")

    def __len__(self) -> int:
        return len(self.rows)

    def labels(self) -> pandas.Series:
        """The column of labels."""
        return self.rows.raw_labels(self.column)

    def ids(self) -> list[str]:
        """The column of ids, or the numbers of the rows."""
        if self.id_column is None:
            return self.rows.default_ids()
        return _unique_ids(self.rows, self.id_column)

    def checksum(self) -> str:
        """That of the rows."""
        return self.rows.checksum()

    def require_label(self, label: Label) -> None:
        """Raise a `SourceError` if the column cannot hold this label."""
        self.rows.require_label(label, self.column)

    def write(
        self, directory: Path, new_labels: Mapping[int, Label], dropped: Collection[int]
    ) -> list[Path]:
        """Write the same table under the same name."""
        path = directory / self.rows.file_name
        self.rows.write(path, new_labels, self.column, dropped)
        return [path]

    def save(self, path: Path, new_labels: Mapping[int, Label], dropped: Collection[int]) -> Path:
        """Write the table to a file with this name, which says the format of data in memory."""
        if isinstance(self.rows, FileRows):
            return super().save(path, new_labels, dropped)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.rows.write(path, new_labels, self.column, dropped)
        return path

    def corrected(self, new_labels: Mapping[int, Label], dropped: Collection[int]) -> Any:
        """The table with the corrections, of the type that it was given in."""
        return self.rows.corrected(new_labels, self.column, dropped)

    def fields(self, row: int, *hidden: str | None) -> tuple[tuple[str, str], ...]:
        """Names and values of a row without its label and without hidden columns."""
        names = (self.column, *hidden)
        return tuple(field for field in self.rows.row(row) if field[0] not in names)


def _label_column(rows: Rows, options: SourceOptions) -> str:
    if options.label is None:
        raise SourceError(
            f"say which column of {rows.name} holds the labels, --label COLUMN: "
            f"it has {', '.join(rows.columns)}"
        )
    column = rows.require(options.label, "--label")
    others = {"--id": options.id, "--text": options.text, "--image": options.image}
    for option, other in others.items():
        if other == column:
            raise SourceError(f"--label and {option} name the same column, {column!r}: name two")
    return column


def _unique_ids(rows: Rows, column: str) -> list[str]:
    first_row: dict[str, int] = {}
    for number, text in enumerate(rows.texts(column)):
        if text is None:
            raise SourceError(
                f"row {number} of {rows.name} (from 0) has nothing in the column {column!r}: "
                "every row needs an id, or leave out --id"
            )
        if text in first_row:
            raise SourceError(
                f"rows {first_row[text]} and {number} of {rows.name} (from 0) have the same id "
                f"{text!r} in the column {column!r}: ids must differ, or leave out --id"
            )
        first_row[text] = number
    return list(first_row)


def arrow(module: str | None = None) -> Any:
    """Import Arrow or one of its modules, as `Any`: most of its functions have no types."""
    import_pandas()  # its message names the extra that installs both
    return importlib.import_module("pyarrow" if module is None else f"pyarrow.{module}")


def is_a(data: Any, module: str, name: str) -> bool:
    """Whether data is of a class of a library, which is not imported for that."""
    library = sys.modules.get(module)
    return library is not None and isinstance(data, getattr(library, name))


def kept_rows(num_rows: int, dropped: Collection[int]) -> npt.NDArray[np.int64]:
    """The numbers of all rows that are not dropped."""
    keep = np.ones(num_rows, bool)
    keep[list(dropped)] = False
    return np.flatnonzero(keep)


def as_number(label: Any) -> float | None:
    """A label as a number, or None if it is none."""
    try:
        return float(label)
    except (TypeError, ValueError):
        return None


def as_text(value: Any) -> str:
    """A value of a table as a text, empty if missing."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, np.ndarray):
        return str(value.tolist())
    if import_pandas().isna(value):
        return ""
    return number_text(value) if isinstance(value, float) else str(value)


def number_text(number: float) -> str:
    """A number as a text, a whole one without a decimal point."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 2**53 else repr(number)
