"""Columns of cells that are all texts, as in a CSV file: which of them are numbers."""

from __future__ import annotations

from typing import Any

from discrimloss.auditing.sources.rows import arrow
from discrimloss.judging.verdicts import import_pandas

WORDS_FOR_MISSING = ("na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", "missing")
"""In a column of numbers, in any case. In a column of texts each of them is a text."""

_WHOLE = r"^[+-]?(0|[1-9][0-9]*)$"
_CODE = r"^[+-]?0[0-9]+$"


def as_numbers(cells: Any, decimal_comma: bool = False) -> Any | None:
    """A chunked array of texts as a pandas series of numbers, or None if they are no numbers.

    Numbers with leading zeros are codes (``00501``), and so is the whole column.

    Args:
        cells: texts; null where missing.
        decimal_comma: whether ``1,5`` is a number.
    """
    pyarrow, compute = arrow(), arrow("compute")
    trimmed = compute.utf8_trim_whitespace(cells)
    if decimal_comma:
        trimmed = compute.replace_substring(trimmed, ",", ".")
    words = pyarrow.array(["", *WORDS_FOR_MISSING])
    is_word = compute.is_in(compute.utf8_lower(trimmed), value_set=words)
    numerals = compute.if_else(is_word, None, trimmed)
    if numerals.null_count == len(numerals):
        return None
    if compute.any(compute.match_substring_regex(numerals, _CODE)).as_py():
        return None
    numerals = compute.replace_substring_regex(numerals, r"^\+", "")
    try:
        numbers = compute.cast(numerals, pyarrow.float64())
        if compute.all(compute.match_substring_regex(numerals, _WHOLE)).as_py():
            numbers = compute.cast(numerals, pyarrow.int64())
    except pyarrow.ArrowInvalid:  # not all are numbers, or a whole one has more than 18 digits
        try:
            numbers = compute.cast(numerals, pyarrow.float64())
        except pyarrow.ArrowInvalid:
            return None
    return numbers.to_pandas()


def as_truths(cells: Any) -> Any | None:
    """A chunked array of texts as a series of truth values, or None if they are none."""
    pyarrow, compute = arrow(), arrow("compute")
    lowered = compute.utf8_lower(cells)
    is_truth = compute.is_in(lowered, value_set=pyarrow.array(["true", "false"]))
    if not compute.all(compute.or_(is_truth, compute.is_null(cells))).as_py():
        return None
    if cells.null_count == len(cells):
        return None
    return compute.equal(lowered, "true").to_pandas().astype("boolean")


def typed(cells: Any, decimal_comma: bool = False) -> Any:
    """A chunked array of texts as a pandas series: numbers, truth values, or texts."""
    numbers = as_numbers(cells, decimal_comma)
    if numbers is not None:
        return numbers
    truths = as_truths(cells)
    return as_texts(cells) if truths is None else truths


def as_texts(cells: Any) -> Any:
    """A chunked array of texts as a pandas series of strings, None where missing."""
    return import_pandas().Series(cells.to_pandas().to_numpy(object), dtype=object)
