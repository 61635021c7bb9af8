"""One colour, line and mark for each thing, on every page and figure.

Blue, amber and crimson differ in hue and in lightness for all common kinds of colour blindness, and
stand out from white and from dark grey; lines and marks differ besides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_COLOURS = {
    "easy": "#2e86c8",
    "hard": "#c88a00",
    "incorrect": "#c9356f",
    "unseen": "#8a8f98",
    "all samples": "#2e86c8",
    "truly clean": "#1f9471",
    "truly wrong": "#8464c9",
    "k1": "#2e86c8",
    "k_dyn": "#8a8f98",
    "k2": "#c9356f",
    "train": "#8a8f98",
    "validation": "#c88a00",
    "test": "#2e86c8",
}
DASHES = {
    "easy": "solid",
    "hard": "dash",
    "incorrect": "dot",
    "unseen": "longdash",
    "all samples": "solid",
    "truly clean": "solid",
    "truly wrong": "dot",
    "k1": "dash",
    "k_dyn": "solid",
    "k2": "dot",
    "train": "dash",
    "validation": "dot",
    "test": "solid",
}
MARKERS = {
    "easy": "circle",
    "hard": "diamond",
    "incorrect": "x",
    "unseen": "square",
    "all samples": "circle",
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
"""For methods beside each other."""
RUN_DASHES = ("solid", "dash", "dot", "dashdot")


def colour_of(name: str) -> str:
    """As ``#rrggbb``."""
    return _COLOURS[name]


def fill_of(name: str, opacity: float = 0.22) -> str:
    """The same colour, to be seen through."""
    colour = _COLOURS[name]
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def order_of(groups: Any) -> list[str]:
    """Which groups there are, in the order they are always shown in."""
    present = {str(group) for group in np.unique(groups)}
    return [name for name in _COLOURS if name in present]
