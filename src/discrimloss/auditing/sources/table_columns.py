"""What the columns of a table are good for: numbers, categories, dates, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.base import SourceError
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import import_pandas

Kind = Literal["number", "date", "category", "vector"]

MOST_CATEGORIES = 64
"""Of one column; the rarer ones of a column with more are one category together."""
FEW_VALUES = 10
LONGEST_VECTOR = 4096
_DAY_FIRST, _MONTH_FIRST = (
    ("%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y"),
    ("%m/%d/%Y", "%m.%d.%Y", "%m-%d-%Y"),
)
_DATES = ("ISO8601", "%Y/%m/%d", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M")


@dataclass(frozen=True)
class UsedColumn:
    """A column that a model learns from."""

    name: str
    kind: Kind
    date_format: str | None = None
    """Of a column of dates that are written as texts."""


@dataclass(frozen=True)
class ColumnPlan:
    """Which columns to use, how, and what to say about the others."""

    used: tuple[UsedColumn, ...]
    notes: tuple[str, ...]


class _LeftAsideError(DiscrimLossError):
    """A column that is of no use, and why."""


def plan_columns(frame: Any, target: npt.NDArray[Any] | None = None) -> ColumnPlan:
    """Look at every column of a frame.

    Args:
        frame: the samples' rows, without labels and names.
        target: their labels, to notice a column that gives them away.

    Raises:
        SourceError: no column can be used.
    """
    used, notes = [], []
    for name in frame.columns:
        series = frame[name]
        try:
            column = _understood(str(name), series)
        except _LeftAsideError as reason:
            notes.append(f"the column {name!r} is left aside: {reason}")
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


def _understood(name: str, series: Any) -> UsedColumn:
    types = import_pandas().api.types
    present = series.dropna()
    if not len(present):
        raise _LeftAsideError("it is empty")
    if types.is_bool_dtype(series.dtype):
        _require_different(present, len(series))
        return UsedColumn(name, "category")
    if types.is_numeric_dtype(series.dtype):
        if types.is_complex_dtype(series.dtype):
            raise _LeftAsideError("it holds complex numbers")
        if not np.isfinite(present.to_numpy(np.float64)).any():
            raise _LeftAsideError("none of its numbers is finite")
        _require_different(present, len(series))
        _require_no_row_numbers(series)
        return UsedColumn(name, "number")
    if types.is_datetime64_any_dtype(series.dtype) or types.is_timedelta64_dtype(series.dtype):
        _require_different(present, len(series))
        return UsedColumn(name, "date")
    first = present.iloc[0]
    if isinstance(first, (list, tuple, np.ndarray)):
        return _vector(name, present)
    if isinstance(first, (dict, bytes, bytearray)):
        raise _LeftAsideError("it holds objects, which are neither numbers nor texts")
    return _texts(name, present, len(series))


def _require_different(present: Any, num_rows: int) -> None:
    if len(present) == num_rows and present.nunique() == 1:
        raise _LeftAsideError(f"all its values are {str(present.iloc[0])[:40]!r}")


def _require_no_row_numbers(series: Any) -> None:
    """Row numbers say nothing of a sample, and in a sorted table they give its label away."""
    values = series.to_numpy()
    if len(values) <= FEW_VALUES or not np.issubdtype(values.dtype, np.integer):
        return
    values = values.astype(np.int64)  # differences of unsigned numbers are never negative
    # With gaps, as rows without a label leave them.
    if bool((np.diff(values) > 0).all()) and int(values[-1]) - int(values[0]) < 2 * len(values):
        raise _LeftAsideError("it numbers the rows")


def _vector(name: str, present: Any) -> UsedColumn:
    lengths = {len(value) if hasattr(value, "__len__") else -1 for value in present}
    if len(lengths) != 1 or not 0 < max(lengths) <= LONGEST_VECTOR:
        raise _LeftAsideError("it holds lists of different lengths, or of too many values")
    try:
        np.asarray(present.iloc[:FEW_VALUES].tolist(), dtype=np.float32)
    except (TypeError, ValueError):
        raise _LeftAsideError("it holds lists that are not of numbers") from None
    return UsedColumn(name, "vector")


def _texts(name: str, present: Any, num_rows: int) -> UsedColumn:
    try:
        distinct = import_pandas().unique(as_category(present))
    except TypeError:
        raise _LeftAsideError("it holds lists or objects besides texts") from None
    if len(distinct) == 1 and len(present) == num_rows:
        raise _LeftAsideError(f"all its values are {str(distinct[0])[:40]!r}")
    if len(distinct) > FEW_VALUES and (form := _date_format(distinct)) is not None:
        return UsedColumn(name, "date", form)
    if len(distinct) > max(FEW_VALUES, len(present) / 2):
        raise _LeftAsideError(
            f"nearly all its values differ ({len(distinct):,} in {len(present):,} rows); if it "
            f"holds the texts to learn from, pass --text {name!r}"
        )
    return UsedColumn(name, "category")


def _date_format(texts: Any) -> str | None:
    """The format of dates, if all are dates and it is plain which number is the month."""
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
        parsed_dates(texts[:FEW_VALUES], form)  # soon told of most
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
    # Different values only are looked at: there may be millions of rows.
    names = np.array([*map(_category_name, distinct), None], dtype=object)
    texts: npt.NDArray[np.object_] = names[codes]  # what is missing has the code -1
    return texts


def _category_name(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def gives_labels_away(series: Any, kind: Kind, target: npt.NDArray[Any]) -> bool:
    """Whether a column's value alone says what the label is.

    For classes: few values, and none of them has two labels. For numbers: a straight line.
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
