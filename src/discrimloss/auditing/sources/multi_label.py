"""Detects targets with several labels per sample, which an audit would read as classes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from discrimloss.auditing.sources.base import SourceError

SIGNS = (",", ";", "|", "/", "+", "\n")
WEAK_SIGNS = ("&", " and ", " und ", " ")
"""Separators that class names may contain. Labels are split at them only if every part is also a
label."""
FEWEST_LABELS = 3
SHARED = 0.8
"""Minimum fraction of the parts that occur in two or more different labels."""
_LIST = re.compile(r"\[.*\]|\{.*\}|\(.*,.*\)", re.DOTALL)
_ADVICE = (
    "audit one label at a time, with a column that says whether a sample has the label (in "
    "pandas, {})"
)


def refuse_lists(values: Any) -> None:
    """Raise a `SourceError` if labels are lists."""
    first = next((v for v in values if isinstance(v, (list, tuple, set, np.ndarray))), None)
    if first is not None:
        raise SourceError(
            f"a label is a list or an object, such as {str(list(first))[:60]}, but an audit needs "
            "one label per sample: "
            + _ADVICE.format('frame["label"].map(lambda labels: "a" in labels)')
        )


def refuse_several_labels(names: Sequence[str]) -> None:
    """Raise a `SourceError` if names contain several labels each, as ``"sports, politics"`` does.

    Names contain several labels if most of their parts occur in other names too: "Food, drinks" and
    "Toys" are classes, but "a,b", "b" and "a,c" are not. Parts that always have the same position
    are not labels: "Smith, John" and "Doe, John".

    Args:
        names: the distinct labels.
    """
    _refuse_written_lists(names)
    for sign in (*SIGNS, *WEAK_SIGNS):
        split = [[part.strip() for part in name.split(sign)] for name in names]
        if not _are_several(split, is_weak=sign in WEAK_SIGNS):
            continue
        parts = {part for its in split for part in its}
        example = next(name for name in names if sign in name)
        left, _, right = example.partition(sign)
        between = f"{' ' * left.endswith(' ')}{sign}{' ' * right.startswith(' ')}"
        dummies = f'frame["label"].str.get_dummies({json.dumps(between)})'
        raise SourceError(
            f"labels such as {example[:60]!r} seem to be several of {len(parts)} labels: "
            f"{_ADVICE.format(dummies)}; if each is a class, pass --no-regression"
        )


def _refuse_written_lists(names: Sequence[str]) -> None:
    """Raise a `SourceError` if labels are lists as texts: ``['a', 'b']`` or ``["a", "b"]``."""
    lists = [name for name in names if _LIST.fullmatch(name.strip())]
    if lists and 2 * len(lists) > len(names):
        raise SourceError(
            f"labels such as {lists[0][:60]!r} are lists, but an audit needs one label per sample: "
            + _ADVICE.format('frame["label"].str.contains("\'a\'", regex=False)')
            + "; if each is a class, pass --no-regression"
        )


def _are_several(split: Sequence[Sequence[str]], is_weak: bool) -> bool:
    """Return whether labels, split at a separator, consist of other labels."""
    several = [parts for parts in split if len(parts) > 1]
    if not several or any(not part for parts in several for part in parts):
        return False
    if all(part.replace(".", "").isdecimal() for parts in several for part in parts):
        return False  # numbers and dates
    alone = {parts[0] for parts in split if len(parts) == 1}
    # Every part is also a label: "A", "B" and "A,B".
    if all(part in alone for parts in several for part in parts):
        return not is_weak or len(several) > 1  # "rock", "pop" and "pop rock" are classes
    if is_weak:
        return False
    counts: dict[str, int] = {}
    places: dict[str, set[int]] = {}
    for parts in split:
        for place, part in enumerate(parts):
            counts[part] = counts.get(part, 0) + 1
            places.setdefault(part, set()).add(place)
    used = {part for parts in several for part in parts}
    if len(several) < 2 or len(counts) < FEWEST_LABELS:
        return False
    if sum(counts[part] > 1 for part in used) < SHARED * len(used):
        return False
    return any(part in alone or len(places[part]) > 1 for part in used)
