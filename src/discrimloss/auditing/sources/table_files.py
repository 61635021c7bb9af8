"""Tables in files: JSON Lines and Parquet here, other formats in other modules."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.auditing.sources.csv_file import CsvRows
from discrimloss.auditing.sources.features import require_memory
from discrimloss.auditing.sources.frame_files import (
    DATABASES,
    DatabaseRows,
    ExcelRows,
    FeatherRows,
    JsonRows,
)
from discrimloss.auditing.sources.tables import FileRows, Rows
from discrimloss.auditing.sources.text_files import PACKED, open_bytes, table_suffix
from discrimloss.auditing.sources.values import (
    Spelling,
    arrow,
    arrow_series,
    arrow_value,
    as_text,
    kept_rows,
    relabelled_column,
)
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas

_MARK = b"\xef\xbb\xbf"
_JSON_MEMORY_PER_BYTE = 4.0  # as Python objects
_PARQUET_MEMORY_PER_BYTE = 2.0  # ratio to the size of the uncompressed columns


def open_table_file(path: Path, query: str | None = None) -> Rows:
    """Open the rows of a table. The suffix of the path determines the format.

    Args:
        path: path of the file.
        query: the sheet of a workbook, or the table or query of a database.

    Raises:
        SourceError: the file is damaged or has no rows.
    """
    suffix, is_packed = table_suffix(path), path.suffix.lower() in PACKED
    if suffix not in TABLE_FORMATS or (is_packed and suffix not in TEXT_FORMATS):
        raise SourceError(
            f"cannot read {path} as a table: its name must end in {', '.join(TABLE_FORMATS)}, and "
            f"{', '.join(TEXT_FORMATS)} may be compressed ({', '.join(PACKED)})"
        )
    if query is not None and suffix not in (*WORKBOOKS, *DATABASES):
        raise SourceError(f"--query does not fit {path}: it is for databases and workbooks")
    rows: Rows
    if suffix in DATABASES:
        rows = DatabaseRows(str(path), query)
    elif suffix in WORKBOOKS:
        rows = ExcelRows(path, query)
    else:
        rows = TABLE_FORMATS[suffix](path)
    rows.require_rows()
    return rows


class JsonlRows(FileRows):
    """The rows of a JSON Lines file. Columns are the keys. Blank lines are skipped."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if path.stat().st_size == 0:
            raise SourceError(f"{path} is empty: it needs one JSON object per line")
        require_memory(_JSON_MEMORY_PER_BYTE * path.stat().st_size, f"reading {path}")
        self._values, self._length = self._read()
        self.columns = tuple(self._values)

    def __len__(self) -> int:
        return self._length

    def series(self, column: str) -> pandas.Series:
        """Return a column with the type from pandas, where whole numbers with gaps are floats."""
        values = self._values[column]
        series: pandas.Series = import_pandas().Series(values)
        is_boolean = {type(value) for value in values if value is not None} == {bool}
        return series.astype("boolean") if is_boolean else series

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the names and values of a row."""
        return tuple((name, as_text(self._values[name][number])) for name in self.columns)

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the file. Lines with an unchanged label are identical byte for byte."""
        spell = Spelling(self._values[column], strict=False)

        def relabel(line: bytes, label: Label) -> bytes:
            return _with_value(line, column, spell(label))

        with (
            open_bytes(self.path) as source,
            atomic_write(path) as unfinished,
            open_bytes(unfinished, "wb", self.path) as copy,
        ):
            lines = ((line, bool(line.removeprefix(_MARK).strip())) for line in source)
            copy.writelines(self.corrected_lines(lines, new_labels, dropped, relabel))

    def _read(self) -> tuple[dict[str, list[Any]], int]:
        columns: dict[str, list[Any]] = {}
        number = 0
        with open_bytes(self.path) as file:
            for line_number, line in enumerate(file, start=1):
                content = line.removeprefix(_MARK) if line_number == 1 else line
                if not content.strip():
                    continue
                for key, value in self._parsed(content, line_number).items():
                    column = columns.setdefault(key, [])
                    if len(column) < number:  # earlier rows lack this key
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


def _with_value(line: bytes, key: str, value: Any) -> bytes:
    """Return a line of JSON with a new value of a key. Spaces and escapes are kept."""
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


