"""Data in memory: DataFrames with a column of labels, and pairs ``(X, y)`` of inputs and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from discrimloss.auditing.sources.base import (
    AuditSource,
    Corrections,
    Label,
    SourceError,
    SourceOptions,
    Store,
)
from discrimloss.auditing.sources.features import (
    Array,
    array_checksum,
    not_finite,
    require_memory,
    require_numbers,
)
from discrimloss.auditing.sources.images import PictureRows, array_source, stamps
from discrimloss.auditing.sources.labels import one_per_sample, read_samples
from discrimloss.auditing.sources.open_table import columns_source, open_pictures, open_table
from discrimloss.auditing.sources.pictures import (
    cell_picture,
    channels_last,
    float_pixels,
    is_picture,
)
from discrimloss.auditing.sources.save_frame import save_frame
from discrimloss.auditing.sources.tables import Rows
from discrimloss.auditing.sources.text import text_source
from discrimloss.auditing.sources.values import (
    Spelling,
    as_text,
    is_a,
    kept_rows,
    plain,
    relabelled,
    relabelled_series,
    series_checksum,
    taken,
    tensor_array,
)
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas


def open_frame(rows: FrameRows, options: SourceOptions, cache: Path | None) -> AuditSource:
    """Open a DataFrame with a column of labels. Cells may be images, see `open_table`."""
    if options.image is not None:
        rows.require(options.image, "--image")
    column = options.image if options.image is not None else _picture_column(rows, options)
    if column is not None and options.text is None:
        cells = rows.cells(column)
        if not all(cell is None or isinstance(cell, (str, Path)) for cell in cells):
            pictures = PictureRows(lambda row: cell_picture(cells[row]), stamps(cells), None)
            return open_pictures(rows, pictures, replace(options, image=column), column)
    return open_table(rows, options, cache)


def _picture_column(rows: FrameRows, options: SourceOptions) -> str | None:
    """Return the only column of images, if there is exactly one."""
    first_values = {
        column: rows.given.iloc[:, place].dropna().head(1).tolist()
        for place, column in enumerate(rows.columns)
        if column != options.label
    }
    found = [column for column, values in first_values.items() if values and is_picture(values[0])]
    return found[0] if len(found) == 1 else None


class FrameRows(Rows):
    """The rows of a DataFrame. Their ids are its index, if it is unique.

    Args:
        frame: the DataFrame, which is not changed.
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

    def series(self, column: str) -> pandas.Series:
        """Return an unchanged column."""
        return self._frame[column]

    def frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Return unchanged columns, by default all."""
        return self._frame[list(self.columns if columns is None else columns)]

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the names and values of a row."""
        return tuple((name, as_text(self._frame[name].iloc[number])) for name in self.columns)

    def default_ids(self) -> list[str]:
        """Return the index, or the row numbers if the index is not unique."""
        return index_ids(self.given)

    def checksum(self) -> str:
        """Return a checksum of all columns."""
        digest = hashlib.sha256(repr((self.columns, len(self))).encode())
        for column in self.columns:
            digest.update(series_checksum(self._frame[column]))
        return digest.hexdigest()

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Write a table in the format of the path's suffix."""
        save_frame(self.corrected(new_labels, column, dropped), path, keep_index=self.has_ids)

    def corrected(
        self, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> pandas.DataFrame:
        """Return a copy of the frame with new labels and without dropped rows."""
        frame = self.given.copy()
        place = self.columns.index(column)
        labels = relabelled_series(self.given.iloc[:, place], new_labels)
        frame[frame.columns[place]] = labels
        kept: pandas.DataFrame = frame.iloc[kept_rows(len(self), dropped)]
        return kept

    def require_label(self, label: Label, column: str) -> None:
        """Raise a `SourceError` if the column cannot store this label."""
        Spelling(self._frame[column], subject=f"the column {column!r} holds")(label)


def index_ids(data: Any) -> list[str]:
    """Return one id per row of a frame or a series: its index if unique, else the row number."""
    ids = [str(value) for value in data.index]
    return ids if len(set(ids)) == len(ids) else [str(row) for row in range(len(ids))]


def open_pair(inputs: Any, labels: Any, options: SourceOptions) -> AuditSource:
    """Open inputs and labels.

    Args:
        inputs: features of shape (samples, ...); images as an array (uint8 or float, channels
            first or last) or as a list of Pillow images; a list of texts; or a DataFrame.
        labels: one per sample: a list, an array, a tensor, a series.
        options: how to read them. For a DataFrame, `text` may name a column of texts.
    """
    options.refuse(("label",), because="the labels are the second of the pair")
    options.refuse(("id",), because="a pair has no column of ids; pass a DataFrame with an index")
    if is_a(inputs, "pandas", "DataFrame"):
        return _open_frame_pair(FrameRows(inputs), Pair(inputs, labels), options)
    options.refuse(("text", "image"), because="the inputs have no columns")
    store = Pair(inputs, labels)
    return open_inputs(options, store, store.readable)


def open_inputs(options: SourceOptions, store: Store, inputs: Array | list[Any]) -> AuditSource:
    """Return a source of features, images or texts.

    Args:
        options: how to read it.
        store: the labels, one per row.
        inputs: see `readable_inputs`. An array of floats with the shape of images is read as images
            too.
    """
    if isinstance(inputs, list):
        if is_text(inputs):
            return text_source(options, store, inputs)
        pictures = PictureRows(lambda row: inputs[row], stamps(inputs), None)
        return pictures.source(options, store, read_samples(store, options, pictures.unusable))
    array = require_numbers(inputs, "the array of inputs")
    unusable = not_finite(array)
    if array.ndim == 4 and array.dtype.kind == "f" and channels_last(array) is not None:
        finite = np.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0) if unusable else array
        array = float_pixels(finite)
    return array_source(options, store, array, unusable)


