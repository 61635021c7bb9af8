"""Tables in CSV files with any common delimiter. Unchanged cells are written back byte for byte."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.auditing.sources.csv_records import QUOTE, find_delimiter, records, replaced_cell
from discrimloss.auditing.sources.features import require_memory
from discrimloss.auditing.sources.numerals import (
    WORDS_FOR_MISSING,
    NumberStyle,
    find_style,
    is_doubtful,
)
from discrimloss.auditing.sources.tables import FileRows
from discrimloss.auditing.sources.text_files import (
    PACKED,
    find_encoding,
    first_undecodable_line,
    open_bytes,
    open_text,
)
from discrimloss.auditing.sources.values import arrow, as_number, number_text
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas

_LONGEST_ENDING = 4096  # maximum size of the empty lines after the last row, in bytes
_MEMORY_PER_BYTE = 2.5  # cells in Arrow, and some of their columns as Python objects
_PACKED = 6.0  # ratio of the unpacked size to the compressed size
_WHOLE = r"^[+-]?(0|[1-9][0-9]*)$"
_CODE = r"^[+-]?0[0-9]+$"


class CsvRows(FileRows):
    """The rows of a CSV file with a header, in any common encoding, compressed or not.

    Args:
        path: a file with the delimiter ``,``, ``;``, ``|`` or tab. The delimiter is detected.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if path.stat().st_size == 0:
            raise SourceError(f"{path} is empty: it needs a header and rows")
        self.encoding = find_encoding(path)
        if not self.encoding.is_usual:
            self.notes = (f"{path.name} is read in the encoding {self.encoding.name}",)
        self.delimiter: str = self._checked(lambda: find_delimiter(path, self.encoding))
        self.columns = self._checked(self._header)

    @property
    def decimal_comma(self) -> bool:
        """Whether ``1,5`` may be a number: only if semicolons separate the cells."""
        return self.delimiter == ";"

    def __len__(self) -> int:
        return int(self._cells.num_rows)

    def series(self, column: str) -> pandas.Series:
        """Return a column as numbers, booleans or texts.

        Numbers whose points may all separate thousands remain texts.
        """
        cells = self._cells.column(column)
        if _is_doubtful(cells):
            return as_texts(cells)
        series: pandas.Series = typed(cells, self.decimal_comma)
        return series

    def raw_labels(self, column: str) -> pandas.Series:
        """Return numbers, or texts exactly as they are in the file."""
        cells = self._cells.column(column)
        style = self._label_style(column)
        if style is not None:
            return import_pandas().Series(style.numbers(as_texts(cells)))
        numbers = as_numbers(cells, self.decimal_comma)
        labels: pandas.Series = as_texts(cells) if numbers is None else numbers
        return labels

    def _label_style(self, column: str) -> NumberStyle | None:
        """Return the style of labels that are numbers with thousands separators or units."""
        cells = self._cells.column(column)
        if not _is_doubtful(cells) and as_numbers(cells, self.decimal_comma) is not None:
            return None
        style = find_style(cells.unique().drop_null().to_pylist(), self.decimal_comma or None)
        return None if style is None or style.is_plain else style

    def texts(self, column: str) -> list[str | None]:
        """Return a column as it is in the file, None if empty."""
        texts: list[str | None] = self._cells.column(column).to_pylist()
        return texts

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the names and cells of a row."""
        [cells] = self._cells.slice(number, 1).to_pylist()
        return tuple((name, cells[name] or "") for name in self.columns)

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the file. All cells except corrected labels are identical byte for byte."""
        position = self.columns.index(column)
        spell = self._speller(column) if new_labels else str

        def relabel(raw: str, label: Label) -> str:
            return replaced_cell(raw, self.delimiter, position, spell(label))

        with (
            open_text(self.path, self.encoding) as source,
            atomic_write(path) as unfinished,
            open_bytes(unfinished, "wb", self.path) as content,
        ):
            content.write(self.encoding.mark)
            copy = io.TextIOWrapper(content, encoding=self.encoding.name, newline="")
            all_records = records(source, self.delimiter)
            copy.write(next(record for record in all_records if record.cells).raw)
            lines = ((record.raw, bool(record.cells)) for record in all_records)
            copy.writelines(self.corrected_lines(lines, new_labels, dropped, relabel))
            copy.flush()
            copy.detach()

    def require_label(self, label: Label, column: str) -> None:
        """Raise a `SourceError` if the encoding of the file cannot represent a label."""
        try:
            str(label).encode(self.encoding.name)
        except UnicodeEncodeError as error:
            raise SourceError(
                f"{self.name} is in the encoding {self.encoding.name}, which cannot write "
                f"{label!r}: choose another label, or save the file as UTF-8 and audit it again"
            ) from error

    def _speller(self, column: str) -> Callable[[Label], str]:
        """Return a function that writes labels as the file does, e.g. ``1.0``, ``1`` or ``1,0``."""
        spellings = Counter(text for text in self.texts(column) if text is not None)
        style = self._label_style(column)
        if style is not None:
            return lambda label: style.write(float(label))
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

    def _header(self) -> tuple[str, ...]:
        with open_text(self.path, self.encoding) as file:
            for record in records(file, self.delimiter):
                if record.cells:
                    return tuple(record.cells)
        raise SourceError(f"{self.path} is empty: it needs a header and rows")

    @cached_property
    def _cells(self) -> Any:
        """Return all cells as texts, null if empty."""
        pyarrow, arrow_csv = arrow(), arrow("csv")
        size = self.path.stat().st_size * (_PACKED if self._is_packed else 1.0)
        require_memory(_MEMORY_PER_BYTE * size, f"reading {self.path}")
        try:
            cells = arrow_csv.read_csv(
                open_bytes(self.path) if self._is_packed else self.path,
                read_options=arrow_csv.ReadOptions(encoding=self._codec),
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

    @property
    def _is_packed(self) -> bool:
        return self.path.suffix.lower() in PACKED

    @property
    def _codec(self) -> str:
        """Return the name of the encoding for Arrow.

        Arrow itself skips only the byte order mark of UTF-8. For UTF-16 and UTF-32 with a mark, the
        name is therefore that of the codec that skips it.
        """
        name = self.encoding.name
        return name[:6] if self.encoding.mark and not self.encoding.is_usual else name

    def _ends_with(self, last_cell: str | None) -> bool:
        """Return whether the end of the file is the last cell that Arrow read.

        It is not if a quote was never closed, because Arrow reads all later rows as one cell.
        """
        text = last_cell or ""
        if self._is_packed or not self.encoding.is_usual:
            return False  # unknown, so the caller looks for faulty lines
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 2 * len(text.encode()) - _LONGEST_ENDING))
            end = file.read().decode("utf-8", errors="replace").rstrip("\r\n")
        quoted = QUOTE + text.replace(QUOTE, 2 * QUOTE) + QUOTE
        before = (self.delimiter, "\n", "\r")
        return end.endswith((quoted, *(character + text for character in before)))

    def _find_fault(self) -> None:
        """Raise a `SourceError` that names the first faulty line, if there is one."""
        with open_text(self.path, self.encoding) as file:
            for record in records(file, self.delimiter):
                if record.cells and len(record.cells) != len(self.columns):
                    raise SourceError(
                        f"line {record.line} of {self.path} has {len(record.cells)} cells and the "
                        f"header has {len(self.columns)}: fix that line, or quote "
                        f"texts that contain {_delimiter_name(self.delimiter)}"
                    )

    def _checked(self, read: Callable[[], Any]) -> Any:
        """Call `read`, and turn errors into a sentence that names the line."""
        try:
            return read()
        except UnicodeDecodeError as error:
            line = first_undecodable_line(self.path)
            raise SourceError(
                f"line {line} of {self.path} is not in UTF-8: save the file as UTF-8"
            ) from error
        except csv.Error as error:
            raise SourceError(f"cannot read {self.path} as a CSV file: {error}") from error


