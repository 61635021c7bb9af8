"""Pandas data frames and series: their rows, and how they are corrected and saved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.sources.base import AuditSource, Label, SourceError, SourceOptions
from discrimloss.auditing.sources.images import PictureRows, stamps
from discrimloss.auditing.sources.labels import Spelling
from discrimloss.auditing.sources.pictures import Picture, is_picture
from discrimloss.auditing.sources.rows import Rows, as_text, kept_rows
from discrimloss.auditing.sources.tables import open_pictures, open_table
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas


def open_frame(rows: FrameRows, options: SourceOptions, cache: Path | None) -> AuditSource:
    """Open a DataFrame with a column of labels. Cells may hold images, see `open_table`."""
    if options.image is not None:
        rows.require(options.image, "--image")
    column = options.image if options.image is not None else _picture_column(rows, options)
    if column is not None and options.text is None:
        cells = rows.cells(column)
        if not all(cell is None or isinstance(cell, (str, Path)) for cell in cells):
            pictures = PictureRows(lambda row: _picture(cells[row]), stamps(cells), None)
            return open_pictures(rows, pictures, replace(options, image=column), column)
    return open_table(rows, options, cache)


def _picture_column(rows: FrameRows, options: SourceOptions) -> str | None:
    """The only column of images, if there is one."""
    first_values = {
        column: rows.given.iloc[:, place].dropna().head(1).tolist()
        for place, column in enumerate(rows.columns)
        if column != options.label
    }
    found = [column for column, values in first_values.items() if values and is_picture(values[0])]
    return found[0] if len(found) == 1 else None


def _picture(cell: Any) -> Picture:
    if isinstance(cell, dict):
        from discrimloss.auditing.sources.hugging_face import encoded_picture

        return encoded_picture({"bytes": cell.get("bytes"), "path": cell.get("path")})
    if not isinstance(cell, bytes) and not is_picture(cell):
        raise SourceError(
            f"a cell of the column of images holds a {type(cell).__name__}: it must hold an image "
            "of Pillow, an encoded image, or the path of one"
        )
    picture: Picture = cell
    return picture


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

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Names and values of a row."""
        return tuple((name, as_text(self._frame[name].iloc[number])) for name in self.columns)

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
