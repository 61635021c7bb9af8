"""Tables in JSON Lines files, with one object per line."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.auditing.sources.features import require_memory
from discrimloss.auditing.sources.rows import FileRows
from discrimloss.auditing.sources.values import Spelling, as_text
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas

_MARK = b"\xef\xbb\xbf"
_MEMORY_PER_BYTE = 4.0  # as Python objects


class JsonlRows(FileRows):
    """The rows of a JSON Lines file. Its columns are the keys; blank lines are skipped."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if path.stat().st_size == 0:
            raise SourceError(f"{path} is empty: it needs one JSON object per line")
        require_memory(_MEMORY_PER_BYTE * path.stat().st_size, f"reading {path}")
        self._values, self._length = self._read()
        self.columns = tuple(self._values)

    def __len__(self) -> int:
        return self._length

    def frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Columns with their types; all of them if None."""
        names = self.columns if columns is None else columns
        columns_by_name = {name: self._series(name) for name in names}
        frame: pandas.DataFrame = import_pandas().DataFrame(columns_by_name)
        return frame

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Names and values of a row."""
        return tuple((name, as_text(self._values[name][number])) for name in self.columns)

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the file once more. Lines whose label does not change stay byte for byte."""
        spell = Spelling(self._values[column], strict=False)
        dropped = frozenset(dropped)
        number = -1
        with (
            self.path.open("rb") as source,
            atomic_write(path) as unfinished,
            unfinished.open("wb") as copy,
        ):
            for line in source:
                if line.removeprefix(_MARK).strip():
                    number += 1
                    if number in dropped:
                        continue
                    if number in new_labels:
                        line = _with_value(line, column, spell(new_labels[number]))
                copy.write(line)
            if number + 1 != len(self):
                raise self.changed_meanwhile()

    def _read(self) -> tuple[dict[str, list[Any]], int]:
        columns: dict[str, list[Any]] = {}
        number = 0
        with self.path.open("rb") as file:
            for line_number, line in enumerate(file, start=1):
                content = line.removeprefix(_MARK) if line_number == 1 else line
                if not content.strip():
                    continue
                for key, value in self._parsed(content, line_number).items():
                    column = columns.setdefault(key, [])
                    if len(column) < number:  # earlier rows do not have this key
                        column.extend([None] * (number - len(column)))
                    column.append(value)
                number += 1
        for column in columns.values():
            column.extend([None] * (number - len(column)))
        return columns, number

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            content = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise SourceError(
                f"line {number} of {self.path} is not in UTF-8: save the file as UTF-8"
            ) from error
        except ValueError as error:
            raise SourceError(
                f"line {number} of {self.path} is not JSON ({error}): every line must be one object"
            ) from error
        if not isinstance(content, dict):
            raise SourceError(
                f'line {number} of {self.path} is no JSON object: write lines like {{"label": 1}}'
            )
        return content

    def _series(self, column: str) -> Any:
        pandas = import_pandas()
        values = self._values[column]
        kinds = set(map(type, values))
        has_gaps = type(None) in kinds
        kinds.discard(type(None))
        if kinds == {bool}:
            return pandas.Series(values, dtype="boolean")
        if kinds == {int} and not has_gaps and all(abs(value) < 2**63 for value in values):
            return pandas.Series(values, dtype="int64")
        if kinds and kinds <= {int, float}:
            return pandas.Series(values, dtype="float64")
        return pandas.Series(values, dtype=object)


def _with_value(line: bytes, key: str, value: Any) -> bytes:
    """A line with a new value, with the same spaces and escapes."""
    mark = _MARK if line.startswith(_MARK) else b""
    body = line.removeprefix(_MARK)
    content = json.loads(body.decode("utf-8"))
    content[key] = value
    is_spaced = b'": ' in body
    text = json.dumps(
        content,
        ensure_ascii=body.isascii() and b"\\u" in body,
        separators=(", ", ": ") if is_spaced else (",", ":"),
    )
    ending = body[len(body.rstrip(b"\r\n")) :]
    return mark + text.encode("utf-8") + ending