def _delimiter_name(delimiter: str) -> str:
    return "a tab" if delimiter == "\t" else repr(delimiter)


def as_numbers(cells: Any, decimal_comma: bool = False) -> Any | None:
    """Turn an Arrow column of texts into a series of numbers, or return None if that fails.

    A column with leading zeros contains codes (``00501``), not numbers.

    Args:
        cells: texts, null if missing.
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
    except pyarrow.ArrowInvalid:  # some are not numbers, or have more than 18 digits
        try:
            numbers = compute.cast(numerals, pyarrow.float64())
        except pyarrow.ArrowInvalid:
            return None
    return numbers.to_pandas()


def _is_doubtful(cells: Any) -> bool:
    """Return whether all points may be thousands separators. See `is_doubtful`."""
    compute = arrow("compute")
    has_point = compute.match_substring_regex(cells, r"^[+-]?[1-9][0-9]{0,2}\.[0-9]{3}$")
    if not compute.any(has_point).as_py():
        return False
    return is_doubtful(cells.unique().drop_null().to_pylist())


def as_booleans(cells: Any) -> Any | None:
    """Turn an Arrow column of texts into a series of booleans, or return None if that fails."""
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
    """Turn an Arrow column of texts into a series of strings, None if missing."""
    return import_pandas().Series(cells.to_pandas().to_numpy(object), dtype=object)
