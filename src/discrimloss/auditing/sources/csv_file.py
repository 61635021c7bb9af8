"""Tables in CSV files, of any of the usual delimiters."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.auditing.sources.csv_records import (
    BYTE_ORDER_MARK,
    QUOTE,
    open_text,
    records,
    replaced_cell,
)
from discrimloss.auditing.sources.features import require_memory
from discrimloss.auditing.sources.rows import FileRows, arrow, as_number, number_text
from discrimloss.auditing.sources.text_cells import as_numbers, as_texts, typed
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas

DELIMITERS = (",", ";", "\t", "|")
_SNIFFED_RECORDS = 100
_LONGEST_ENDING = 4096  # empty lines behind the last row
_MEMORY_PER_BYTE = 2.5  # cells as Arrow has them, and some of their columns as Python objects


class CsvRows(FileRows):
    """The rows of a CSV file in UTF-8, with a header.

    Args:
        path: its delimiter is one of ``, ; | `` and the tabulator, whichever splits it evenly.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if path.stat().st_size == 0:
            raise SourceError(f"{path} is empty: it needs a header and rows")
        self.delimiter: str = self._checked(lambda: find_delimiter(path))
        self.columns = self._checked(self._header)

    @property
    def decimal_comma(self) -> bool:
        """Whether ``1,5`` can be a number: where commas do not separate cells."""
        return self.delimiter == ";"

    def __len__(self) -> int:
        return int(self._cells.num_rows)

    def frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Columns with their types; all of them if None."""
        names = self.columns if columns is None else columns
        frame: pandas.DataFrame = import_pandas().DataFrame(
            {name: typed(self._cells.column(name), self.decimal_comma) for name in names}
        )
        return frame

    def raw_labels(self, column: str) -> pandas.Series:
        """Numbers, or texts just as they stand in the file."""
        cells = self._cells.column(column)
        numbers = as_numbers(cells, self.decimal_comma)
        labels: pandas.Series = as_texts(cells) if numbers is None else numbers
        return labels

    def texts(self, column: str) -> list[str | None]:
        """A column as it is in the file; None where it is empty."""
        texts: list[str | None] = self._cells.column(column).to_pylist()
        return texts

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Names and cells of a row."""
        [cells] = self._cells.slice(number, 1).to_pylist()
        return tuple((name, cells[name] or "") for name in self.columns)

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the file once more; every cell but a corrected label stays byte for byte."""
        position = self.columns.index(column)
        spell = self._speller(column) if new_labels else str
        dropped = frozenset(dropped)
        number = -1
        with (
            open_text(self.path) as source,
            atomic_write(path) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="") as copy,
        ):
            if self._has_mark:
                copy.write(BYTE_ORDER_MARK)
            all_records = records(source, self.delimiter)
            copy.write(next(record for record in all_records if record.cells).raw)
            for record in all_records:
                raw = record.raw
                if record.cells:
                    number += 1
                    if number in dropped:
                        continue
                    if number in new_labels:
                        text = spell(new_labels[number])
                        raw = replaced_cell(raw, self.delimiter, position, text)
                copy.write(raw)
            if number + 1 != len(self):
                raise self.changed_meanwhile()

    def _speller(self, column: str) -> Callable[[Label], str]:
        """How the file writes a label: ``1.0`` or ``1``, with a point or a comma."""
        spellings = Counter(text for text in self.texts(column) if text is not None)
        by_number: dict[float, str] = {}
        is_numeric = as_numbers(self._cells.column(column), self.decimal_comma) is not None
        has_comma = self.decimal_comma and any("," in text for text in spellings)
        if is_numeric:
            for text, _ in spellings.most_common():
                number = as_number(text.replace(",", ".") if has_comma else text)
                if number is not None:
                    by_number.setdefault(number, text)

        def spell(label: Label) -> str:
            if isinstance(label, str) and label in spellings:
                return label
            number = as_number(label) if is_numeric or not isinstance(label, str) else None
            if number is None:
                return str(label)
            written = number_text(number)
            return by_number.get(number, written.replace(".", ",") if has_comma else written)

        return spell

    @cached_property
    def _has_mark(self) -> bool:
        with self.path.open("rb") as file:
            return file.read(3) == BYTE_ORDER_MARK.encode()

    def _header(self) -> tuple[str, ...]:
        with open_text(self.path) as file:
            for record in records(file, self.delimiter):
                if record.cells:
                    return tuple(record.cells)
        raise SourceError(f"{self.path} is empty: it needs a header and rows")

    @cached_property
    def _cells(self) -> Any:
        """All cells as texts, null where empty."""
        pyarrow, arrow_csv = arrow(), arrow("csv")
        require_memory(_MEMORY_PER_BYTE * self.path.stat().st_size, f"reading {self.path}")
        try:
            cells = arrow_csv.read_csv(
                self.path,
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types={name: pyarrow.string() for name in self.columns},
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
        except (pyarrow.ArrowInvalid, pyarrow.ArrowKeyError, OSError) as error:
            self._checked(self._find_fault)
            reason = str(error).partition("\n")[0]
            raise SourceError(f"cannot read {self.path} as a CSV file: {reason}") from error
        if cells.num_rows and not self._ends_with(cells.column(cells.num_columns - 1)[-1].as_py()):
            self._checked(self._find_fault)
        return cells

    def _ends_with(self, last_cell: str | None) -> bool:
        """Whether the file ends as its last cell does.

        It does not after a quote that is never closed: to Arrow that is one long cell, with all
        rows up to the end in it.
        """
        text = last_cell or ""
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 2 * len(text.encode()) - _LONGEST_ENDING))
            end = file.read().decode("utf-8", errors="replace").rstrip("\r\n")
        quoted = QUOTE + text.replace(QUOTE, 2 * QUOTE) + QUOTE
        before = (self.delimiter, "\n", "\r")
        return end.endswith((quoted, *(character + text for character in before)))

    def _find_fault(self) -> None:
        """Raise a `SourceError` that names the first line with a fault, if one is found."""
        with open_text(self.path) as file:
            for record in records(file, self.delimiter):
                if record.cells and len(record.cells) != len(self.columns):
                    raise SourceError(
                        f"line {record.line} of {self.path} has {len(record.cells)} cells and the "
                        f"header has {len(self.columns)}: mend that line, or put quotes around "
                        f"texts that hold {_delimiter_name(self.delimiter)}"
                    )

    def _checked(self, read: Callable[[], Any]) -> Any:
        """What `read` returns, or a sentence about the line it broke at."""
        try:
            return read()
        except UnicodeDecodeError as error:
            line = first_undecodable_line(self.path)
            raise SourceError(
                f"line {line} of {self.path} is not in UTF-8: save the file as UTF-8"
            ) from error
        except csv.Error as error:
            raise SourceError(f"cannot read {self.path} as a CSV file: {error}") from error


def find_delimiter(path: Path) -> str:
    """The delimiter that splits the first rows evenly, into the most cells."""
    best = (False, 1, DELIMITERS[0])
    for delimiter in DELIMITERS:
        try:
            with open_text(path) as file:
                read = (record.cells for record in records(file, delimiter))
                widths = [len(cells) for cells in islice(read, _SNIFFED_RECORDS) if cells]
        except csv.Error:  # quotes make no sense with it
            continue
        if widths and widths[0] > 1:
            found = (len(set(widths)) == 1, widths[0], delimiter)
            best = max(best, found, key=lambda candidate: candidate[:2])
    return best[2]


def first_undecodable_line(path: Path) -> int:
    """The number of the first line, from 1, that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1


def _delimiter_name(delimiter: str) -> str:
    return "a tabulator" if delimiter == "\t" else repr(delimiter)