class ParquetRows(FileRows):
    """The rows of a Parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        pyarrow, parquet = arrow(), arrow("parquet")
        try:
            with parquet.ParquetFile(path) as file:
                self._metadata = file.metadata
                self._schema = file.schema_arrow
        except (pyarrow.ArrowException, OSError) as error:
            raise self._unreadable(error) from error
        self.columns = tuple(self._schema.names)
        counts = [self._metadata.row_group(i).num_rows for i in range(self._num_groups)]
        self._group_ends = np.cumsum(counts)
        self._last_group: tuple[int, Any] | None = None

    @property
    def _num_groups(self) -> int:
        return int(self._metadata.num_row_groups)

    def __len__(self) -> int:
        return int(self._metadata.num_rows)

    def series(self, column: str) -> pandas.Series:
        """Return a column with its type."""
        return self.frame([column])[column]

    def frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Return columns, by default all, in one read."""
        names = list(self.columns if columns is None else columns)
        self._require_memory(names)
        table = self._read(names)
        columns_by_name = {name: arrow_series(table.column(name)) for name in names}
        frame: pandas.DataFrame = import_pandas().DataFrame(columns_by_name)
        return frame

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the names and values of a row. Its row group is cached for the next row."""
        group = int(np.searchsorted(self._group_ends, number, side="right"))
        if self._last_group is None or self._last_group[0] != group:
            self._last_group = group, self._read(group=group)
        table = self._last_group[1]
        [values] = table.slice(number - self._group_begin(group), 1).to_pylist()
        return tuple((name, as_text(values[name])) for name in self.columns)

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the file with the same schema, metadata, row groups and compression."""
        pyarrow, parquet = arrow(), arrow("parquet")
        is_kept = np.isin(np.arange(len(self)), kept_rows(len(self), dropped))
        with (
            atomic_write(path) as unfinished,
            parquet.ParquetWriter(
                unfinished, self._schema, compression=self._compression()
            ) as writer,
        ):
            for group in range(self._num_groups):
                begin, end = self._group_begin(group), int(self._group_ends[group])
                table = self._read(group=group)
                changed = {
                    number - begin: label
                    for number, label in new_labels.items()
                    if begin <= number < end
                }
                if changed:
                    place = self.columns.index(column)
                    labels = relabelled_column(table.column(place), changed, column)
                    table = table.set_column(place, self._schema.field(place), labels)
                table = table.filter(pyarrow.array(is_kept[begin:end]))
                writer.write_table(table.replace_schema_metadata(self._schema.metadata))

    def require_label(self, label: Label, column: str) -> None:
        """Raise a `SourceError` if the type of a column cannot store a label."""
        arrow_value(label, self._schema.field(column).type, column)

    def _compression(self) -> dict[str, str]:
        if not self._num_groups:
            return {}
        first = self._metadata.row_group(0)
        columns = (first.column(i) for i in range(first.num_columns))
        return {
            column.path_in_schema: "NONE"
            if column.compression == "UNCOMPRESSED"
            else column.compression
            for column in columns
        }

    def _group_begin(self, group: int) -> int:
        return int(self._group_ends[group - 1]) if group else 0

    def _read(self, columns: list[str] | None = None, group: int | None = None) -> Any:
        """Read columns of one row group, or of all row groups."""
        pyarrow, parquet = arrow(), arrow("parquet")
        try:
            with parquet.ParquetFile(self.path) as file:
                if group is not None:
                    return file.read_row_group(group, columns)
                return file.read(columns)
        except (pyarrow.ArrowException, OSError) as error:
            raise self._unreadable(error) from error

    def _require_memory(self, columns: Sequence[str]) -> None:
        size = sum(
            column.total_uncompressed_size
            for group in map(self._metadata.row_group, range(self._num_groups))
            for column in map(group.column, range(group.num_columns))
            if column.path_in_schema.partition(".")[0] in columns
        )
        require_memory(_PARQUET_MEMORY_PER_BYTE * size, f"reading {self.path}")

    def _unreadable(self, error: Exception) -> SourceError:
        reason = str(error).partition("\n")[0]
        return SourceError(f"cannot read {self.path} as a Parquet file ({reason}): write it again")


WORKBOOKS = (".xlsx", ".xlsm")
TEXT_FORMATS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
"""Text formats, which may be compressed."""
TABLE_FORMATS: dict[str, Any] = {
    ".csv": CsvRows,
    ".tsv": CsvRows,
    ".txt": CsvRows,
    ".parquet": ParquetRows,
    ".feather": FeatherRows,
    ".arrow": FeatherRows,
    ".jsonl": JsonlRows,
    ".ndjson": JsonlRows,
    ".json": JsonRows,
    **dict.fromkeys(WORKBOOKS, ExcelRows),
    **dict.fromkeys(DATABASES, DatabaseRows),
}
"""Formats by suffix, in lower case."""
