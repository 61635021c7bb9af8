"""Numbers with a unit or a bound, as in measurements: ``72,5 kg``, ``5.1 mg/dl``, ``<0.5``."""

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
"""With fewer, ``<18`` and ``18 to 30`` are categories."""
_MOST_BOUNDS = 0.5
_LONGEST_UNIT = 12
_BOUND = re.compile(r"(?:[<>≤≥≈~]=?|ca\.?\s)\s*", re.IGNORECASE)
# A unit may hold digits (m2), but does not begin with one, nor with a sign of dates and ranges.
_UNIT = re.compile(
    rf"(?P<number>.*?\d)\s*(?P<unit>[^\d\s.,:;/()+\-−'’][^,;:]{{0,{_LONGEST_UNIT}}})"
)


@dataclass(frozen=True)
class MeasureStyle(NumberStyle):
    """How a column writes numbers with a unit, or with bounds such as ``<0.5``."""

    unit: str = ""
    """What follows the numbers; empty where nothing does."""

    def number(self, value: Any) -> float:
        """A value as a number; a bound counts as the number that it names."""
        if not isinstance(value, str):
            return super().number(value)
        text, unit = _taken_apart(value)
        if unit.casefold() not in ("", self.unit.casefold()):
            return float("nan")
        return super().number(text)

    @property
    def is_plain(self) -> bool:
        """False: Python does not read units."""
        return False


def find_measures(values: Iterable[Any], decimal_comma: bool | None = None) -> MeasureStyle | None:
    """How values write measurements, or None if they are none.

    Args:
        values: different ones. A tenth of them may be something else.
        decimal_comma: what the rest of the file does, for values such as ``1.234``.
    """
    texts = _present(values)
    if len(texts) <= FEWEST_VALUES:
        return None
    if sum(_BOUND.match(text) is not None for text in texts) > _MOST_BOUNDS * len(texts):
        return None
    parts = [_taken_apart(text) for text in texts]
    units = Counter(unit.casefold() for _, unit in parts)
    unit = next((unit for unit, _ in units.most_common() if unit), "")
    fits = [text for text, its in parts if its.casefold() in ("", unit)]
    if len(fits) < READABLE * len(texts):
        return None
    style = find_style(fits, decimal_comma)
    return None if style is None else MeasureStyle(**asdict(style), unit=unit)


def several_units(values: Iterable[Any]) -> Sequence[str]:
    """The units of values that are numbers with different ones, the most frequent first.

    Args:
        values: different ones.

    Returns:
        Empty unless nearly all values are numbers with a few units.
    """
    texts = _present(values)
    parts = [_taken_apart(text) for text in texts]
    units = Counter(unit for text, unit in parts if unit and find_style([text]) is not None)
    frequent = [unit for unit, number in units.most_common() if number > 0.01 * len(texts)]
    is_clear = sum(units[unit] for unit in frequent) >= READABLE * len(texts)
    return frequent if is_clear and 1 < len(frequent) <= FEWEST_VALUES else ()


def _present(values: Iterable[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str) and not is_word_for_missing(value)]


def _taken_apart(text: str) -> tuple[str, str]:
    """A text without a bound and without the unit, and the unit."""
    bare = _BOUND.sub("", text.strip(), count=1) if _BOUND.match(text.strip()) else text.strip()
    found = _UNIT.fullmatch(bare)
    return (bare, "") if found is None else (found["number"], found["unit"].strip())
