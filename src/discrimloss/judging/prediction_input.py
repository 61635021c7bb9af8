"""Checks labels and predictions from users, and converts them to one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.state.sample_ids import SampleId

SUM_TOLERANCE = 1e-2
"""Largest difference of a row sum of probabilities from 1."""
NO_PROBABILITIES = "pass the output of a network before its softmax as logits="


@dataclass(frozen=True)
class LabelClasses:
    """Labels as positions of columns, and the user's names of the columns."""

    position: npt.NDArray[np.int64]
    names: list[Any]
    """Strings or integers."""

    def named(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return class names by position."""
        kind = object if any(isinstance(name, str) for name in self.names) else np.int64
        return np.array(self.names, dtype=kind)[positions]


def as_array(values: Any) -> npt.NDArray[Any]:
    """Convert a list, tensor or pandas object to an array."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.float() if values.dtype == torch.bfloat16 else values
        return np.asarray(values.numpy())
    return np.asarray(values)


def require_same_index(labels: Any, predicted: Any, name: str) -> None:
    """Raise an error if the rows of pandas objects are in different orders."""
    ours: Any = getattr(labels, "index", None)
    theirs: Any = getattr(predicted, "index", None)
    if not (hasattr(ours, "equals") and hasattr(theirs, "equals")):
        return
    if len(labels) == len(predicted) and not ours.equals(theirs):
        raise ValueError(
            f"labels and {name} have different indexes: bring the rows into the same order, or "
            "pass arrays"
        )


def default_ids(labels: Any) -> list[SampleId] | None:
    """Return the index of a pandas Series as ids, or None if it is not usable or not needed.

    It is usable if it holds unique strings or integers, and not needed if it is only 0, 1, 2, ...
    """
    index: Any = getattr(labels, "index", None)
    if not hasattr(index, "equals") or not index.is_unique:
        return None
    values = index.tolist()
    is_numbered = values == list(range(len(values)))
    return None if is_numbered or not all(isinstance(v, (str, int)) for v in values) else values


def checked_labels(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Check that no label is missing. Integers in an object array become an integer array."""
    if labels.ndim != 1:
        raise ValueError(f"labels must have the shape (samples,), but have {labels.shape}")
    missing: npt.NDArray[np.bool_] = np.zeros(len(labels), dtype=np.bool_)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "O":
        # Missing values of pandas are also not equal to themselves.
        missing = np.array([one is None or (one == one) is not True for one in labels])
    if missing.any():
        raise ValueError(
            f"the label of sample {int(missing.argmax())} is missing: leave out samples without "
            "a label"
        )
    if labels.dtype.kind == "O" and all(type(label) is int for label in labels):
        return labels.astype(np.int64)
    return labels


def finite_numbers(values: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    """Convert values to float64, or raise an error if they are not finite numbers."""
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must contain numbers: {error}") from error
    finite = np.isfinite(numbers).reshape(len(numbers), -1).all(1)
    if not finite.all():
        raise ValueError(f"{name} of sample {int((~finite).argmax())} are not finite numbers")
    return np.asarray(numbers)


def prediction_matrix(predicted: Any, name: str, samples: int) -> Tensor:
    """Return checked predictions as a float64 tensor, shape (samples, classes)."""
    array = as_array(predicted)
    if array.ndim != 2 or len(array) != samples or array.shape[1] < 2:
        raise ValueError(
            f"{name} must have the shape ({samples}, classes), a row for each label and at least "
            f"two columns, but have {array.shape}"
        )
    array = finite_numbers(array, name)
    if name == "pred_probs":
        wrong = (array < 0.0).any(1)
        if wrong.any():
            raise ValueError(
                f"pred_probs of sample {int(wrong.argmax())} are negative: {NO_PROBABILITIES}"
            )
        sums = array.sum(1)
        wrong = np.abs(sums - 1.0) > SUM_TOLERANCE
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"pred_probs of sample {row} sum to {sums[row]:.4g}, not to 1: {NO_PROBABILITIES}"
            )
    return torch.from_numpy(array)


def match_classes(
    given: npt.NDArray[Any], number: int, class_names: Sequence[Any] | None, name: str
) -> LabelClasses:
    """Return labels as positions of columns."""
    if given.dtype.kind == "f":
        if (given != np.floor(given)).any():
            raise ValueError(
                "labels are fractions: classes need names or whole numbers, and regression needs "
                "predictions="
            )
        given = given.astype(np.int64)
    if given.dtype.kind == "b":
        given = given.astype(np.int64)
    names = None if class_names is None else _names(class_names)
    if names is None and given.dtype.kind not in "iu":
        names = sorted({str(label) for label in given})
        if len(names) != number:
            raise ValueError(
                f"labels name {len(names)} classes and {name} have {number} columns: pass "
                "class_names, the name of each column"
            )
    if names is None:
        names = list(range(number))
    elif len(names) != number:
        raise ValueError(f"class_names name {len(names)} classes, but {name} have {number} columns")
    classes = LabelClasses(_positions(given, names), names)
    counts = np.bincount(classes.position, minlength=number)
    if not counts.all():
        absent = ", ".join(repr(names[i]) for i in np.flatnonzero(counts == 0))
        raise ValueError(
            f"no label names the class {absent}: without its labels, its noise cannot be "
            f"estimated. Leave out its column of {name}"
            + (" and divide each row by its new sum" if name == "pred_probs" else "")
        )
    return classes


def _names(class_names: Sequence[Any]) -> list[Any]:
    """Return names as strings, or as integers if all are integers."""
    are_integers = all(isinstance(name, (int, np.integer)) for name in class_names)
    names = [int(name) if are_integers else str(name) for name in class_names]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"class_names hold {repeated!r} more than once")
    return names


def _positions(given: npt.NDArray[Any], names: list[Any]) -> npt.NDArray[np.int64]:
    column_of = {str(name): column for column, name in enumerate(names)}
    labels = [str(label) for label in given.tolist()]
    unknown = next((i for i, label in enumerate(labels) if label not in column_of), None)
    if unknown is None:
        return np.array([column_of[label] for label in labels], dtype=np.int64)
    if given.dtype.kind in "iu" and given.min() >= 0 and given.max() < len(names):
        return given.astype(np.int64)  # positions of classes that have names
    shown = ", ".join(repr(name) for name in names[:10]) + (", …" if len(names) > 10 else "")
    raise ValueError(
        f"the label {given.tolist()[unknown]!r} of sample {unknown} is not one of the classes "
        f"{shown}: correct it, or pass class_names, the name of each column"
    )
