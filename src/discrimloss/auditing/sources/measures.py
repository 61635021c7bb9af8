"""Reads measurements, numbers with a unit or a bound: ``72,5 kg``, ``5.1 mg/dl``, ``<0.5``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from discrimloss.auditing.sources.numerals import (
    READABLE,
    NumberStyle,
    find_style,
    is_word_for_missing,
)

FEWEST_VALUES = 10
"""Minimum number of distinct values. With fewer, ``<18`` and ``18 to 30`` are categories."""
_MOST_BOUNDS = 0.5
_LONGEST_UNIT = 12
_BOUND = re.compile(r"(?:[<>≤≥≈~]=?|ca\.?\s)\s*", re.IGNORECASE)
# A unit may contain digits (m2), but begins neither with a digit nor with a sign of dates or
# ranges.
_UNIT = re.compile(
    rf"(?P<number>.*?\d)\s*(?P<unit>[^\d\s.,:;/()+\-−'’][^,;:]{{0,{_LONGEST_UNIT}}})"
)


@dataclass(frozen=True)
class MeasureStyle(NumberStyle):
    """How a column writes numbers with a unit, or with bounds such as ``<0.5``."""

    unit: str = ""
    """The unit after the numbers, or an empty text."""

    def number(self, value: Any) -> float:
        """Return a value as a number. A bound is read as its number."""
        if not isinstance(value, str):
            return super().number(value)
        text, unit = _split_measure(value)
        if unit.casefold() not in ("", self.unit.casefold()):
            return float("nan")
        return super().number(text)

    @property
    def is_plain(self) -> bool:
        """Return False, because Python does not read units."""
        return False


def find_measures(values: Iterable[Any], decimal_comma: bool | None = None) -> MeasureStyle | None:
    """Return how values write measurements, or None if they are not measurements.

    Args:
        values: distinct values. A tenth of them may be something else.
        decimal_comma: whether the rest of the file has a decimal comma, for values such as
            ``1.234``.
    """
    texts = _present(values)
    if len(texts) <= FEWEST_VALUES:
        return None
    if sum(_BOUND.match(text) is not None for text in texts) > _MOST_BOUNDS * len(texts):
        return None
    parts = [_split_measure(text) for text in texts]
    units = Counter(unit.casefold() for _, unit in parts)
    unit = next((unit for unit, _ in units.most_common() if unit), "")
    fits = [text for text, its in parts if its.casefold() in ("", unit)]
    if len(fits) < READABLE * len(texts):
        return None
    style = find_style(fits, decimal_comma)
    return None if style is None else MeasureStyle(**asdict(style), unit=unit)


def several_units(values: Iterable[Any]) -> Sequence[str]:
    """Return the units of numbers with several units, most frequent first.

    Args:
        values: distinct values.

    Returns:
        The units. Empty unless nearly all values are numbers with a few units.
    """
    texts = _present(values)
    parts = [_split_measure(text) for text in texts]
    units = Counter(unit for text, unit in parts if unit and find_style([text]) is not None)
    frequent = [unit for unit, number in units.most_common() if number > 0.01 * len(texts)]
    is_clear = sum(units[unit] for unit in frequent) >= READABLE * len(texts)
    return frequent if is_clear and 1 < len(frequent) <= FEWEST_VALUES else ()


def _present(values: Iterable[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str) and not is_word_for_missing(value)]


def _split_measure(text: str) -> tuple[str, str]:
    """Return a text without bound and unit, and the unit."""
    bare = _BOUND.sub("", text.strip(), count=1) if _BOUND.match(text.strip()) else text.strip()
    found = _UNIT.fullmatch(bare)
    return (bare, "") if found is None else (found["number"], found["unit"].strip())
