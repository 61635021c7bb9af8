"""Tables in CSV files with any of the usual delimiters, written back byte for byte."""

from __future__ import annotations

import csv
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.auditing.sources.features import require_memory
from discrimloss.auditing.sources.tables import FileRows
from discrimloss.auditing.sources.values import arrow, as_number, number_text
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas

DELIMITERS = (",", ";", "\t", "|")
BYTE_ORDER_MARK = "\ufeff"
QUOTE = '"'
WORDS_FOR_MISSING = ("na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", "missing")
"""In a column of numbers, in any case. In a column of texts they are texts."""
_SNIFFED_RECORDS = 100
_LONGEST_ENDING = 4096  # empty lines after the last row
_MEMORY_PER_BYTE = 2.5  # cells in Arrow, and some of their columns as Python objects
_WHOLE = r"^[+-]?(0|[1-9][0-9]*)$"
_CODE = r"^[+-]?0[0-9]+$"


class CsvRows(FileRows):
    """The rows of a CSV file in UTF-8, with a header.

    Args:
        path: a file with one of the delimiters ``, ; |`` or tab, whichever splits it evenly.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if path.stat().st_size == 0:
            raise SourceError(f"{path} is empty: it needs a header and rows")
        self.delimiter: str = self._checked(lambda: find_delimiter(path))
        self.columns = self._checked(self._header)

    @property
    def decimal_comma(self) -> bool:
        """Whether ``1,5`` is a number, which commas between cells rule out."""
        return self.delimiter == ";"

    def __len__(self) -> int:
        return int(self._cells.num_rows)

    def series(self, column: str) -> pandas.Series:
        """A column of numbers, booleans or texts."""
        series: pandas.Series = typed(self._cells.column(column), self.decimal_comma)
        return series

    def raw_labels(self, column: str) -> pandas.Series:
        """Numbers, or texts exactly as they are in the file."""
        cells = self._cells.column(column)
        numbers = as_numbers(cells, self.decimal_comma)
        labels: pandas.Series = as_texts(cells) if numbers is None else numbers
        return labels

    def texts(self, column: str) -> list[str | None]:
        """A column as it is in the file, None where empty."""
        texts: list[str | None] = self._cells.column(column).to_pylist()
        return texts

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Names and cells of a row."""
        [cells] = self._cells.slice(number, 1).to_pylist()
        return tuple((name, cells[name] or "") for name in self.columns)

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the file once more. All cells but corrected labels stay byte for byte."""
        position = self.columns.index(column)
        spell = self._speller(column) if new_labels else str

        def relabel(raw: str, label: Label) -> str:
            return replaced_cell(raw, self.delimiter, position, spell(label))

        with (
            open_text(self.path) as source,
            atomic_write(path) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="") as copy,
        ):
            if self._has_mark:
                copy.write(BYTE_ORDER_MARK)
            all_records = records(source, self.delimiter)
            copy.write(next(record for record in all_records if record.cells).raw)
            lines = ((record.raw, bool(record.cells)) for record in all_records)
            copy.writelines(self.corrected_lines(lines, new_labels, dropped, relabel))

    def _speller(self, column: str) -> Callable[[Label], str]:
        """How the file writes a label: ``1.0`` or ``1``, with a decimal point or comma."""
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
        """Whether the file ends with its last cell.

        It does not after a quote that is never closed: Arrow reads all rows after it as one cell.
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
        """Call `read`; turn errors into a sentence that names the line."""
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
    """Find the delimiter that splits the first rows evenly, into the most cells."""
    best = (False, 1, DELIMITERS[0])
    for delimiter in DELIMITERS:
        try:
            with open_text(path) as file:
                read = (record.cells for record in records(file, delimiter))
                widths = [len(cells) for cells in islice(read, _SNIFFED_RECORDS) if cells]
        except csv.Error:  # its quotes do not match
            continue
        if widths and widths[0] > 1:
            found = (len(set(widths)) == 1, widths[0], delimiter)
            best = max(best, found, key=lambda candidate: candidate[:2])
    return best[2]