class Pair(Store):
    """Inputs and labels in memory.

    Args:
        inputs: anything with rows.
        labels: one per row.
    """

    name = "the data"

    def __init__(self, inputs: Any, labels: Any) -> None:
        self._inputs, self._given = inputs, labels
        self._labels = _readable_labels(labels)
        self._length = _length(inputs, "the inputs")
        is_frame = is_a(inputs, "pandas", "DataFrame")
        if self._length == 0:
            raise SourceError("the inputs are empty: there is nothing to audit")
        if len(self._labels) != self._length:
            raise SourceError(
                f"there are {self._length:,} samples, but {len(self._labels):,} labels: "
                "pass one label per sample, in the same order"
            )
        self.readable = inputs if is_frame else readable_inputs(inputs)
        """The inputs: a DataFrame, or the result of `readable_inputs`."""

    def __len__(self) -> int:
        return self._length

    def labels(self) -> Any:
        """Return the labels as a list, an array or a series."""
        return self._labels

    def ids(self) -> list[str]:
        """Return the index of a frame or a series, else the row numbers."""
        for data in (self._inputs, self._labels):
            if is_a(data, "pandas", "DataFrame") or is_a(data, "pandas", "Series"):
                return index_ids(data)
        return super().ids()

    @property
    def has_numbered_ids(self) -> bool:
        """Return whether ids in the corrected file are row numbers.

        Only the index of a DataFrame is written, and only if it is unique.
        """
        frame: Any = self.readable
        return not is_a(frame, "pandas", "DataFrame") or not frame.index.is_unique

    def checksum(self) -> str:
        """Return a checksum of labels, texts and some of the features."""
        pandas, inputs = import_pandas(), self.readable
        digest = hashlib.sha256(series_checksum(pandas.Series(self._labels)))
        if isinstance(inputs, np.ndarray):
            digest.update(array_checksum(inputs).encode())
        elif isinstance(inputs, list):
            digest.update(series_checksum(pandas.Series(inputs, dtype=object)))
        else:
            digest.update(FrameRows(inputs).checksum().encode())
        return digest.hexdigest()

    def require_label(self, label: Label) -> None:
        """Raise a `SourceError` if the labels are numbers and this label is not."""
        Spelling(self._labels)(label)

    def corrected(self, corrections: Corrections) -> tuple[Any, Any]:
        """Return inputs and labels with their original types."""
        keep = kept_rows(len(self), corrections.dropped)
        return taken(self._inputs, keep), taken(relabelled(self._given, corrections.labels), keep)

    def write(self, directory: Path, corrections: Corrections) -> list[Path]:
        """Write arrays to ``corrected.npz``, other inputs to ``corrected.csv``."""
        name = "corrected.npz" if isinstance(self.readable, np.ndarray) else "corrected.csv"
        return [self.save(directory / name, corrections)]

    def save(self, path: Path, corrections: Corrections) -> Path:
        """Write an ``.npz`` of arrays, or a table of texts or a frame, with the labels."""
        pandas, keep = import_pandas(), kept_rows(len(self), corrections.dropped)
        inputs = taken(self.readable, keep)
        labels = np.asarray(taken(relabelled(self._given, corrections.labels), keep)).reshape(-1)
        if isinstance(inputs, list) and is_text(inputs):
            inputs = pandas.DataFrame({"text": inputs})
        if is_a(inputs, "pandas", "DataFrame"):
            column = "label" if "label" not in inputs.columns else "given_label"
            named = not isinstance(inputs.index, pandas.RangeIndex)
            save_frame(inputs.assign(**{column: labels}), path, keep_index=named)
            return path
        if isinstance(inputs, list) or path.suffix.lower() != ".npz":
            raise SourceError(
                f"cannot write these inputs to {path}: arrays go to an .npz file, and images stay "
                "in memory: use the returned data instead"
            )
        labels = labels.astype(np.str_) if labels.dtype == object else labels
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as unfinished, unfinished.open("wb") as file:
            np.savez(file, features=inputs, labels=labels)
        return path


