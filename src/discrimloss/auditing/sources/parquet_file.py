"""Tables in Parquet files, and values of Arrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.auditing.sources.features import require_memory
from discrimloss.auditing.sources.rows import FileRows
from discrimloss.auditing.sources.values import (
    arrow,
    arrow_value,
    as_text,
    kept_rows,
    relabelled_column,
)
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas

_MEMORY_PER_BYTE = 2.0  # of the uncompressed columns


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

    def frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Columns with the types they have; all of them if None."""
        names = list(self.columns if columns is None else columns)
        self._require_memory(names)
        table = self._read(names)
        columns_by_name = {name: as_series(table.column(name)) for name in names}
        frame: pandas.DataFrame = import_pandas().DataFrame(columns_by_name)
        return frame

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Names and values of a row. Reads its row group, and keeps it for the next row."""
        group = int(np.searchsorted(self._group_ends, number, side="right"))
        if self._last_group is None or self._last_group[0] != group:
            self._last_group = group, self._read(group=group)
        table = self._last_group[1]
        [values] = table.slice(number - self._group_begin(group), 1).to_pylist()
        return tuple((name, as_text(values[name])) for name in self.columns)

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write the file once more: the same schema, metadata, row groups and compression."""
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
        """Raise a `SourceError` if the type of a column has no room for a label."""
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
        """Read columns of one row group, or of all."""
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
        require_memory(_MEMORY_PER_BYTE * size, f"reading {self.path}")

    def _unreadable(self, error: Exception) -> SourceError:
        reason = str(error).partition("\n")[0]
        return SourceError(
            f"cannot read {self.path} as a Parquet file ({reason}): write it once more"
        )


def as_series(column: Any) -> Any:
    """A column as a pandas series, decimals as floats, booleans with gaps as booleans."""
    pyarrow = arrow()
    if pyarrow.types.is_decimal(column.type):
        column = column.cast(pyarrow.float64())
    series = column.to_pandas()
    return series.astype("boolean") if pyarrow.types.is_boolean(column.type) else series
