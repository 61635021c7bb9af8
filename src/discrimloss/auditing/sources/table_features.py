"""From the columns of a table to features that a small network learns from well."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.features import standardised
from discrimloss.auditing.sources.memory import require_memory
from discrimloss.auditing.sources.table_columns import (
    MOST_CATEGORIES,
    ColumnPlan,
    UsedColumn,
    as_category,
    parsed_dates,
)
from discrimloss.judging.verdicts import import_pandas

Features = npt.NDArray[np.float32]

LARGEST = 5.0
"""No feature is larger than this: far values are drawn in, and stay in order."""
_NORMAL_RANGE = 1.349  # between the quartiles of a normal distribution with spread 1
_MISSING = "\0missing"  # no text of a table


def table_features(frame: Any, plan: ColumnPlan) -> Features:
    """Features of shape (rows, features).

    Numbers and dates are centred at their median and scaled by the range between their quartiles,
    so that a few odd values do not press all others together; where some are missing they become
    the median, and one more feature says so. Categories become one feature each.

    Args:
        frame: with the columns of the plan.
        plan: see `plan_columns`.
    """
    widths = [_width(frame[column.name], column) for column in plan.used]
    require_memory(
        3.0 * 4.0 * len(frame) * sum(widths),
        f"training on {len(frame):,} rows with {sum(widths):,} features",
    )
    return np.concatenate([_features(frame[column.name], column) for column in plan.used], axis=1)


def _width(series: Any, column: UsedColumn) -> int:
    """About how many features a column becomes."""
    if column.kind == "category":
        return int(min(MOST_CATEGORIES, series.nunique() + 1))
    return len(series.dropna().iloc[0]) if column.kind == "vector" else 2


def _features(series: Any, column: UsedColumn) -> Features:
    if column.kind == "category":
        return _one_hot(series)
    if column.kind == "vector":
        return _vectors(series)
    return scaled_numbers(_dates(series, column) if column.kind == "date" else _numbers(series))


def _numbers(series: Any) -> npt.NDArray[np.float64]:
    numbers: npt.NDArray[np.float64] = series.to_numpy(np.float64, na_value=np.nan)
    return numbers


def _dates(series: Any, column: UsedColumn) -> npt.NDArray[np.float64]:
    """Dates as numbers, NaN where there is none."""
    pandas = import_pandas()
    if column.date_format is not None:
        series = pandas.Series(parsed_dates(as_category(series), column.date_format))
    is_missing = series.isna().to_numpy()
    if pandas.api.types.is_datetime64_any_dtype(series.dtype):
        series = pandas.to_datetime(series, utc=True).dt.tz_localize(None)
    numbers: npt.NDArray[np.float64] = series.to_numpy().astype(np.int64).astype(np.float64)
    numbers[is_missing] = np.nan
    return numbers


def scaled_numbers(numbers: npt.NDArray[np.float64]) -> Features:
    """One column of features, and a second one where numbers are missing or not finite."""
    from sklearn.impute import SimpleImputer

    column = np.where(np.isfinite(numbers), numbers, np.nan)[:, None]
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    filled = imputer.fit_transform(column)
    present = column[np.isfinite(column)]
    low, middle, high = np.quantile(present, [0.25, 0.5, 0.75])
    spread = (high - low) / _NORMAL_RANGE
    if spread == 0.0:  # most values are the same
        spread = float(present.std()) or 1.0
    filled[:, 0] = drawn_in((filled[:, 0] - middle) / spread)
    features: Features = filled.astype(np.float32)
    return features


def drawn_in(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Nearly the same below 1, and never beyond `LARGEST`."""
    smaller: npt.NDArray[Any] = values / np.sqrt(1.0 + (values / LARGEST) ** 2)
    return smaller


def _one_hot(series: Any) -> Features:
    from sklearn.preprocessing import OneHotEncoder

    texts = as_category(series)
    texts[series.isna().to_numpy()] = _MISSING
    encoder = OneHotEncoder(
        max_categories=MOST_CATEGORIES, drop="if_binary", sparse_output=False, dtype=np.float32
    )
    features: Features = encoder.fit_transform(texts[:, None])
    return features


def _vectors(series: Any) -> Features:
    is_present = series.notna().to_numpy()
    vectors = np.asarray(series[is_present].tolist(), dtype=np.float32)
    features = np.zeros((len(series), vectors.shape[1]), np.float32)
    features[is_present] = standardised(np.nan_to_num(vectors)).numpy()
    return features
