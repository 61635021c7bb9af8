"""Detects how to read each column of a table: as numbers, dates, categories, texts or ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.measures import find_measures, several_units
from discrimloss.auditing.sources.numerals import (
    READABLE,
    NumberStyle,
    find_style,
    is_word_for_missing,
)
from discrimloss.judging.verdicts import import_pandas

Kind = Literal["number", "date", "category", "vector", "text"]

FEW_VALUES = 10
LONGEST_VECTOR = 4096
LOOKED_AT = 1_000
WORDS_OF_A_TEXT = 4
"""Mean number of words of a text column. Names and categories have fewer."""
USUAL_TEXTS = (
    *("text", "texts", "sentence", "content", "review", "question", "document", "comment", "body"),
    *("description", "message", "tweet", "headline", "title", "abstract", "utterance", "post"),
    *("beschreibung", "kommentar", "nachricht", "titel", "texte", "bewertung"),
)
YES_AND_NO = (
    *(("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("ja", "nein"), ("j", "n")),
    *(("wahr", "falsch"), ("oui", "non"), ("vrai", "faux"), ("sí", "no"), ("si", "no")),
    *(("sì", "no"), ("sim", "não"), ("tak", "nie"), ("да", "нет"), ("on", "off")),
)
_IDS = re.compile(
    r"(?i:(^|[^a-z])(id|ids|uid|uuid|guid|key|pk|index|idx|nr|kennung|kundennummer|rownames)$)"
    r"|(?i:^(unnamed: ?\d+|rownum|row_?number|record_?number|nummer)$)"
    r"|(?i:^(lfd|lauf)\W*.*(nr\.?|nummer)$)"
    r"|(?i:[^a-z](nr|no)\.$|[a-z][ _-]?nummer$)"
    r"|(?i:(order|customer|invoice|account|case|ticket|serial)[ _-]?number$)"
    r"|[a-z](Id|ID|Nr|UUID)$"
)
_OR = " or "
"""Separates two date formats of one column."""
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_TIMES = ("%H:%M", "%H:%M:%S", "%I:%M %p")
_ISO_DATES = ("ISO8601", "%Y/%m/%d", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y.%m.%d")
_DAY_AND_MONTH = tuple(
    (f"%d{sign}%m{sign}{year}{time}", f"%m{sign}%d{sign}{year}{time}")
    for sign in "./-"
    for year in ("%Y", "%y")
    for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p", ", %H:%M")
)


@dataclass(frozen=True)
class UsedColumn:
    """A column that a model learns from."""

    name: str
    kind: Kind
    date_format: str | None = None
    """Format of dates in text form."""
    style: NumberStyle | None = None
    """Style of numbers in text form."""
    yes: str | None = None
    """The word for yes in a column of two words, in lower case."""
    read_as: str = ""
    """How the column is read, for the user: ``"numbers, '1.969,39' is 1969.39"``."""


_NAMES_A_GROUP = re.compile(
    r"(?i:(^|[^a-z])(id|ids|uid|uuid|guid|kennung|kundennummer)$)|[a-z](Id|ID|Nr|UUID)$"
)
ROWS_PER_GROUP = 20
"""Mean number of rows per id. Columns such as ``shop_id`` with more rows per id are categories."""


def looks_like_id(name: str) -> bool:
    """Return whether the name of a column indicates row ids."""
    return _IDS.search(name.strip()) is not None


def understood(
    name: str, series: Any, decimal_comma: bool | None = None, is_wanted: bool = False
) -> UsedColumn | str:
    """Return how to use a column, or the reason why it is not used.

    Args:
        name: name of the column.
        series: values of the column.
        decimal_comma: whether the other columns have a decimal comma, if known.
        is_wanted: whether the user named the column. It is then used even if it identifies rows.
    """
    types = import_pandas().api.types
    present = series.dropna()
    if not len(present):
        return "it is empty"
    if types.is_bool_dtype(series.dtype):
        return _constant(present, len(series)) or UsedColumn(name, "category", read_as="yes and no")
    if types.is_numeric_dtype(series.dtype):
        if types.is_complex_dtype(series.dtype):
            return "it contains complex numbers"
        if not np.isfinite(present.to_numpy(np.float64)).any():
            return "none of its numbers is finite"
        if not is_wanted and (reason := _numbers_the_rows(name, series)):
            return reason
        if not is_wanted and (group := _names_groups(name, present)):
            return group
        return _constant(present, len(series)) or UsedColumn(name, "number", read_as="numbers")
    if types.is_datetime64_any_dtype(series.dtype) or types.is_timedelta64_dtype(series.dtype):
        return _constant(present, len(series)) or UsedColumn(name, "date", read_as="dates")
    first = present.iloc[0]
    if isinstance(first, (list, tuple, np.ndarray)):
        return _vector(name, present)
    if isinstance(first, (dict, bytes, bytearray)):
        return "it contains objects, which are neither numbers nor texts"
    try:
        distinct = import_pandas().unique(as_category(present))
    except TypeError:
        return "it contains lists or objects besides texts"
    return _texts(name, series, distinct, decimal_comma, is_wanted)


def _constant(present: Any, num_rows: int) -> str | None:
    if len(present) == num_rows and present.nunique() == 1:
        return f"all its values are {str(present.iloc[0])[:40]!r}"
    return None


def _numbers_the_rows(name: str, series: Any) -> str | None:
    """Return why a column of row numbers or row ids is not used, or None for other columns.

    In a table that is sorted by label, row numbers determine the label.
    """
    present = series.dropna().to_numpy()
    if len(present) <= FEW_VALUES:
        return None
    if not np.issubdtype(present.dtype, np.integer):
        with np.errstate(invalid="ignore"):
            numbers = present.astype(np.float64)
            if not (np.isfinite(numbers).all() and (numbers == np.floor(numbers)).all()):
                return None
            present = numbers
    # NumPy's differences of unsigned integers wrap around instead of being negative.
    values = present.astype(np.float64 if present.dtype == np.uint64 else np.int64)
    distinct = len(np.unique(values))
    # There may be gaps, because rows without a label are left out.
    is_dense = int(values.max()) - int(values.min()) < 2 * len(values)
    steps = np.diff(values)
    is_sorted = bool((steps > 0).all())
    if distinct == len(values) and is_dense and (is_sorted or looks_like_id(name)):
        return "it numbers the rows"
    if looks_like_id(name) and distinct > len(values) / 2:
        return "it identifies rows"
    return "it identifies rows, in increasing order" if is_sorted and len(values) > 30 else None


def _names_groups(name: str, present: Any) -> UsedColumn | str | None:
    """Return why a column with ids of groups of rows, such as patients, is not used.

    If few rows share an id, a model can infer the label of one from the others. If many rows share
    each numeric id, return how to use the column as categories. Return None for other columns.
    """
    if not _NAMES_A_GROUP.search(name.strip()) or len(present) <= FEW_VALUES:
        return None
    distinct = present.nunique()
    if distinct > max(FEW_VALUES, len(present) / ROWS_PER_GROUP):
        return f"it identifies groups of rows ({distinct:,} in {len(present):,} rows)"
    types = import_pandas().api.types
    if not types.is_numeric_dtype(present.dtype) or distinct == 1:
        return None
    return UsedColumn(name, "category", read_as=f"{distinct:,} categories")


def _vector(name: str, present: Any) -> UsedColumn | str:
    lengths = {len(value) if hasattr(value, "__len__") else -1 for value in present}
    if len(lengths) != 1 or not 0 < max(lengths) <= LONGEST_VECTOR:
        return "it contains lists of different lengths, or with too many values"
    try:
        np.asarray(present.iloc[:FEW_VALUES].tolist(), dtype=np.float32)
    except (TypeError, ValueError):
        return "it contains lists of other values than numbers"
    return UsedColumn(name, "vector", read_as=f"vectors of {max(lengths):,} numbers")


def _texts(
    name: str, series: Any, distinct: Any, decimal_comma: bool | None, is_wanted: bool
) -> UsedColumn | str:
    num_present = int(series.notna().sum())
    if not is_wanted and isinstance(group := _names_groups(name, series.dropna()), str):
        return group
    if len(distinct) == 1 and num_present == len(series):
        return f"all its values are {str(distinct[0])[:40]!r}"
    if (yes := _yes(distinct)) is not None:
        return UsedColumn(name, "category", yes=yes, read_as=f"yes and no, {yes!r} is yes")
    values = import_pandas().unique(series.dropna())
    style = find_style(values, decimal_comma)
    if style is not None:
        bounds = find_measures(values, decimal_comma)  # reads also bounds such as <0.5
        if bounds is not None and _num_lost(values, bounds) < _num_lost(values, style):
            style = bounds
        return _numerals(name, series, style, is_wanted)
    if len(distinct) > FEW_VALUES and (form := date_format(distinct)) is not None:
        return UsedColumn(name, "date", form, read_as=_dates_read_as(distinct, form))
    if (measures := find_measures(values, decimal_comma)) is not None:
        return _numerals(name, series, measures, is_wanted)
    if is_free_text(name, distinct, num_present):
        return UsedColumn(name, "text", read_as="texts")
    if len(distinct) > max(FEW_VALUES, num_present / 2) and not is_wanted:
        if units := several_units(values[:LOOKED_AT]):
            return (
                f"its numbers have several units, {', '.join(map(repr, units))}: convert them to "
                "one unit, or use a column for each"
            )
        if len(distinct) == num_present == len(series) and not _words(distinct) > 2:
            return "it identifies rows"
        return (
            f"nearly all its values differ ({len(distinct):,} in {num_present:,} rows); if it "
            f"holds the texts to learn from, pass --text {name!r}{_if_not_texts(distinct)}"
        )
    return UsedColumn(name, "category", read_as=f"{len(distinct):,} categories")


def _num_lost(values: Any, style: NumberStyle) -> int:
    return int(np.isnan(style.numbers(values)).sum())


def _if_not_texts(distinct: Any) -> str:
    """Return advice for values with digits that are neither numbers nor dates."""
    texts = [str(value) for value in distinct[:LOOKED_AT]]
    if 2 * sum(any(sign.isdigit() for sign in text) for text in texts) < len(texts):
        return ""
    return "; if it holds numbers or dates, write them like 1969.39 or 2020-01-23"


def _numerals(name: str, series: Any, style: NumberStyle, is_wanted: bool) -> UsedColumn | str:
    pandas = import_pandas()
    numbers = style.numbers(series)
    reason = _numbers_the_rows(name, pandas.Series(numbers)) if style.is_plain else None
    if reason is not None and not is_wanted:
        return reason
    is_lost = np.isnan(numbers) & series.notna().to_numpy()
    values = pandas.unique(series[~is_lost].dropna())
    if len(np.unique(numbers[np.isfinite(numbers)])) == 1 and not np.isnan(numbers).any():
        return f"all its values are {str(values[0])[:40]!r}"
    long = [value for value in values if isinstance(value, str) and len(value) > 4]
    bounds = [value for value in values if isinstance(value, str) and value[:1] in "<>≤≥≈~"]
    shown = (bounds or long or values)[0]
    read_as = "numbers" if style.is_plain else f"numbers, {shown!r} is {style.number(shown):.12g}"
    wrong = [value for value in series[is_lost] if not is_word_for_missing(value)]
    if wrong:
        read_as += f"; {len(wrong):,} that are none count as missing, such as {wrong[0][:20]!r}"
    return UsedColumn(name, "number", style=style, read_as=read_as)


def _yes(distinct: Any) -> str | None:
    """Return the word for yes, if values are words for yes and no."""
    words = {str(value).strip().casefold() for value in distinct}
    if len(words) != 2:
        return None
    return next((yes for yes, no in YES_AND_NO if words == {yes, no}), None)


def is_free_text(name: str, distinct: Any, num_present: int) -> bool:
    """Return whether a column contains texts to learn from, and not names or categories.

    Args:
        name: name of the column. Some names need fewer words.
        distinct: its distinct values.
        num_present: number of rows with a value.
    """
    if len(distinct) <= max(min(FEW_VALUES, num_present / 2), num_present / 5):
        return False
    words = _words(distinct)
    return words >= (2 if name.strip().casefold() in USUAL_TEXTS else WORDS_OF_A_TEXT)


def _words(distinct: Any) -> float:
    """Return the mean number of words. Two characters of Chinese or Thai count as a word."""
    counts = [
        max(len(text.split()), len(_CJK.findall(text)) // 2)
        for text in map(str, distinct[:LOOKED_AT])
    ]
    return sum(counts) / max(1, len(counts))


def date_format(texts: Sequence[str]) -> str | None:
    """Return the date format, if nearly all texts are dates.

    If no number exceeds 12, days and months cannot be told apart. Dates with points are then read
    with the day first, and others with the month first.
    """
    present = [text for text in map(str, texts) if not is_word_for_missing(text)]
    begin = present[0].strip()[:10] if present else ""
    if not any(character.isdigit() for character in begin) or not set(begin) & set("-/. :"):
        return None  # words, or codes such as 00501
    for form in (*_TIMES, *_ISO_DATES):
        if _are_dates(present, form):
            return form
    for day_first, month_first in _DAY_AND_MONTH:
        forms = (day_first, month_first) if "." in day_first else (month_first, day_first)
        fits = [form for form in forms if _are_dates(present, form)]
        if fits:  # the format that reads most dates; for ties, the first
            return max(fits, key=lambda form: parsed_dates(present, form).notna().sum())
    guessed = import_pandas().tseries.api.guess_datetime_format(begin and present[0].strip())
    if guessed is not None and _are_dates(present, guessed):
        return str(guessed)
    return _two_formats(present)


def _two_formats(texts: Sequence[str]) -> str | None:
    """Return two joined formats that together read nearly all texts.

    Both must have the same order: day first, or year first.
    """
    some = texts[:LOOKED_AT]
    forms = (*_ISO_DATES, *(day_first for day_first, _ in _DAY_AND_MONTH))
    numbers = {form: int(parsed_dates(some, form).notna().sum()) for form in forms}
    first = max(forms, key=lambda form: numbers[form])
    is_left = parsed_dates(some, first).isna().to_numpy()
    left = [text for text, its in zip(some, is_left, strict=True) if its]
    if not left or len(left) == len(some):
        return None
    second = max(forms, key=lambda form: parsed_dates(left, form).notna().sum())
    both = f"{first}{_OR}{second}"
    return both if _are_dates(texts, both) else None


def _are_dates(texts: Sequence[str], form: str) -> bool:
    for some in (texts[:FEW_VALUES], texts):  # the first few rule out most columns quickly
        if parsed_dates(some, form).notna().mean() < READABLE:
            return False
    return True


def parsed_dates(texts: Any, form: str) -> Any:
    """Return texts as a series of dates. Other texts are missing."""
    pandas = import_pandas()
    series = pandas.Series(texts, dtype=object)
    first, *others = form.split(_OR)
    dates = pandas.to_datetime(series, format=first, utc=True, errors="coerce")
    for other in others:
        dates = dates.fillna(pandas.to_datetime(series, format=other, utc=True, errors="coerce"))
    return dates


def _dates_read_as(texts: Any, form: str) -> str:
    examples = []
    for single in form.split(_OR):
        dates = parsed_dates(texts[:LOOKED_AT], single)
        place = int(dates.notna().to_numpy().argmax())
        if single in _TIMES:
            return f"times of day, such as {str(texts[place])!r}"
        examples.append(f"{str(texts[place])!r} is {dates.iloc[place].date()}")
    return f"dates, {' and '.join(examples)}"


def as_category(series: Any) -> npt.NDArray[np.object_]:
    """Return values as texts, None if missing. 1, 1.0 and "1" are the same category.

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
