"""Reads numbers in common notations: ``1.969,39 €``, ``12,5 %``, ``1'234.50``, ``(1,200)``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

WORDS_FOR_MISSING = (
    *("na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", "--", "missing"),
    *("k.a.", "k. a.", "keine angabe", "unbekannt", "unknown", "fehlt", "n.a.", "nd", "n.d."),
)
"""Words for a missing number, in any letter case. In a column of texts, they are ordinary texts."""
LOOKED_AT = 200
READABLE = 0.9
"""Minimum fraction of values that must be numbers. The others count as missing."""
_UNITS = (
    *"%‰$¢£¥€₹₽₩₪₺₴₦₫₱฿",
    *("EUR", "USD", "GBP", "CHF", "JPY", "CNY", "INR", "RUB", "BRL", "CAD", "AUD", "SEK", "NOK"),
    *("DKK", "PLN", "CZK", "HUF", "TRY", "Euro", "Fr.", "kr", "zł", "Kč", "R$"),
)
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_SPACES = " \u00a0\u202f\u2009"
_APOSTROPHES = "'’"
_NUMERAL = re.compile(
    rf"(?P<minus>[+\-−(]?)\s*(?P<before>{_UNIT})?\s*(?P<sign>[+\-−]?)"
    rf"(?P<body>\d(?:[\d.,{_APOSTROPHES}{_SPACES}]*\d)?|[.,]\d+)"
    rf"(?P<after>\s*(?:{_UNIT}))?\s*(?P<end>[-)]?)",
    re.IGNORECASE,
)
_CODE = re.compile(r"0\d")
_PLAIN = re.compile(r"[+-]?(?=\.?\d)(0|[1-9]\d*)?(\.\d+)?([eE][+-]?\d{1,2})?")
"""A number with at least one digit before any exponent: ``E11`` is a code."""


@dataclass(frozen=True)
class NumberStyle:
    """The notation of the numbers in a column."""

    decimal: str = "."
    """``"."`` or ``","``."""
    thousands: str = ""
    """The separator of groups of three digits. May be empty."""
    before: str = ""
    after: str = ""
    """A currency or a percent sign, with its space."""
    decimals: int | None = None
    """Number of digits after the decimal separator, if all numbers have the same."""

    def number(self, value: Any) -> float:
        """Return a value as a number, or NaN if it is not a number."""
        if not isinstance(value, str):
            try:
                return float(value)
            except (TypeError, ValueError):
                return float("nan")
        found = _parts(value)
        if found is None:
            return float("nan")
        body, is_negative = found
        separators = _SPACES + _APOSTROPHES + (self.thousands if self.thousands in ",." else "")
        whole, _, fraction = body.partition(self.decimal)
        groups = re.split(f"[{re.escape(separators)}]", whole) if separators else [whole]
        digits = "".join(groups)
        is_grouped = len(groups) == 1 or (
            0 < len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
        )
        if not is_grouped or not (digits + fraction).isdecimal():
            return float("nan")
        return (-1.0 if is_negative else 1.0) * float(f"{digits or 0}.{fraction or 0}")

    def numbers(self, values: Any) -> npt.NDArray[np.float64]:
        """Return the values of a series as numbers. NaN if missing or not a number."""
        from discrimloss.judging.verdicts import import_pandas

        codes, distinct = import_pandas().factorize(values)
        read = np.array([*(self.number(value) for value in distinct), np.nan], dtype=np.float64)
        numbers: npt.NDArray[np.float64] = read[codes]  # missing values have the code -1
        return numbers

    def write(self, number: float) -> str:
        """Return a number in the notation of the column."""
        if self.decimals is not None:
            plain = f"{abs(number):.{self.decimals}f}"
        else:
            plain = f"{abs(number):.12f}".rstrip("0").rstrip(".")
        whole, _, fraction = plain.partition(".")
        if self.thousands:
            whole = f"{int(whole):,}".replace(",", self.thousands)
        body = whole + (self.decimal + fraction if fraction else "")
        return f"{'-' if number < 0 else ''}{self.before}{body}{self.after}"

    @property
    def is_plain(self) -> bool:
        """Whether Python can read these numbers directly."""
        return (self.decimal, self.thousands, self.before, self.after) == (".", "", "", "")


def is_word_for_missing(value: Any) -> bool:
    """Return whether a text means a missing number."""
    return isinstance(value, str) and value.strip().casefold() in ("", *WORDS_FOR_MISSING)


def find_style(values: Iterable[Any], decimal_comma: bool | None = None) -> NumberStyle | None:
    """Return the notation of values, or None if they are not numbers.

    Args:
        values: distinct texts or numbers. A tenth of them may be something else.
        decimal_comma: whether the rest of the file has a decimal comma, for values such as
            ``1.234``.
    """
    present = [value for value in values if not is_word_for_missing(value)]
    texts = [value for value in present if isinstance(value, str)]
    if not texts or not _may_be_numbers(texts[:LOOKED_AT]):
        return None
    found = [parts for parts in map(_parts, texts) if parts is not None]
    bodies = [body for body, _ in found]
    if len(texts) - len(found) > (1.0 - READABLE) * len(present):
        return None
    if any(_CODE.match(body) for body in bodies):  # 00501 and 030 1234 are codes
        return None
    units = Counter(map(_units, texts))
    kinds = {(before.strip(), after.strip()) for before, after in units} - {("", "")}
    if len(kinds) > 1:  # several currencies cannot be compared
        return None
    if units[("", "")] and kinds & {("", "%"), ("", "‰")}:  # 12 % next to 0.12
        return None
    decimal = _decimal(bodies, decimal_comma)
    before, after = next(unit for unit, _ in units.most_common() if any(unit) or not kinds)
    style = NumberStyle(decimal, _thousands(bodies, decimal), before, after)
    readable = sum(not np.isnan(style.number(value)) for value in present)
    if readable < READABLE * len(present):
        return None
    decimals = {len(body.partition(decimal)[2]) for body in bodies}
    return NumberStyle(
        decimal, style.thousands, before, after, decimals.pop() if len(decimals) == 1 else None
    )


def shows_decimal_comma(values: Iterable[Any]) -> bool:
    """Return whether more of the numbers clearly have a decimal comma than a decimal point."""
    found = map(_parts, (value for value in values if isinstance(value, str)))
    votes = Counter(_vote(parts[0]) for parts in found if parts is not None)
    return votes[","] > votes["."]


def is_doubtful(values: Sequence[str]) -> bool:
    """Return whether numbers may have a point between thousands: ``987``, ``1.234``, ``12.345``."""
    dotted = [value for value in values if "." in value]
    return bool(dotted) and all(_vote(value.lstrip("+-")) is None for value in dotted)


def _may_be_numbers(texts: Sequence[str]) -> bool:
    """Return whether at least half of the texts look like numbers: a quick first test."""
    return 2 * sum(_parts(text) is not None for text in texts) >= len(texts)


def _parts(text: str) -> tuple[str, bool] | None:
    """Return the digits and separators of a numeral, and whether it is negative."""
    stripped = text.strip()
    found = _NUMERAL.fullmatch(stripped)
    if found is None:
        if stripped and _PLAIN.fullmatch(stripped):  # such as 1e-5
            return f"{abs(float(stripped)):.20f}".rstrip("0"), float(stripped) < 0
        return None
    minus, end = found["minus"], found["end"]
    if (minus == "(") != (end == ")"):
        return None
    is_negative = "(" in minus or end == "-" or any(c in minus + found["sign"] for c in "-−")
    return found["body"], is_negative


def _units(text: str) -> tuple[str, str]:
    found = _NUMERAL.fullmatch(text.strip())
    if found is None:
        return "", ""
    before = found["before"] or ""
    if before and text.strip()[found.end("before") : found.start("body")].startswith(" "):
        before += " "
    return before, found["after"] or ""


def _vote(body: str) -> str | None:
    """Return the decimal separator of a numeral, or None if it is ambiguous."""
    points, commas = body.count("."), body.count(",")
    if points and commas:
        return "," if body.rindex(",") > body.rindex(".") else "."
    if not points and not commas:
        return None
    sign = "." if points else ","
    if points + commas > 1:
        return "," if sign == "." else "."
    whole, _, fraction = body.partition(sign)
    if any(character in whole for character in _SPACES + _APOSTROPHES):
        return sign
    is_group = len(fraction) == 3 and 1 <= len(whole) <= 3 and not whole.startswith("0")
    return None if is_group else sign


def _decimal(bodies: Sequence[str], decimal_comma: bool | None) -> str:
    votes = Counter(_vote(body) for body in bodies)
    if votes["."] or votes[","]:
        return "," if votes[","] > votes["."] else "."
    has_comma = any("," in body for body in bodies)
    sign = "," if has_comma else "."
    if not has_comma and not any("." in body for body in bodies):
        return "."
    if decimal_comma is not None and (decimal_comma or has_comma):
        return "," if decimal_comma else "."
    # Three digits follow every sign. Commas then separate thousands. So do points, if there are
    # numbers without a point and all of them have at most three digits.
    lengths = [len(body) for body in bodies if sign not in body]
    is_thousands = has_comma or (bool(lengths) and max(lengths) <= 3)
    return ("." if sign == "," else ",") if is_thousands else sign


def _thousands(bodies: Sequence[str], decimal: str) -> str:
    signs = ("," if decimal == "." else ".", *_APOSTROPHES, *_SPACES)
    counts = {sign: sum(sign in body for body in bodies) for sign in signs}
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best] else ""
