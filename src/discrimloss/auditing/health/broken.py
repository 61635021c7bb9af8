"""Finds samples without content: empty texts, blank images, rows without values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Broken = dict[int, str]
"""The problem of each broken sample, in a few words."""

PLACEHOLDERS = frozenset(
    (
        *("nan", "null", "none", "n/a", "na", "nil", "undefined", "tbd"),
        *("#n/a", "#ref!", "#value!", "#name?", "[deleted]", "[removed]"),
    )
)
MOJIBAKE = re.compile("�|Ã[\x80-¿]|â(?:€|\x80)[\x90-™š-ž]")
"""The replacement character, and UTF-8 that was read as Latin-1 or Windows-1252."""
EMOTICON = re.compile(r"[:;=][-'^]?[)(\]\[DPp/\\|*3]|[)(][-'^]?[:;=]|<3|\^_*\^")
LEAST_CONTRAST = 1.5
"""An image is blank if the values of each channel, 0 to 255, have a smaller standard deviation."""
MOSTLY = 0.5
"""A row is nearly empty if it lacks a larger fraction of values, and most rows lack far less."""
ROWS_AT_ONCE = 4_096


def broken_texts(texts: Sequence[str]) -> Broken:
    """Find texts without words, placeholders, and texts that were decoded wrongly."""
    found = {}
    for index, text in enumerate(texts):
        stripped = text.strip().casefold()
        if stripped in PLACEHOLDERS:
            found[index] = f"placeholder {stripped!r}"
        elif not any(map(_has_content, stripped)) and not EMOTICON.search(text):
            found[index] = "no letters or digits"
        elif MOJIBAKE.search(text):
            found[index] = "characters that were decoded wrongly"
    return found


def _has_content(character: str) -> bool:
    """Return whether a character is a letter, digit or symbol (such as a heart)."""
    return character.isalnum() or unicodedata.category(character) == "So"


def broken_rows(frame: Any) -> Broken:
    """Find rows of a table that lack all or most of their values.

    Args:
        frame: a data frame of the columns that models learn from.
    """
    if not frame.shape[1]:
        return {}
    missing = frame.isna().to_numpy().mean(1)
    usual = float(np.median(missing))
    found: Broken = {}
    for index in np.flatnonzero(missing > max(MOSTLY, usual + 0.25)).tolist():
        gone = round(missing[index] * frame.shape[1])
        found[index] = (
            "all values are missing"
            if gone == frame.shape[1]
            else f"{gone} of {frame.shape[1]} values are missing"
        )
    return found


def broken_pictures(pictures: npt.NDArray[np.uint8]) -> Broken:
    """Find blank images, which have a single colour.

    Args:
        pictures: shape (samples, channels, height, width).
    """
    found: Broken = {}
    for first in range(0, len(pictures), ROWS_AT_ONCE):
        spread = pictures[first : first + ROWS_AT_ONCE].std((2, 3), dtype=np.float32).max(1)
        for place in np.flatnonzero(spread < LEAST_CONTRAST).tolist():
            found[first + place] = "blank: one colour all over"
    return found


def broken_features(features: npt.NDArray[Any]) -> Broken:
    """Find rows whose features are all equal."""
    if features.ndim != 2 or features.shape[1] < 2:
        return {}
    is_constant = features.max(1) == features.min(1)
    return dict.fromkeys(np.flatnonzero(is_constant).tolist(), "all features are equal")
