"""One colour, line and mark for each group, on every page and in every figure.

Blue, amber and crimson differ in hue and lightness for all common kinds of colour blindness. They
stand out from white and from dark grey. Lines and marks differ as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SOLID, DASH, DOT, LONG_DASH, DASH_DOT = [1, 0], [7, 4], [2, 3], [12, 4], [7, 3, 2, 3]

_STYLES = {
    "easy": ("#2e86c8", SOLID, "circle"),
    "hard": ("#c88a00", DASH, "diamond"),
    "undecided": ("#8464c9", DASH_DOT, "square"),
    "incorrect": ("#c9356f", DOT, "cross"),
    "unseen": ("#8a8f98", LONG_DASH, "square"),
    "all samples": ("#2e86c8", SOLID, "circle"),
    "truly clean": ("#1f9471", SOLID, "circle"),
    "truly wrong": ("#8464c9", DOT, "diamond"),
    "k1": ("#2e86c8", DASH, "circle"),
    "k_dyn": ("#8a8f98", SOLID, "circle"),
    "k2": ("#c9356f", DOT, "circle"),
    "train": ("#8a8f98", DASH, "circle"),
    "validation": ("#c88a00", DOT, "circle"),
    "test": ("#2e86c8", SOLID, "circle"),
}
RUN_COLOURS = (
    "#2e86c8",
    "#c9356f",
    "#1f9471",
    "#c88a00",
    "#8464c9",
    "#4aa3b5",
    "#b0603a",
    "#7d8a2e",
)
"""Colours of methods in a comparison."""
RUN_DASHES = (SOLID, DASH, DOT, DASH_DOT)


def colour_of(name: str) -> str:
    """Return the colour of a group as ``#rrggbb``."""
    return _STYLES[name][0]


def dash_of(name: str) -> list[int]:
    """Return the lengths of the dashes and gaps of a group's lines, in pixels."""
    return _STYLES[name][1]


def mark_of(name: str) -> str:
    """Return the shape of a group's points."""
    return _STYLES[name][2]


def order_of(groups: Any) -> list[str]:
    """Return the distinct groups in their fixed order."""
    present = {str(group) for group in np.unique(groups)}
    return [name for name in _STYLES if name in present]
