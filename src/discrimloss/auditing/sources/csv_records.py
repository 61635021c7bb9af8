"""The records of a CSV file with the characters they are written in."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

BYTE_ORDER_MARK = "\ufeff"
QUOTE = '"'


class Record(NamedTuple):
    """A row of a CSV file."""

    line: int
    """The line it begins in, from 1."""
    raw: str
    """As it is in the file, with its line ending."""
    cells: list[str]
    """Empty for an empty line, which is no row."""


class _RememberedLines:
    """Lines for a reader, which takes as many as a record has."""

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
    """A file as it is, without its byte order mark."""
    with path.open(encoding="utf-8", newline="") as file:
        if file.read(1) != BYTE_ORDER_MARK:
            file.seek(0)
        yield file


def records(file: TextIO, delimiter: str) -> Iterator[Record]:
    """All records, the header first.

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
        if not _is_closed(record.raw, delimiter):  # only the end of the file can end such a record
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
    """A record with another text in one cell, and all else as it was."""
    begin, end = cell_spans(raw, delimiter)[number]
    special = (delimiter, QUOTE, "\r", "\n")
    if raw[begin:end].startswith(QUOTE) or any(character in text for character in special):
        text = QUOTE + text.replace(QUOTE, 2 * QUOTE) + QUOTE
    return raw[:begin] + text + raw[end:]


def _is_closed(raw: str, delimiter: str) -> bool:
    """Whether a record ends outside quotes."""
    begin, end = cell_spans(raw, delimiter)[-1]
    return not raw.startswith(QUOTE, begin) or raw.count(QUOTE, begin, end) % 2 == 0
