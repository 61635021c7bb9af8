"""A pair ``(X, y)`` of inputs and labels in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
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
from discrimloss.auditing.sources.columns import Columns
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
from discrimloss.auditing.sources.images import PictureRows, channels_last, stamps
from discrimloss.auditing.sources.labels import (
    Spelling,
    one_per_sample,
    read_samples,
    with_new_labels,
)
from discrimloss.auditing.sources.pictures import is_picture
from discrimloss.auditing.sources.rows import is_a, kept_rows
from discrimloss.auditing.sources.text import text_source
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import import_pandas


def open_pair(inputs: Any, labels: Any, options: SourceOptions) -> AuditSource:
    """Open inputs and labels.

    Args:
        inputs: features of the shape (samples, ...); images as an array, uint8 or float, channels
            first or last, or as a list of Pillow images; a list of texts; a DataFrame.
        labels: one per sample: a list, an array, a tensor, a series.
        options: how to read them. A DataFrame may have `text`, a column of texts.
    """
    options.refuse(("label",), because="the labels are the second of the pair")
    options.refuse(("id",), because="a pair has no column of ids; give a DataFrame with an index")
    if is_a(inputs, "pandas", "DataFrame"):
        return _open_frame_pair(FrameRows(inputs), Pair(inputs, labels), options)
    options.refuse(("text", "image"), because="the inputs have no columns")
    store = Pair(inputs, labels)
    return open_inputs(options, store, store.readable)


def open_inputs(options: SourceOptions, store: Store, inputs: Array | list[Any]) -> AuditSource:
    """A source of features, of images, or of texts.

    Args:
        options: how to read it.
        store: the labels, one per row.
        inputs: see `readable_inputs`. An array of floats with the shape of images is images, too.
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
        array = _as_bytes(finite)
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
                "give one label per sample, in the same order"
            )
        self.readable = inputs if is_frame else readable_inputs(inputs)
        """A DataFrame, or see `readable_inputs`."""

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
        """Write ``corrected.npz`` of arrays, else ``corrected.csv``."""
        name = "corrected.npz" if isinstance(self.readable, np.ndarray) else "corrected.csv"
        return [self.save(directory / name, new_labels, dropped)]

    def save(self, path: Path, new_labels: Mapping[int, Label], dropped: Collection[int]) -> Path:
        """Write an ``.npz`` of arrays, or a table of texts or of a frame, with the labels."""
        pandas, keep = import_pandas(), kept_rows(len(self), dropped)
        inputs = _taken(self.readable, keep)
        labels = np.asarray(_taken(_relabelled(self._given, new_labels), keep)).reshape(-1)
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
                "in memory: take the corrected data itself"
            )
        labels = labels.astype(np.str_) if labels.dtype == object else labels
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as unfinished, unfinished.open("wb") as file:
            np.savez(file, features=inputs, labels=labels)
        return path


def _as_bytes(images: Array) -> Array:
    """Floats as uint8: from 0 to 1, from 0 to 255, or else from the smallest to the largest."""
    low, high = float(images.min()), float(images.max())
    if low >= 0.0 and high <= 255.0:
        low, high = 0.0, 1.0 if high <= 1.0 else 255.0
    scale = 255.0 / max(high - low, 1e-12)
    pixels = np.empty(images.shape, np.uint8)
    for row, image in enumerate(images):
        pixels[row] = ((image - low) * scale).round()
    return pixels


def readable_inputs(inputs: Any) -> Array | list[Any]:
    """Inputs as an array of numbers, or as a list of texts or pictures; None where missing.

    Raises:
        SourceError: the inputs are neither.
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
        values = [tensor_array(value) for value in values]
    try:
        array = np.asarray(values)
        array = array.astype(np.float64) if array.dtype == object else array
    except (TypeError, ValueError):  # ragged, or neither numbers nor missing
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise SourceError(
            "the inputs are neither numbers of one shape, texts nor images: give an array of the "
            "shape (samples, features), a list of texts, or a list of images"
        )
    return array


def tensor_array(tensor: Tensor) -> Array:
    """A tensor of any device, layout and type as an array."""
    dense = tensor.detach().cpu()
    dense = dense if dense.layout == torch.strided else dense.to_dense()
    array: Array = (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
    return array


def _open_frame_pair(rows: FrameRows, store: Pair, options: SourceOptions) -> AuditSource:
    options.refuse(("image",), because="give a DataFrame that also has the labels")
    if options.text is not None:
        return text_source(options, store, rows.texts(rows.require(options.text, "--text")))
    options.refuse(("encoder",), "name the column that it is to read, --text")
    samples = read_samples(store, options)
    return AuditSource(options, store, samples, Columns(rows, samples, set(), label_column=None))


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
        labels = tensor_array(labels)
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
        changed = torch.from_numpy(with_new_labels(tensor_array(labels).copy(), new_labels))
        return changed.to(labels.device, labels.dtype if labels.is_floating_point() else None)
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
        return data.index_select(0, torch.from_numpy(keep).to(data.device))
    if hasattr(data, "tocsr"):
        return data.tocsr()[keep]
    if isinstance(data, np.ndarray):
        return data[keep]
    kept = [data[row] for row in keep]
    return tuple(kept) if isinstance(data, tuple) else kept


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def is_text(values: Sequence[Any]) -> bool:
    """Whether all values are texts, or missing."""
    return all(value is None or isinstance(value, str) for value in values)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
