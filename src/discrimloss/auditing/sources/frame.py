"""Pandas data frames and series: their rows, and how they are corrected and saved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.auditing.sources.labels import Spelling
from discrimloss.auditing.sources.rows import Rows, kept_rows, number_text
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas


class FrameRows(Rows):
    """The rows of a DataFrame. Their ids are its index, if that is unique.

    Args:
        frame: is not changed.
    """

    name = "the DataFrame"
    file_name = "corrected.csv"

    def __init__(self, frame: pandas.DataFrame) -> None:
        self.given = frame
        self.columns = tuple(str(column) for column in frame.columns)
        self.require_rows()
        self._frame = frame.set_axis(list(self.columns), axis=1).reset_index(drop=True)
        self.has_ids = not isinstance(frame.index, import_pandas().RangeIndex)

    def __len__(self) -> int:
        return len(self.given)

    def frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Columns as they are; all of them if None."""
        return self._frame[list(self.columns if columns is None else columns)]

    def raw_labels(self, column: str) -> pandas.Series:
        """A column as it is."""
        return self._frame[column]

    def cells(self, column: str) -> list[Any]:
        """The values of a column, None where missing."""
        series = self._frame[column]
        is_missing = series.isna().to_numpy()
        return [
            None if missing else value for value, missing in zip(series, is_missing, strict=True)
        ]

    def texts(self, column: str) -> list[str | None]:
        """A column as texts, None where missing or empty."""
        return [_as_text(value) or None for value in self.cells(column)]

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Names and values of a row."""
        row = self._frame.iloc[[number]]
        return tuple((name, _as_text(row[name].iloc[0])) for name in self.columns)

    def default_ids(self) -> list[str]:
        """The index, or the numbers of the rows if two index values are the same."""
        return index_ids(self.given)

    def checksum(self) -> str:
        """Covers all columns."""
        digest = hashlib.sha256(repr((self.columns, len(self))).encode())
        for column in self.columns:
            digest.update(series_checksum(self._frame[column]))
        return digest.hexdigest()

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write a ``.csv``, ``.tsv``, ``.parquet`` or ``.jsonl`` file."""
        save_frame(self.corrected(new_labels, column, dropped), path, keep_index=self.has_ids)

    def corrected(
        self, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> pandas.DataFrame:
        """A copy of the frame with new labels and without dropped rows."""
        frame = self.given.copy()
        place = self.columns.index(column)
        labels = relabelled_series(self.given.iloc[:, place], new_labels)
        frame[frame.columns[place]] = labels
        kept: pandas.DataFrame = frame.iloc[kept_rows(len(self), dropped)]
        return kept

    def require_label(self, label: Label, column: str) -> None:
        """Raise a `SourceError` if the column holds numbers or booleans and the label is none."""
        Spelling(self._frame[column], where=f"the values of {column!r}")(label)


def relabelled_series(series: pandas.Series, new_labels: Mapping[int, Label]) -> pandas.Series:
    """Copy a series with new labels, by position. Its type stays if it can hold them."""
    if not new_labels:
        return series.copy()
    library = import_pandas()
    spell = Spelling(
        series, where=f"the values of {series.name!r}" if series.name else "the labels"
    )
    values = [spell(label) for label in new_labels.values()]
    dtype = series.dtype
    if isinstance(dtype, library.CategoricalDtype):
        added = [value for value in dict.fromkeys(values) if value not in dtype.categories]
        dtype = library.CategoricalDtype([*dtype.categories, *added], dtype.ordered)
    changed = series.astype(object)
    changed.iloc[list(new_labels)] = values
    result: pandas.Series
    try:
        result = changed.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        return changed.infer_objects()
    is_whole = library.api.types.is_integer_dtype(dtype)
    if is_whole and not all(float(v).is_integer() for v in values):
        result = changed.astype(np.float64)
    elif is_whole and [int(v) for v in result.iloc[list(new_labels)]] != values:  # it overflowed
        result = changed.infer_objects()
    return result


def index_ids(data: Any) -> list[str]:
    """One id per row of a frame or a series: its index if that is unique, else the row number."""
    ids = [str(value) for value in data.index]
    return ids if len(set(ids)) == len(ids) else [str(row) for row in range(len(ids))]


def series_checksum(series: pandas.Series) -> bytes:
    """A checksum of the values; of lists and objects, of what they look like as texts."""
    pandas = import_pandas()
    try:
        hashes = pandas.util.hash_pandas_object(series, index=False)
    except TypeError:
        hashes = pandas.util.hash_pandas_object(series.map(str), index=False)
    content: bytes = hashes.to_numpy().tobytes()
    return hashlib.sha256(content).digest()


def save_frame(frame: pandas.DataFrame, path: Path, keep_index: bool = False) -> None:
    """Write a frame in the format that the ending of the path names, or raise a `SourceError`."""
    formats: dict[str, Callable[[Path], object]] = {
        ".csv": lambda file: frame.to_csv(file, index=keep_index),
        ".tsv": lambda file: frame.to_csv(file, index=keep_index, sep="\t"),
        ".parquet": lambda file: frame.to_parquet(file, index=keep_index or None),
        ".jsonl": lambda file: frame.to_json(file, orient="records", lines=True),
    }
    save = formats.get(path.suffix.lower())
    if save is None:
        raise SourceError(f"cannot write {path}: its name must end in {', '.join(formats)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as unfinished:
        try:
            save(unfinished)
        except (TypeError, ValueError) as error:  # Parquet has no objects and no mixed columns
            reason = str(error).partition("\n")[0]
            raise SourceError(
                f"cannot write {path} ({reason}): name a .csv file, or take the corrected data "
                "itself"
            ) from error


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple, dict, np.ndarray)):
        return str(value)
    if import_pandas().isna(value):
        return ""
    return number_text(value) if isinstance(value, float) else str(value)
