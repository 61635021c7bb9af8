"""Data in memory: a DataFrame, a pair of inputs and labels, or a dataset of a library."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.array_files import array_source
from discrimloss.auditing.sources.base import (
    AuditSource,
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
from discrimloss.auditing.sources.frame import (
    FrameRows,
    index_ids,
    relabelled_series,
    save_frame,
    series_checksum,
)
from discrimloss.auditing.sources.images import PictureRows, channels_last
from discrimloss.auditing.sources.label_arrays import one_per_sample, with_new_labels
from discrimloss.auditing.sources.labels import Spelling, read_samples
from discrimloss.auditing.sources.open_source import open_pictures, open_table
from discrimloss.auditing.sources.pictures import Picture
from discrimloss.auditing.sources.rows import kept_rows
from discrimloss.auditing.sources.table import Columns
from discrimloss.auditing.sources.text import Texts, blank_texts
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas

KINDS = (
    "a pandas DataFrame, a pair (X, y), a datasets.Dataset, a torch Dataset of inputs and labels, "
    "or a path"
)


def open_in_memory(data: Any, options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """Open data in memory.

    Args:
        data: see `open_data`.
        options: how to read it.
        cache: a directory that remembers which images can be read, or None.

    Raises:
        SourceError: the data cannot be audited.
    """
    if is_a(data, "pandas", "DataFrame"):
        return _open_frame(FrameRows(data), options, cache)
    if is_a(data, "datasets", "Dataset") or is_a(data, "datasets", "DatasetDict"):
        from discrimloss.auditing.sources.hugging_face import open_dataset

        return open_dataset(data, "the dataset", options, cache)
    if isinstance(data, tuple):
        if len(data) != 2:
            raise SourceError(
                f"the data is a tuple of {len(data)}: give a pair (X, y) of inputs and labels"
            )
        return open_pair(data[0], data[1], options)
    if isinstance(data, (dict, list, np.ndarray, Tensor)) or not hasattr(data, "__getitem__"):
        raise SourceError(f"cannot audit a {type(data).__name__}: give {KINDS}")
    from discrimloss.auditing.sources.torch_dataset import open_torch_dataset

    return open_torch_dataset(data, options)


def open_pair(inputs: Any, labels: Any, options: SourceOptions) -> AuditSource:
    """Open inputs and labels.

    Args:
        inputs: features of the shape (samples, ...); images as an array, uint8 or float, channels
            first or last, or as a list of Pillow images; a list of texts; a DataFrame.
        labels: one per sample: a list, an array, a tensor, a series.
        options: how to read them. A DataFrame may have `text`, a column of texts.
    """
    options.refuse(("label", "id"), because="the labels are the second of the pair")
    store = Pair(inputs, labels)
    if is_a(inputs, "pandas", "DataFrame"):
        return _open_frame_pair(FrameRows(inputs), store, options)
    options.refuse(("text", "image"), because="the inputs have no columns")
    readable = readable_inputs(inputs)
    if isinstance(readable, list) and not (readable and _is_text(readable)):
        pictures = PictureRows(lambda row: readable[row], _stamps(readable), None)
        samples = read_samples(store, options, pictures.unusable)
        contents = pictures.contents(
            samples.rows,
            samples.ids,
            lambda index: (("sample", samples.ids[index]),),
            options.encoder,
        )
        return AuditSource(options, store, samples, contents)
    if isinstance(readable, list):
        return text_source(options, store, readable)
    return features_or_images(options, store, readable)


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
        if self._length == 0:
            raise SourceError("the inputs are empty: there is nothing to audit")
        if len(self._labels) != self._length:
            raise SourceError(
                f"there are {self._length:,} samples, but {len(self._labels):,} labels: "
                "give one label per sample, in the same order"
            )

    def __len__(self) -> int:
        return self._length

    def labels(self) -> Any:
        """The labels as a list, an array or a series."""
        return self._labels

    def ids(self) -> list[str]:
        """The index of a frame or a series, else the numbers of the rows."""
        for data in (self._inputs, self._labels):
            if is_a(data, "pandas", "DataFrame") or is_a(data, "pandas", "Series"):
                return index_ids(data)
        return super().ids()

    def checksum(self) -> str:
        """Covers labels and texts, and some of the features."""
        pandas = import_pandas()
        digest = hashlib.sha256(series_checksum(pandas.Series(self._labels)))
        inputs = self._inputs
        if is_a(inputs, "pandas", "DataFrame"):
            digest.update(FrameRows(inputs).checksum().encode())
        else:
            readable = readable_inputs(inputs)
            if isinstance(readable, list):
                digest.update(series_checksum(pandas.Series(readable, dtype=object)))
            else:
                digest.update(array_checksum(readable).encode())
        return digest.hexdigest()

    def require_label(self, label: Label) -> None:
        """Raise a `SourceError` if the labels are numbers and this one is none."""
        Spelling(self._labels)(label)

    def corrected(
        self, new_labels: Mapping[int, Label], dropped: Collection[int]
    ) -> tuple[Any, Any]:
        """Inputs and labels, each of the type that it was given in."""
        keep = kept_rows(len(self), dropped)
        return _taken(self._inputs, keep), _taken(_relabelled(self._given, new_labels), keep)

    def write(
        self, directory: Path, new_labels: Mapping[int, Label], dropped: Collection[int]
    ) -> list[Path]:
        """Write ``corrected.csv`` of texts and frames, else ``corrected.npz``."""
        is_array = hasattr(self._inputs, "shape") and not hasattr(self._inputs, "iloc")
        name = "corrected.npz" if is_array else "corrected.csv"
        return [self.save(directory / name, new_labels, dropped)]

    def save(self, path: Path, new_labels: Mapping[int, Label], dropped: Collection[int]) -> Path:
        """Write an ``.npz`` of arrays, or a table of texts or of a frame, with the labels."""
        inputs, labels = self.corrected(new_labels, dropped)
        pandas = import_pandas()
        if path.suffix.lower() == ".npz" and not is_a(inputs, "pandas", "DataFrame"):
            features = readable_inputs(inputs)
            if isinstance(features, list) and not _is_text(features):
                raise _no_format(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            given = np.asarray(labels)
            given = given.astype(np.str_) if given.dtype == object else given
            with atomic_write(path) as unfinished, unfinished.open("wb") as file:
                np.savez(file, features=np.asarray(features), labels=given)
            return path
        if is_a(inputs, "pandas", "DataFrame"):
            frame = inputs.copy()
        else:
            texts = readable_inputs(inputs)
            if not isinstance(texts, list) or not _is_text(texts):
                raise _no_format(path)
            frame = pandas.DataFrame({"text": texts})
        column = "label" if "label" not in frame.columns else "given_label"
        frame[column] = labels.to_numpy() if hasattr(labels, "to_numpy") else np.asarray(labels)
        save_frame(frame, path, keep_index=not isinstance(frame.index, pandas.RangeIndex))
        return path


def text_source(options: SourceOptions, store: Store, texts: Sequence[str | None]) -> AuditSource:
    """A source of texts, None or blank where a row has none."""
    samples = read_samples(store, options, blank_texts(texts))
    chosen = [texts[row] or "" for row in samples.rows]
    return AuditSource(options, store, samples, Texts(chosen, options.encoder))


def features_or_images(options: SourceOptions, store: Store, array: Array) -> AuditSource:
    """A source of the rows of an array; floats of the shape of images are images, too."""
    array = require_numbers(array, "the array of inputs")
    unusable = not_finite(array)
    is_float_image = (
        array.ndim == 4 and array.dtype.kind == "f" and channels_last(array) is not None
    )
    if not is_float_image:
        return array_source(options, store, array, unusable)
    finite = np.nan_to_num(array.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(finite.min()), float(finite.max())
    if low >= 0.0 and high <= 255.0:
        low, high = 0.0, 1.0 if high <= 1.0 else 255.0
    pixels = ((finite - low) * (255.0 / max(high - low, 1e-12))).round().astype(np.uint8)
    return array_source(options, store, pixels, unusable)


def is_a(data: Any, module: str, name: str) -> bool:
    """Whether data is of a class of a library, which is not imported for that."""
    library = sys.modules.get(module)
    return library is not None and isinstance(data, getattr(library, name))


def is_picture(value: Any) -> bool:
    """Whether a value is an image of Pillow, or pixels of one picture."""
    if isinstance(value, np.ndarray):
        return value.dtype == np.uint8 and (value.ndim == 2 or value.shape[2:] == (3,))
    return is_a(value, "PIL.Image", "Image")


def readable_inputs(inputs: Any) -> Array | list[Any]:
    """Inputs as an array of numbers, or as a list of texts or pictures; None where missing.

    Raises:
        SourceError: the inputs are neither.
    """
    if isinstance(inputs, Tensor):
        return inputs.detach().cpu().numpy()
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
    if present and isinstance(present[0], (str, bytes, np.str_)):
        wrong = next((value for value in present if not isinstance(value, (str, bytes))), None)
        if wrong is not None:
            raise SourceError(
                f"the inputs hold texts and also a {type(wrong).__name__}: give texts only"
            )
        return [None if _is_missing(value) else _text(value) for value in values]
    if present and is_picture(present[0]):
        wrong = next((value for value in present if not is_picture(value)), None)
        if wrong is not None:
            raise SourceError(
                f"the inputs hold images and also a {type(wrong).__name__}: give images only"
            )
        return [None if _is_missing(value) else value for value in values]
    if present and isinstance(present[0], Tensor):
        values = [value.detach().cpu().numpy() for value in values]
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise SourceError(
            "the inputs are neither numbers of one shape, texts nor images: give an array of the "
            "shape (samples, features), a list of texts, or a list of images"
        )
    return array


def _open_frame(rows: FrameRows, options: SourceOptions, cache: Path | None) -> AuditSource:
    if options.image is not None:
        rows.require(options.image, "--image")
    column = options.image if options.image is not None else _picture_column(rows, options)
    if column is not None and options.text is None:
        cells = rows.cells(column)
        if not all(cell is None or isinstance(cell, (str, Path)) for cell in cells):
            pictures = PictureRows(lambda row: _picture(cells[row]), _stamps(cells), None)
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


def _open_frame_pair(rows: FrameRows, store: Pair, options: SourceOptions) -> AuditSource:
    options.refuse(("image",), because="give a DataFrame that also has the labels")
    if options.text is not None:
        return text_source(options, store, rows.texts(rows.require(options.text, "--text")))
    options.refuse(("encoder",), "name the column that it is to read, --text")
    samples = read_samples(store, options)
    return AuditSource(options, store, samples, Columns(rows, samples, set(), label_column=None))


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


def _stamps(values: Sequence[Any]) -> list[str | None]:
    return [None if value is None else str(row) for row, value in enumerate(values)]


def _length(inputs: Any, what: str) -> int:
    if hasattr(inputs, "shape"):
        if not inputs.shape:
            raise SourceError(f"{what} are a single number: give one row per sample")
        return int(inputs.shape[0])
    if isinstance(inputs, (str, bytes, dict)) or not hasattr(inputs, "__len__"):
        raise SourceError(f"{what} are a {type(inputs).__name__}: give an array or a list")
    return len(inputs)


def _readable_labels(labels: Any) -> Any:
    if is_a(labels, "pandas", "DataFrame"):
        if labels.shape[1] != 1:
            raise SourceError(
                f"the labels are a DataFrame of {labels.shape[1]} columns: give one column"
            )
        return labels.iloc[:, 0]
    if is_a(labels, "pandas", "Series"):
        return labels
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return one_per_sample(labels, _length(labels, "the labels"), "the array of labels")
    _length(labels, "the labels")
    return [value.item() if isinstance(value, Tensor) else value for value in labels]


def _relabelled(labels: Any, new_labels: Mapping[int, Label]) -> Any:
    """Labels of the same type with new ones, by row."""
    if is_a(labels, "pandas", "DataFrame"):
        return relabelled_series(labels.iloc[:, 0], new_labels).to_frame(labels.columns[0])
    if is_a(labels, "pandas", "Series"):
        return relabelled_series(labels, new_labels)
    spell = Spelling(_readable_labels(labels))
    values = {row: spell(label) for row, label in new_labels.items()}
    if isinstance(labels, Tensor):
        changed = with_new_labels(labels.detach().cpu().numpy().copy(), new_labels)
        return torch.from_numpy(changed).to(labels.device)
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return with_new_labels(labels.copy(), new_labels)
    copy = list(labels)
    for row, value in values.items():
        copy[row] = value
    if isinstance(labels, np.ndarray):
        result = np.empty(len(copy), dtype=object)
        result[:] = copy
        return result
    return tuple(copy) if isinstance(labels, tuple) else copy


def _taken(data: Any, keep: npt.NDArray[np.int64]) -> Any:
    """Some rows of anything that has rows."""
    if hasattr(data, "iloc"):
        return data.iloc[keep]
    if isinstance(data, Tensor):
        return data[torch.from_numpy(keep).to(data.device)]
    if hasattr(data, "tocsr"):
        return data.tocsr()[keep]
    if isinstance(data, np.ndarray):
        return data[keep]
    kept = [data[row] for row in keep]
    return tuple(kept) if isinstance(data, tuple) else kept


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _is_text(values: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, str) for value in values)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _no_format(path: Path) -> SourceError:
    return SourceError(
        f"cannot write these inputs to {path}: arrays go to an .npz file, texts and frames to a "
        ".csv or .parquet file, and images stay in memory: take the corrected data itself"
    )
