"""The columns of a table: which ones a model can learn from, and the features they become."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from discrimloss.auditing.sources.base import (
    Contents,
    ModelInputs,
    Samples,
    SampleView,
    SourceError,
)
from discrimloss.auditing.sources.features import require_memory, standardised
from discrimloss.data.base import TensorInputs
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    from discrimloss.auditing.sources.tables import Rows

Kind = Literal["number", "date", "category", "vector"]

MOST_CATEGORIES = 64
"""Of one column; rarer ones are merged into one category."""
FEW_VALUES = 10
LONGEST_VECTOR = 4096
_DAY_FIRST, _MONTH_FIRST = (
    ("%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y"),
    ("%m/%d/%Y", "%m.%d.%Y", "%m-%d-%Y"),
)
LARGEST = 5.0
"""No feature is larger: outliers are compressed and keep their order."""
_NORMAL_RANGE = 1.349  # between the quartiles of a normal distribution with spread 1
_MISSING = "\0missing"  # no text of a table
_DATES = ("ISO8601", "%Y/%m/%d", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M")


Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class UsedColumn:
    """A column that a model learns from."""

    name: str
    kind: Kind
    date_format: str | None = None
    """Of dates that are written as texts."""


@dataclass(frozen=True)
class ColumnPlan:
    """Which columns to use and how, with notes on the others."""

    used: tuple[UsedColumn, ...]
    notes: tuple[str, ...]


class Columns(Contents):
    """Rows of a table of which a model learns from several columns.

    Args:
        rows: of the table.
        samples: which of them can be audited.
        hidden: columns that are not inputs: labels and ids.
        label_column: the one that reviewers do not see in a row.
    """

    kind = "table"

    def __init__(
        self, rows: Rows, samples: Samples, hidden: set[str], label_column: str | None
    ) -> None:
        self._rows, self._numbers, self._label_column = rows, samples.rows, label_column
        names = [name for name in rows.columns if name not in hidden]
        frame = rows.frame(names).iloc[samples.rows]
        self._plan = plan_columns(frame, samples.target.numpy())
        self.notes = self._plan.notes

    def model_inputs(self, cache: Path | None, fingerprint: str) -> ModelInputs:
        """Scaled numbers and one-hot categories. Nothing is cached."""
        features = torch.from_numpy(table_features(self.raw_inputs(), self._plan))
        return ModelInputs(TensorInputs(features), tuple(features.shape[1:]))

    def ordinal_and_features(self) -> tuple[npt.NDArray[np.float32], Features]:
        """The columns for trees, see `ordinal_values`, and for linear models."""
        frame = self.raw_inputs()
        return ordinal_values(frame, self._plan), table_features(frame, self._plan)

    def raw_inputs(self) -> Any:
        """A data frame of the columns that are used."""
        used = [column.name for column in self._plan.used]
        return self._rows.frame(used).iloc[self._numbers].reset_index(drop=True)

    def view(self, index: int, close: bool = False) -> SampleView:
        """The row, without its label."""
        row = self._rows.row(int(self._numbers[index]))
        return SampleView(fields=tuple(field for field in row if field[0] != self._label_column))


def plan_columns(frame: Any, target: npt.NDArray[Any] | None = None) -> ColumnPlan:
    """Decide for every column of a frame whether and how to use it.

    Args:
        frame: the samples' rows, without labels and ids.
        target: their labels, to notice a column that determines them.

    Raises:
        SourceError: no column can be used.
    """
    used, notes = [], []
    for name in frame.columns:
        series = frame[name]
        column = _understood(str(name), series)
        if isinstance(column, str):
            notes.append(f"the column {name!r} is left aside: {column}")
            continue
        used.append(column)
        if target is not None and gives_labels_away(series, column.kind, target):
            notes.append(
                f"the column {name!r} determines the label: if it was made from the labels, take "
                "it out of the table and audit again, or wrong labels will not stand out"
            )
    if not used:
        reasons = "; ".join(notes) or "there is no column besides the labels"
        raise SourceError(f"no column can be learnt from: {reasons}")
    return ColumnPlan(tuple(used), tuple(notes))


def _understood(name: str, series: Any) -> UsedColumn | str:
    """How to use a column, or the reason why not."""
    types = import_pandas().api.types
    present = series.dropna()
    if not len(present):
        return "it is empty"
    if types.is_bool_dtype(series.dtype):
        return _constant(present, len(series)) or UsedColumn(name, "category")
    if types.is_numeric_dtype(series.dtype):
        if types.is_complex_dtype(series.dtype):
            return "it holds complex numbers"
        if not np.isfinite(present.to_numpy(np.float64)).any():
            return "none of its numbers is finite"
        if _numbers_the_rows(series):
            return "it numbers the rows"
        return _constant(present, len(series)) or UsedColumn(name, "number")
    if types.is_datetime64_any_dtype(series.dtype) or types.is_timedelta64_dtype(series.dtype):
        return _constant(present, len(series)) or UsedColumn(name, "date")
    first = present.iloc[0]
    if isinstance(first, (list, tuple, np.ndarray)):
        return _vector(name, present)
    if isinstance(first, (dict, bytes, bytearray)):
        return "it holds objects, which are neither numbers nor texts"
    return _texts(name, present, len(series))


def _constant(present: Any, num_rows: int) -> str | None:
    if len(present) == num_rows and present.nunique() == 1:
        return f"all its values are {str(present.iloc[0])[:40]!r}"
    return None


def _numbers_the_rows(series: Any) -> bool:
    """Row numbers say nothing about a sample, and in a sorted table they determine its label."""
    values = series.to_numpy()
    if len(values) <= FEW_VALUES or not np.issubdtype(values.dtype, np.integer):
        return False
    values = values.astype(np.int64)  # differences of unsigned numbers are never negative
    # There may be gaps: rows without a label are left out.
    return bool((np.diff(values) > 0).all()) and int(values[-1]) - int(values[0]) < 2 * len(values)


def _vector(name: str, present: Any) -> UsedColumn | str:
    lengths = {len(value) if hasattr(value, "__len__") else -1 for value in present}
    if len(lengths) != 1 or not 0 < max(lengths) <= LONGEST_VECTOR:
        return "it holds lists of different lengths, or of too many values"
    try:
        np.asarray(present.iloc[:FEW_VALUES].tolist(), dtype=np.float32)
    except (TypeError, ValueError):
        return "it holds lists that are not of numbers"
    return UsedColumn(name, "vector")


def _texts(name: str, present: Any, num_rows: int) -> UsedColumn | str:
    try:
        distinct = import_pandas().unique(as_category(present))
    except TypeError:
        return "it holds lists or objects besides texts"
    if len(distinct) == 1 and len(present) == num_rows:
        return f"all its values are {str(distinct[0])[:40]!r}"
    if len(distinct) > FEW_VALUES and (form := _date_format(distinct)) is not None:
        return UsedColumn(name, "date", form)
    if len(distinct) > max(FEW_VALUES, len(present) / 2):
        return (
            f"nearly all its values differ ({len(distinct):,} in {len(present):,} rows); if it "
            f"holds the texts to learn from, pass --text {name!r}"
        )
    return UsedColumn(name, "category")


def _date_format(texts: Any) -> str | None:
    """The format, if all texts are dates and it is clear which number is the month."""
    begin = str(texts[0])[:10]
    if not any(character.isdigit() for character in begin) or not set(begin) & set("-/."):
        return None  # neither words nor codes such as 00501
    pairs = list(zip(_DAY_FIRST, _MONTH_FIRST, strict=True))
    for form in _DATES:
        if _all_dates(texts, form):
            return form
    for day_first, month_first in pairs:
        fits = [form for form in (day_first, month_first) if _all_dates(texts, form)]
        if fits:
            return fits[0] if len(fits) == 1 else None
    return None


def _all_dates(texts: Any, form: str) -> bool:
    try:
        parsed_dates(texts[:FEW_VALUES], form)  # rules out most columns quickly
        parsed_dates(texts, form)
    except (ValueError, OverflowError):
        return False
    return True


def parsed_dates(texts: Any, form: str) -> Any:
    """Texts as dates, or a `ValueError`."""
    return import_pandas().to_datetime(texts, format=form, utc=True)


def as_category(series: Any) -> npt.NDArray[np.object_]:
    """Values as texts, None where missing; 1 and 1.0 and "1" are the same category.

    Raises:
        TypeError: there are lists or objects among them.
    """
    codes, distinct = import_pandas().factorize(series)
    # Only distinct values are converted: there may be millions of rows.
    names = np.array([*map(_category_name, distinct), None], dtype=object)
    texts: npt.NDArray[np.object_] = names[codes]  # missing values have the code -1
    return texts


def _category_name(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def gives_labels_away(series: Any, kind: Kind, target: npt.NDArray[Any]) -> bool:
    """Whether a column alone determines the label.

    Of classes: it has few values, and none of them has two labels. Of regression targets: they are
    a linear function of it.
    """
    pandas = import_pandas()
    if kind not in ("number", "category"):
        return False
    is_present = series.notna().to_numpy()
    labels = target[is_present]
    if np.issubdtype(target.dtype, np.floating):
        if kind != "number" or len(labels) < FEW_VALUES:
            return False
        values = series[is_present].to_numpy(np.float64)
        if not np.isfinite(values).all() or values.std() == 0.0 or labels.std() == 0.0:
            return False
        return abs(float(np.corrcoef(values, labels)[0, 1])) > 1.0 - 1e-9
    codes, distinct = pandas.factorize(series[is_present])
    num_classes = len(np.unique(target))
    if not num_classes <= len(distinct) <= len(labels) / 4:
        return False
    pairs = codes.astype(np.int64) * (int(target.max()) + 1) + labels
    return len(np.unique(pairs)) == len(distinct)


def table_features(frame: Any, plan: ColumnPlan) -> Features:
    """Turn columns into features of shape (rows, features).

    Numbers and dates are centred at their median and scaled by the range between their quartiles,
    so that outliers do not set the scale. Missing ones become the median, and one more feature
    marks them. Each category becomes one feature.

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


def ordinal_values(frame: Any, plan: ColumnPlan) -> Features:
    """Columns as trees split them: numbers as they are, categories as positions.

    Args:
        frame: with the columns of the plan.
        plan: see `plan_columns`.

    Returns:
        Shape (rows, columns); NaN where a value is missing.
    """
    return np.concatenate([_ordinal(frame[column.name], column) for column in plan.used], axis=1)


def _ordinal(series: Any, column: UsedColumn) -> Features:
    if column.kind == "vector":
        return _vectors(series)
    if column.kind == "category":
        codes, _ = import_pandas().factorize(as_category(series), sort=True)
        numbers = np.where(codes < 0, np.nan, codes.astype(np.float64))
    else:
        numbers = _dates(series, column) if column.kind == "date" else _numbers(series)
    return np.where(np.isfinite(numbers), numbers, np.nan).astype(np.float32)[:, None]


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
    """Dates as numbers, NaN where missing."""
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
    filled[:, 0] = compressed((filled[:, 0] - middle) / spread)
    features: Features = filled.astype(np.float32)
    return features


def compressed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values below 1 hardly change, and none exceeds `LARGEST`."""
    result: npt.NDArray[Any] = values / np.sqrt(1.0 + (values / LARGEST) ** 2)
    return result


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