def first_undecodable_line(path: Path) -> int:
    """The number, from 1, of the first line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1


def _delimiter_name(delimiter: str) -> str:
    return "a tab" if delimiter == "\t" else repr(delimiter)


class Record(NamedTuple):
    """A row of a CSV file."""

    line: int
    """Where it begins, from 1."""
    raw: str
    """Its characters, with the line ending."""
    cells: list[str]
    """Empty for a blank line, which is no row."""


class _RememberedLines:
    """Lines for `csv.reader`, kept until the record is complete."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.taken: list[str] = []

    def __iter__(self) -> _RememberedLines:
        return self

    def __next__(self) -> str:
        line = next(self.file)
        self.taken.append(line)
        return line


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a file without its byte order mark and without translating line ends."""
    with path.open(encoding="utf-8", newline="") as file:
        if file.read(1) != BYTE_ORDER_MARK:
            file.seek(0)
        yield file


def records(file: TextIO, delimiter: str) -> Iterator[Record]:
    """Read all records, the header first.

    Raises:
        csv.Error: a quote is never closed.
    """
    limit = csv.field_size_limit(sys.maxsize)
    try:
        lines = _RememberedLines(file)
        line = 1
        record = Record(0, "", [])
        for cells in csv.reader(lines, delimiter=delimiter):
            record = Record(line, "".join(lines.taken), cells)
            yield record
            line += len(lines.taken)
            lines.taken.clear()
        if not _is_closed(record.raw, delimiter):  # ended by the end of the file
            raise csv.Error(f"a quote that opens in line {record.line} is never closed")
    finally:
        csv.field_size_limit(limit)


def cell_spans(raw: str, delimiter: str) -> list[tuple[int, int]]:
    """Where each cell of a record begins and ends, its quotes included."""
    spans = []
    begin, position, is_quoted = 0, 0, False
    content = raw.rstrip("\r\n")
    while position < len(content):
        character = content[position]
        if is_quoted:
            if character == QUOTE:
                if content[position + 1 : position + 2] == QUOTE:
                    position += 1  # a doubled quote stands for one
                else:
                    is_quoted = False
        elif character == QUOTE and position == begin:
            is_quoted = True
        elif character == delimiter:
            spans.append((begin, position))
            begin = position + 1
        position += 1
    spans.append((begin, len(content)))
    return spans


def replaced_cell(raw: str, delimiter: str, number: int, text: str) -> str:
    """A record with a new text in one cell; all else stays."""
    begin, end = cell_spans(raw, delimiter)[number]
    special = (delimiter, QUOTE, "\r", "\n")
    if raw[begin:end].startswith(QUOTE) or any(character in text for character in special):
        text = QUOTE + text.replace(QUOTE, 2 * QUOTE) + QUOTE
    return raw[:begin] + text + raw[end:]


def _is_closed(raw: str, delimiter: str) -> bool:
    """Whether a record ends outside quotes."""
    begin, end = cell_spans(raw, delimiter)[-1]
    return not raw.startswith(QUOTE, begin) or raw.count(QUOTE, begin, end) % 2 == 0


def as_numbers(cells: Any, decimal_comma: bool = False) -> Any | None:
    """Turn an Arrow column of texts into a series of numbers, or None if they are no numbers.

    A number with leading zeros is a code (``00501``), and so are all others of its column.

    Args:
        cells: texts; null where missing.
        decimal_comma: whether ``1,5`` is a number.
    """
    pyarrow, compute = arrow(), arrow("compute")
    trimmed = compute.utf8_trim_whitespace(cells)
    if decimal_comma:
        trimmed = compute.replace_substring(trimmed, ",", ".")
    words = pyarrow.array(["", *WORDS_FOR_MISSING])
    is_word = compute.is_in(compute.utf8_lower(trimmed), value_set=words)
    numerals = compute.if_else(is_word, None, trimmed)
    if numerals.null_count == len(numerals):
        return None
    if compute.any(compute.match_substring_regex(numerals, _CODE)).as_py():
        return None
    numerals = compute.replace_substring_regex(numerals, r"^\+", "")
    try:
        numbers = compute.cast(numerals, pyarrow.float64())
        if compute.all(compute.match_substring_regex(numerals, _WHOLE)).as_py():
            numbers = compute.cast(numerals, pyarrow.int64())
    except pyarrow.ArrowInvalid:  # not all are numbers, or one has more than 18 digits
        try:
            numbers = compute.cast(numerals, pyarrow.float64())
        except pyarrow.ArrowInvalid:
            return None
    return numbers.to_pandas()


def as_booleans(cells: Any) -> Any | None:
    """Turn an Arrow column of texts into a series of booleans, or None if they are none."""
    pyarrow, compute = arrow(), arrow("compute")
    lowered = compute.utf8_lower(cells)
    is_boolean = compute.is_in(lowered, value_set=pyarrow.array(["true", "false"]))
    if (
        cells.null_count == len(cells)
        or not compute.all(compute.or_(is_boolean, compute.is_null(cells))).as_py()
    ):
        return None
    return compute.equal(lowered, "true").to_pandas().astype("boolean")


def typed(cells: Any, decimal_comma: bool = False) -> Any:
    """Turn an Arrow column of texts into a series of numbers, booleans, or texts."""
    for read in (as_numbers(cells, decimal_comma), as_booleans(cells)):
        if read is not None:
            return read
    return as_texts(cells)


def as_texts(cells: Any) -> Any:
    """Turn an Arrow column of texts into a series of strings, None where missing."""
    return import_pandas().Series(cells.to_pandas().to_numpy(object), dtype=object)