def readable_inputs(inputs: Any) -> Array | list[Any]:
    """Return inputs as an array of numbers or a list of texts or images, None if missing.

    Raises:
        SourceError: the inputs are none of these.
    """
    if isinstance(inputs, Tensor):
        return tensor_array(inputs)
    if hasattr(inputs, "toarray"):  # a sparse matrix
        size = 8.0 * float(np.prod(inputs.shape))
        require_memory(size, f"a dense copy of the sparse inputs of the shape {inputs.shape}")
        dense: Array = inputs.toarray()
        return dense
    if is_a(inputs, "pandas", "Series"):
        inputs = list(inputs)
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "OUS":
        return inputs
    values = list(inputs)
    present = [value for value in values if not _is_missing(value)]
    kinds: dict[str, Callable[[Any], bool]] = {
        "texts": lambda value: isinstance(value, (str, bytes)),
        "images": is_picture,
    }
    for kind, fits in kinds.items():
        if present and fits(present[0]):
            wrong = next((value for value in present if not fits(value)), None)
            if wrong is not None:
                raise SourceError(
                    f"the inputs contain {kind} and also a {type(wrong).__name__}: pass only {kind}"
                )
            return [None if _is_missing(value) else plain(value) for value in values]
    if present and isinstance(present[0], Tensor):
        values = [tensor_array(value) for value in values]
    try:
        array = np.asarray(values)
        array = array.astype(np.float64) if array.dtype == object else array
    except (TypeError, ValueError):  # ragged, or not all numbers or None
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise SourceError(
            "the inputs are neither numbers of one shape, texts nor images: pass an array of the "
            "shape (samples, features), a list of texts, or a list of images"
        )
    return array


def _open_frame_pair(rows: FrameRows, store: Pair, options: SourceOptions) -> AuditSource:
    options.refuse(("image",), because="pass a DataFrame that also has the labels")
    if options.text is not None:
        texts = rows.texts(rows.require(options.text, "--text"))
        return text_source(options, store, texts, [options.text])
    return columns_source(rows, store, read_samples(store, options), options)


def _length(inputs: Any, what: str) -> int:
    if hasattr(inputs, "shape"):
        if not inputs.shape:
            raise SourceError(f"{what} are a single number: pass one row per sample")
        return int(inputs.shape[0])
    if isinstance(inputs, (str, bytes, dict)) or not hasattr(inputs, "__len__"):
        raise SourceError(f"{what} are a {type(inputs).__name__}: pass an array or a list")
    return len(inputs)


def _readable_labels(labels: Any) -> Any:
    if is_a(labels, "pandas", "DataFrame"):
        if labels.shape[1] != 1:
            raise SourceError(
                f"the labels are a DataFrame of {labels.shape[1]} columns: pass one column"
            )
        return labels.iloc[:, 0]
    if is_a(labels, "pandas", "Series"):
        return labels
    if isinstance(labels, Tensor):
        labels = tensor_array(labels)
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return one_per_sample(labels, _length(labels, "the labels"), "the array of labels")
    _length(labels, "the labels")
    return [value.item() if isinstance(value, Tensor) else value for value in labels]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def is_text(values: Sequence[Any]) -> bool:
    """Return whether all values are texts or missing."""
    return all(value is None or isinstance(value, str) for value in values)
