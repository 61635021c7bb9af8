"""Converts the columns of a table to features: scaled numbers, one-hot categories, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.column_reading import UsedColumn, as_category, parsed_dates
from discrimloss.auditing.sources.features import require_memory, standardised
from discrimloss.judging.verdicts import import_pandas

MOST_CATEGORIES = 64
"""Maximum number of categories of a column. Rarer categories are merged into one."""
LARGEST = 5.0
"""Maximum value of a feature. Outliers are compressed and keep their order."""
_NORMAL_RANGE = 1.349  # interquartile range of the standard normal distribution
_MISSING = "\0missing"  # cannot occur in a table

Features = npt.NDArray[np.float32]


def table_features(frame: Any, columns: Sequence[UsedColumn]) -> Features:
    """Turn columns into features of shape (rows, features).

    Numbers and dates are centred at their median and scaled by their interquartile range, so that
    outliers do not set the scale. Missing values become the median, and another feature marks them.
    Each category becomes one feature.

    Args:
        frame: a data frame with these columns.
        columns: how to read the columns. None of them contains texts.
    """
    widths = [_width(frame[column.name], column) for column in columns]
    require_memory(
        3.0 * 4.0 * len(frame) * sum(widths),
        f"training on {len(frame):,} rows with {sum(widths):,} features",
    )
    return np.concatenate([_features(frame[column.name], column) for column in columns], axis=1)


def ordinal_values(frame: Any, columns: Sequence[UsedColumn]) -> Features:
    """Return columns for tree models: numbers unchanged, categories as positions.

    Args:
        frame: a data frame with these columns.
        columns: how to read the columns. None of them contains texts.

    Returns:
        Shape (rows, columns); NaN where a value is missing.
    """
    return np.concatenate([_ordinal(frame[column.name], column) for column in columns], axis=1)


def _ordinal(series: Any, column: UsedColumn) -> Features:
    if column.kind == "vector":
        return _vectors(series)
    numbers = column_values(series, column)
    return np.where(np.isfinite(numbers), numbers, np.nan).astype(np.float32)[:, None]


def column_values(series: Any, column: UsedColumn) -> npt.NDArray[np.float64]:
    """Return a column of numbers, dates or categories as numbers, shape (rows,), NaN if missing.

    Args:
        series: the values.
        column: how to read them. Categories become positions in their sorted list.
    """
    if column.kind == "date":
        return _dates(series, column)
    if column.kind == "number":
        return _numbers(series, column)
    codes, _ = import_pandas().factorize(categories(series, column), sort=True)
    return np.where(codes < 0, np.nan, codes.astype(np.float64))


def categories(series: Any, column: UsedColumn) -> npt.NDArray[np.object_]:
    """Return categories as texts, None if missing. All words for yes are one category."""
    texts = as_category(series)
    if column.yes is None:
        return texts
    codes, distinct = import_pandas().factorize(texts)
    names = [str(str(text).strip().casefold() == column.yes) for text in distinct]
    words: npt.NDArray[np.object_] = np.array([*names, None], dtype=object)[codes]
    return words


def _width(series: Any, column: UsedColumn) -> int:
    """Return the approximate number of features of a column."""
    if column.kind == "category":
        return int(min(MOST_CATEGORIES, series.nunique() + 1))
    return len(series.dropna().iloc[0]) if column.kind == "vector" else 2


def _features(series: Any, column: UsedColumn) -> Features:
    if column.kind == "category":
        return _one_hot(series, column)
    if column.kind == "vector":
        return _vectors(series)
    return scaled_numbers(column_values(series, column))


def _numbers(series: Any, column: UsedColumn) -> npt.NDArray[np.float64]:
    if column.style is not None:
        return column.style.numbers(series)
    numbers: npt.NDArray[np.float64] = series.to_numpy(np.float64, na_value=np.nan)
    return numbers


def _dates(series: Any, column: UsedColumn) -> npt.NDArray[np.float64]:
    """Return dates as numbers, NaN if missing."""
    pandas = import_pandas()
    if column.date_format is not None:
        series = parsed_dates(as_category(series), column.date_format)
    is_missing = series.isna().to_numpy()
    if pandas.api.types.is_datetime64_any_dtype(series.dtype):
        series = pandas.to_datetime(series, utc=True).dt.tz_localize(None)
    numbers: npt.NDArray[np.float64] = series.to_numpy().astype(np.int64).astype(np.float64)
    numbers[is_missing] = np.nan
    return numbers


def scaled_numbers(numbers: npt.NDArray[np.float64]) -> Features:
    """Return one column of features. If some numbers are not finite, a second column marks them."""
    from sklearn.impute import SimpleImputer

    column = np.where(np.isfinite(numbers), numbers, np.nan)[:, None]
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    filled = imputer.fit_transform(column)
    present = column[np.isfinite(column)]
    low, middle, high = np.quantile(present, [0.25, 0.5, 0.75])
    spread = (high - low) / _NORMAL_RANGE
    if spread == 0.0:  # most values are equal
        spread = float(present.std()) or 1.0
    filled[:, 0] = compressed((filled[:, 0] - middle) / spread)
    features: Features = filled.astype(np.float32)
    return features


def compressed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Compress values: those below 1 hardly change, and none exceeds `LARGEST`."""
    result: npt.NDArray[Any] = values / np.sqrt(1.0 + (values / LARGEST) ** 2)
    return result


def _one_hot(series: Any, column: UsedColumn) -> Features:
    from sklearn.preprocessing import OneHotEncoder

    texts = categories(series, column)
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
