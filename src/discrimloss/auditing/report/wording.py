"""Formats numbers for users, in the same way on the terminal, in notebooks and in reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

COLUMNS_SHOWN = 8
"""Number of columns that are named for each way of reading."""
UNIT = "\N{NO-BREAK SPACE}%"


def percent(fraction: float) -> str:
    """Return a fraction in percent, such as ``12.3 %``.

    Only exact values are ``0 %`` and ``100 %``. Others are rounded to ``< 0.1 %`` or ``> 99.9 %``.
    """
    if 0.0 < fraction < 0.0005:
        return f"< 0.1{UNIT}"
    if 0.9995 <= fraction < 1.0:
        return f"> 99.9{UNIT}"
    digits = 1 if 0.0 < fraction < 1.0 else 0
    return f"{100 * fraction:.{digits}f}{UNIT}"


def probability_percent(probability: float) -> str:
    """Like `percent`, but for estimates, which are never ``0 %`` or ``100 %``."""
    return percent(min(max(float(probability), 1e-9), 1.0 - 1e-9))


def percent_range(interval: Sequence[float]) -> str:
    """Return a range of fractions in percent, such as ``10.0 % to 15.0 %``."""
    return f"{percent(interval[0])} to {percent(interval[1])}"


def counted_percent(number: int, total: int) -> str:
    """Return a number with its percentage, such as ``512 (10.2 %)``."""
    return f"{number:,} ({percent(number / max(total, 1))})"


def rate_text(rate: float | None, interval: Sequence[float] | None) -> str:
    """Return a noise rate with its interval: ``11.0 % (7.5 % to 15.1 %)``."""
    if rate is None:
        return "not known"
    return percent(rate) + (f" ({percent_range(interval)})" if interval else "")


def duration(seconds: float) -> str:
    """Return seconds such as ``11.2 s``, as in ``summary.json``. Long runs also get their hours."""
    hours = f" ({seconds / 3600:.1f} h)" if seconds >= 3600 else ""
    return f"{seconds:,.1f} s{hours}"


def about_minutes(minutes: float) -> str:
    """Return a time such as ``5 minutes``. From two hours on, the unit is hours."""
    if minutes >= 120:
        return counted(round(minutes / 60), "hour")
    return counted(max(1, round(minutes)), "minute")


def columns_text(columns: Sequence[Mapping[str, str]]) -> str:
    """Return the columns that models learn from, grouped by how they are read.

    Example: ``age, height (numbers); smoker (yes and no, 'ja' is yes)``.
    """
    alike: dict[str, list[str]] = {}
    for column in columns:
        alike.setdefault(column["read_as"], []).append(column["name"])
    return "; ".join(f"{_first(names)} ({read_as})" for read_as, names in alike.items())


def _first(names: Sequence[str]) -> str:
    more = len(names) - COLUMNS_SHOWN
    return ", ".join(names[:COLUMNS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as ``1 class`` or ``12 classes``."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
