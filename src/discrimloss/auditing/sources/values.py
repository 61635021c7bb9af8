"""Converts values of any library to texts and numbers, and writes new labels to data."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas

Array = npt.NDArray[Any]
Kind = Literal["texts", "true and false", "whole numbers", "numbers"]
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def is_a(data: Any, module: str, name: str) -> bool:
    """Return whether data is of a library's class, without importing the library."""
    library = sys.modules.get(module)
    return library is not None and isinstance(data, getattr(library, name))


def arrow(module: str | None = None) -> Any:
    """Import Arrow or one of its modules, as `Any`: most of its functions have no types."""
    import_pandas()  # raises an error that names the extra for both libraries
    return importlib.import_module("pyarrow" if module is None else f"pyarrow.{module}")


def plain(value: Any) -> Any:
    """Turn a scalar of NumPy into one of Python, and bytes into a text."""
    if isinstance(value, np.generic):
        value = value.item()
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def is_number(value: Any) -> bool:
    """Return whether a plain value is a number, not a boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def as_number(label: Any) -> float | None:
    """Return a label as a number, or None if it is not a number."""
    try:
        return float(label)
    except (TypeError, ValueError):
        return None


def number_text(number: float) -> str:
    """Return a number as a text, whole numbers without a decimal point."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 2**53 else repr(number)


def as_text(value: Any) -> str:
    """Return a value of a table as a text, empty if missing."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, np.ndarray):
        return str(value.tolist())
    if import_pandas().isna(value):
        return ""
    return number_text(value) if isinstance(value, float) else str(value)


def class_name(value: Any) -> str:
    """Return the name of a class. 1, 1.0 and "1" are the same class."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SourceError(
                f"a label is {value!r}, which cannot be a class: correct it, or leave it empty"
            )
        if value.is_integer():
            return str(int(value))
    return str(value)


