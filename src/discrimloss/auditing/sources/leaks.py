"""Detects columns that leak the label. A model would learn wrong labels from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.column_features import column_values
from discrimloss.auditing.sources.column_reading import FEW_VALUES, UsedColumn
from discrimloss.judging.verdicts import import_pandas

NEARLY = 0.98
"""A column nearly determines the label if this fraction of the labels follows from it."""
ROWS_PER_CLASS = 20
"""Minimum number of rows per class. With fewer, a column may order the classes by chance."""


@dataclass(frozen=True)
class Leak:
    """How a column determines the label."""

    fraction: float
    """Fraction of the rows whose label the column determines."""

    @property
    def is_complete(self) -> bool:
        """Whether the column determines all labels."""
        return self.fraction == 1.0


def find_leak(series: Any, column: UsedColumn, target: npt.NDArray[Any]) -> Leak | None:
    """Return how a column alone determines the label, or None.

    For classes, (nearly) all values of the column have a single label, or its sorted values contain
    one class after the other. Regression targets rise or fall monotonically with the column.

    Args:
        series: the values of the column.
        column: how they are read.
        target: the labels: positions of classes, or regression targets.
    """
    if column.kind not in ("number", "date", "category"):
        return None
    values = column_values(series, column)
    is_present = np.isfinite(values)
    values, labels = values[is_present], target[is_present]
    if len(labels) < FEW_VALUES:
        return None
    if np.issubdtype(target.dtype, np.floating):
        return _of_numbers(values, labels) if column.kind == "number" else None
    return _of_classes(values, labels, len(np.unique(target)), column.kind != "category")


def marked_class(series: Any, column: UsedColumn, target: npt.NDArray[Any]) -> int | None:
    """Return the class that a column of two values separates from all others, or None.

    Such columns come from one-hot encoded labels.

    Args:
        series: the values of the column.
        column: how they are read.
        target: positions of classes.
    """
    if column.kind not in ("number", "category") or np.issubdtype(target.dtype, np.floating):
        return None
    codes, distinct = import_pandas().factorize(column_values(series, column))
    if len(distinct) != 2 or (codes < 0).any():
        return None
    for code in (0, 1):
        classes = np.unique(target[codes == code])
        is_whole = len(classes) == 1 and not (target[codes != code] == classes[0]).any()
        if is_whole and (codes == code).sum() >= ROWS_PER_CLASS:
            return int(classes[0])
    return None


def _of_numbers(values: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Leak | None:
    pandas = import_pandas()
    if len(np.unique(values)) < FEW_VALUES or len(np.unique(labels)) < FEW_VALUES:
        return None
    ranks = [pandas.Series(numbers).rank().to_numpy() for numbers in (values, labels)]
    return Leak(1.0) if abs(float(np.corrcoef(*ranks)[0, 1])) > 1.0 - 1e-9 else None


def _of_classes(
    values: npt.NDArray[Any], labels: npt.NDArray[Any], num_classes: int, has_order: bool
) -> Leak | None:
    codes, distinct = import_pandas().factorize(values)
    if num_classes <= len(distinct) <= len(labels) / 4:
        pairs, numbers = np.unique(
            codes.astype(np.int64) * (int(labels.max()) + 1) + labels, return_counts=True
        )
        largest = np.zeros(len(distinct), np.int64)
        np.maximum.at(largest, pairs // (int(labels.max()) + 1), numbers)
        fraction = float(largest.sum() / len(labels))
        if fraction == 1.0:
            return Leak(1.0)
        others = 1.0 - float(np.bincount(labels).max() / len(labels))
        is_near = fraction >= NEARLY and 1.0 - fraction <= others / 5
        if is_near and len(distinct) <= max(num_classes, len(labels) / ROWS_PER_CLASS):
            return Leak(fraction)
    if has_order and len(labels) >= ROWS_PER_CLASS * num_classes:
        order = np.lexsort((labels, values))
        changes = np.flatnonzero(np.diff(labels[order]))
        is_tied = (values[order][changes] == values[order][changes + 1]).any()
        if not is_tied and len(changes) + 1 <= 2 * num_classes:
            return Leak(1.0)
    return None
