"""Reads the records of CSV files: their characters, their cells, and the positions of cells."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TextIO

from discrimloss.auditing.sources.text_files import Encoding, open_text

DELIMITERS = (",", ";", "\t", "|")
QUOTE = '"'
_SNIFFED_RECORDS = 100


def find_delimiter(path: Path, encoding: Encoding) -> str:
    """Find the delimiter of a file from its first rows.

    A delimiter that splits all of them into the same number of cells is preferred, then the one
    with the most cells in the first row.
    """
    best = (False, 1, DELIMITERS[0])
    for delimiter in DELIMITERS:
        try:
            with open_text(path, encoding) as file:
                read = (record.cells for record in records(file, delimiter))
                widths = [len(cells) for cells in islice(read, _SNIFFED_RECORDS) if cells]
        except csv.Error:  # its quotes do not match
            continue
        if widths and widths[0] > 1:
            found = (len(set(widths)) == 1, widths[0], delimiter)
            best = max(best, found, key=lambda candidate: candidate[:2])
    return best[2]


class Record(NamedTuple):
    """A row of a CSV file."""

    line: int
    """The line in which the row begins, from 1."""
    raw: str
    """The characters of the row, with the line ending."""
    cells: list[str]
    """The cells. Empty for a blank line, which is not a row."""


class _RememberedLines:
    """Passes lines to `csv.reader`, and keeps them until the record is complete."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.taken: list[str] = []

    def __iter__(self) -> _RememberedLines:
        return self

    def __next__(self) -> str:
        line = next(self.file)
        self.taken.append(line)
        return line


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
        if not _is_closed(record.raw, delimiter):  # the file ends inside quotes
            raise csv.Error(f"a quote that opens in line {record.line} is never closed")
    finally:
        csv.field_size_limit(limit)


def cell_spans(raw: str, delimiter: str) -> list[tuple[int, int]]:
    """Return the start and end of each cell of a record, including quotes."""
    spans = []
    begin, position, is_quoted = 0, 0, False
    content = raw.rstrip("\r\n")
    while position < len(content):
        character = content[position]
        if is_quoted:
            if character == QUOTE:
                if content[position + 1 : position + 2] == QUOTE:
                    position += 1  # a doubled quote is an escaped quote
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
    """Return a record with a new text in one cell. Everything else is unchanged."""
    begin, end = cell_spans(raw, delimiter)[number]
    special = (delimiter, QUOTE, "\r", "\n")
    if raw[begin:end].startswith(QUOTE) or any(character in text for character in special):
        text = QUOTE + text.replace(QUOTE, 2 * QUOTE) + QUOTE
    return raw[:begin] + text + raw[end:]


def _is_closed(raw: str, delimiter: str) -> bool:
    """Return whether a record ends outside quotes."""
    begin, end = cell_spans(raw, delimiter)[-1]
    return not raw.startswith(QUOTE, begin) or raw.count(QUOTE, begin, end) % 2 == 0
