"""The rows of a table: what is read of them, and how they are written back with other labels."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.options import did_you_mean

if TYPE_CHECKING:
    import pandas

_BLOCK = 1 << 20


class Rows(ABC):
    """The rows of a table, counted from 0, wherever they come from.

    What is missing is the same for all of them: an empty cell, a null, a key that is not there. In
    a column of numbers the usual words for it (``NA``, ``nan``, ``null``, ``?`` …) are missing,
    too. In a column of texts they are texts: a class may be called ``None``.
    """

    name: str
    """Of the file or the folder, for messages and for what is written."""
    columns: tuple[str, ...]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Columns with their types: numbers, truth values, dates, texts; all of them if None."""

    @abstractmethod
    def raw_labels(self, column: str) -> pandas.Series:
        """A column as labels are read from: numbers, or texts just as they stand there."""

    @abstractmethod
    def texts(self, column: str) -> list[str | None]:
        """A column as texts, as they are in the file; None where there is none."""

    @abstractmethod
    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Names and values of a row, as a person reads them in the file."""

    @abstractmethod
    def checksum(self) -> str:
        """Of everything that is in the rows."""

    @abstractmethod
    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the rows once more, with other labels and without some; all else stays.

        Args:
            path: what to write, in the format of these rows.
            new_labels: by number of the row.
            column: the one with the labels.
            dropped: numbers of the rows to leave out.
        """

    def require_label(self, label: Label, column: str) -> None:  # noqa: B027 (texts take any)
        """Raise a `SourceError` if a column cannot hold a label."""

    def require(self, column: str, option: str) -> str:
        """The name of a column, or a `SourceError` that says which there are.

        Args:
            column: what a person wrote.
            option: where they wrote it, e.g. ``"--label"``.
        """
        if column not in self.columns:
            raise SourceError(
                f"{self.name} has no column {column!r} ({option}): "
                f"{did_you_mean(column, self.columns)}"
            )
        return column


class FileRows(Rows):
    """The rows of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name

    def checksum(self) -> str:
        """Of the bytes of the file."""
        digest = hashlib.blake2b(digest_size=16)
        with self.path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def check_columns(self) -> None:
        """Raise a `SourceError` where two columns have the same name."""
        seen: set[str] = set()
        for column in self.columns:
            if column in seen:
                raise SourceError(
                    f"{self.path} has two columns named {column!r}: give every column its own name"
                )
            seen.add(column)


def as_number(label: Any) -> float | None:
    """A label as a number, or None if it is none."""
    try:
        return float(label)
    except (TypeError, ValueError):
        return None


def number_text(number: float) -> str:
    """A number as a person writes it: whole ones without a point."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 2**53 else repr(number)


def number_of_class(label: Label, column: str, kind: str) -> float:
    """A new label for a column of numbers, or a `SourceError`."""
    number = as_number(label)
    if number is None:
        raise SourceError(
            f"the column {column!r} holds {kind}, and the new label {label!r} is none: "
            "choose another one, or turn the column into texts first"
        )
    return number