def tensor_array(tensor: Tensor) -> Array:
    """Return a tensor of any device, layout and type as an array."""
    dense = tensor.detach().cpu()
    dense = dense if dense.layout == torch.strided else dense.to_dense()
    array: Array = (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
    return array


def kept_rows(num_rows: int, dropped: Collection[int]) -> npt.NDArray[np.int64]:
    """Return the numbers of all rows that are not dropped."""
    keep = np.ones(num_rows, bool)
    keep[list(dropped)] = False
    return np.flatnonzero(keep)


def taken(data: Any, rows: npt.NDArray[np.int64]) -> Any:
    """Return some rows of a frame, series, tensor, array, sparse matrix, list or tuple."""
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if isinstance(data, Tensor):
        return data.index_select(0, torch.from_numpy(rows).to(data.device))
    if hasattr(data, "tocsr"):
        return data.tocsr()[rows]
    if isinstance(data, np.ndarray):
        return data[rows]
    kept = [data[row] for row in rows]
    return tuple(kept) if isinstance(data, tuple) else kept


def series_checksum(series: pandas.Series) -> bytes:
    """Return a checksum of the values. Lists and objects are converted to texts."""
    pandas = import_pandas()
    try:
        hashes = pandas.util.hash_pandas_object(series, index=False)
    except TypeError:
        hashes = pandas.util.hash_pandas_object(series.map(str), index=False)
    content: bytes = hashes.to_numpy().tobytes()
    return hashlib.sha256(content).digest()


def value_of_kind(label: Label, kind: Kind, subject: str) -> Any:
    """Convert a new label to a value of this kind.

    Args:
        label: the name of a class, or a regression target.
        kind: the kind of values in the data.
        subject: the data and the verb of the message, e.g. ``"the column 'x' holds"``.

    Raises:
        SourceError: the label is not of this kind.
    """
    text = label if isinstance(label, str) else number_text(label)
    number = as_number(label)
    if kind == "texts":
        return text
    if kind == "true and false" and text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    if kind == "numbers" and number is not None:
        return number
    if kind == "whole numbers" and number is not None and number.is_integer():
        # Not via a float, which is inexact beyond 2 ** 53.
        return int(text) if text.lstrip("-").isdigit() else int(number)
    is_what = "neither" if kind == "true and false" else "none"
    others = "numbers with a point" if kind == "whole numbers" and number is not None else "texts"
    raise SourceError(
        f"{subject} {kind}, and the new label {label!r} is {is_what}: choose another one, or turn "
        f"the labels into {others} first"
    )


class Spelling:
    """The form of labels in the data: the class "1" may be 1, 1.0, True or "1".

    Args:
        labels: the labels in the data.
        strict: whether to refuse a class that is not a number if the labels are numbers.
        subject: the data, with the verb, for the message.
    """

    def __init__(self, labels: Any, strict: bool = True, subject: str = "the labels are") -> None:
        pandas = import_pandas()
        codes, distinct = pandas.factorize(pandas.Series(labels))
        counts = Counter(codes.tolist())
        values = [plain(value) for value in distinct]
        self._known: dict[str, Any] = {}
        for code in sorted(range(len(values)), key=lambda code: -counts[code]):
            value = values[code]
            is_finite = is_number(value) and math.isfinite(value)
            self._known.setdefault(class_name(value) if is_finite else str(value), value)
        self._kind = _kind_of(values)
        self._strict, self._subject = strict, subject

    def __call__(self, label: Label) -> Any:
        """Return the label in the form of the data.

        Raises:
            SourceError: the labels are numbers or booleans, and this one is not.
        """
        name, kind = class_name(label), self._kind
        are_numbers = kind in ("numbers", "whole numbers")
        if name in self._known and not (are_numbers and isinstance(label, float)):
            return self._known[name]
        number = as_number(label)
        if kind == "whole numbers" and number is not None and not number.is_integer():
            kind = "numbers"
        try:
            return value_of_kind(label, kind, self._subject)
        except SourceError:
            if self._strict:
                raise
            return name


def _kind_of(values: list[Any]) -> Kind:
    kinds: tuple[tuple[Kind, Any], ...] = (
        ("true and false", lambda value: isinstance(value, bool)),
        ("whole numbers", lambda value: is_number(value) and isinstance(value, int)),
        ("numbers", is_number),
    )
    return next((kind for kind, fits in kinds if values and all(map(fits, values))), "texts")


def relabelled(labels: Any, new_labels: Mapping[int, Label]) -> Any:
    """Copy labels of any type with new ones, by row. The type is kept if possible.

    Args:
        labels: a list, a tuple, an array, a tensor, a series, or a frame of one column.
        new_labels: by row.

    Raises:
        SourceError: the labels are numbers or booleans, and a new one is not.
    """
    if is_a(labels, "pandas", "DataFrame"):
        return relabelled_series(labels.iloc[:, 0], new_labels).to_frame(labels.columns[0])
    if is_a(labels, "pandas", "Series"):
        return relabelled_series(labels, new_labels)
    if isinstance(labels, Tensor):
        changed = torch.from_numpy(relabelled_array(tensor_array(labels).copy(), new_labels, True))
        return changed.to(labels.device, labels.dtype if labels.is_floating_point() else None)
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return relabelled_array(labels.copy(), new_labels, True)
    copy = list(labels)
    spell = Spelling([value.item() if isinstance(value, Tensor) else value for value in labels])
    for row, label in new_labels.items():
        copy[row] = spell(label)
    if isinstance(labels, np.ndarray):
        result = np.empty(len(copy), dtype=object)
        result[:] = copy
        return result
    return tuple(copy) if isinstance(labels, tuple) else copy


def relabelled_array(labels: Array, new_labels: Mapping[int, Label], strict: bool = False) -> Array:
    """Copy an array with new labels. The type is kept if possible.

    Args:
        labels: shape (samples,) or (samples, 1).
        new_labels: by row.
        strict: see `Spelling`.
    """
    if not new_labels:
        return labels
    spell, kind = Spelling(labels.ravel(), strict), labels.dtype.kind
    values = [spell(label) for label in new_labels.values()]
    new = np.array(values)
    if kind == "S":
        new = np.array([str(value).encode() for value in values])
    elif kind != "U" and any(isinstance(value, str) for value in values):  # a name among numbers
        names = ["" if value != value else class_name(plain(value)) for value in labels.ravel()]
        labels, new = np.array(names).reshape(labels.shape), np.array(list(map(str, values)))
    elif kind == "f":
        new = np.array(values, labels.dtype)
    elif all(isinstance(value, int) for value in values) and kind in "iu":  # as small as possible
        new = np.array(values, np.result_type(*map(np.min_scalar_type, values)))
    changed = labels.astype(np.promote_types(labels.dtype, new.dtype))
    changed[np.fromiter(new_labels, dtype=np.int64)] = new.reshape(-1, *[1] * (labels.ndim - 1))
    return changed


def relabelled_series(series: pandas.Series, new_labels: Mapping[int, Label]) -> pandas.Series:
    """Copy a series with new labels, by position. The type is kept if possible."""
    if not new_labels:
        return series.copy()
    types = import_pandas().api.types
    named = f"the column {series.name!r} holds" if series.name else "the labels are"
    spell = Spelling(series, subject=named)
    values, places, dtype = (
        [spell(label) for label in new_labels.values()],
        list(new_labels),
        series.dtype,
    )
    if isinstance(dtype, import_pandas().CategoricalDtype):
        added = [value for value in dict.fromkeys(values) if value not in dtype.categories]
        dtype = import_pandas().CategoricalDtype([*dtype.categories, *added], dtype.ordered)
    changed = series.astype(object)
    changed.iloc[places] = values
    result: pandas.Series
    try:
        result = changed.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        return changed.infer_objects()
    if types.is_integer_dtype(dtype):
        if not all(float(value).is_integer() for value in values):
            result = changed.astype(np.float64)
        elif [int(value) for value in result.iloc[places]] != values:  # it overflowed
            result = changed.infer_objects()
    return result


def arrow_series(column: Any) -> Any:
    """Convert an Arrow column to pandas: decimals to floats, booleans with gaps to booleans."""
    pyarrow = arrow()
    if pyarrow.types.is_decimal(column.type):
        column = column.cast(pyarrow.float64())
    series = column.to_pandas()
    return series.astype("boolean") if pyarrow.types.is_boolean(column.type) else series


def relabelled_column(column: Any, new_labels: Mapping[int, Label], name: str) -> Any:
    """Copy an Arrow column with new labels, by position. The type is kept.

    Raises:
        SourceError: the type cannot store a label.
    """
    pyarrow, compute = arrow(), arrow("compute")
    kind = column.type
    is_dictionary = pyarrow.types.is_dictionary(kind)
    values = column.cast(kind.value_type) if is_dictionary else column
    mask = np.zeros(len(column), bool)
    mask[list(new_labels)] = True
    new = [arrow_value(new_labels[place], values.type, name) for place in sorted(new_labels)]
    flat = pyarrow.concat_arrays(values.chunks)
    replaced = compute.replace_with_mask(
        flat, pyarrow.array(mask), pyarrow.array(new, type=values.type)
    )
    return replaced.dictionary_encode().cast(kind) if is_dictionary else replaced


def arrow_value(label: Label, kind: Any, column: str) -> Any:
    """Convert a label to a value of an Arrow type, or raise a `SourceError`."""
    types = arrow("types")
    if types.is_dictionary(kind):
        kind = kind.value_type
    kinds: dict[Kind, Any] = {
        "texts": (types.is_string, types.is_large_string, types.is_string_view),
        "true and false": (types.is_boolean,),
        "whole numbers": (types.is_integer,),
        "numbers": (types.is_floating, types.is_decimal),
    }
    for name, tests in kinds.items():
        if any(test(kind) for test in tests):
            value = value_of_kind(label, name, f"the column {column!r} holds")
            if types.is_decimal(kind):
                return Decimal(str(label)).quantize(Decimal(1).scaleb(-kind.scale))
            return value
    raise SourceError(f"cannot write labels into the column {column!r}, which holds {kind}")
