"""Targets with several labels per sample, which an audit of classes would take for classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discrimloss.auditing.sources.base import SourceError

SIGNS = (",", ";", "|", "/", "+")
FEWEST_LABELS = 3
SHARED = 0.8
"""The fraction of parts that must occur in two different labels or more."""
_WAY_OUT = (
    "audit one label at a time, with a column of its own that says whether a sample has it (in "
    "pandas, {})"
)


def refuse_lists(values: Any) -> None:
    """Raise a `SourceError` if labels are lists."""
    first = next((v for v in values if isinstance(v, (list, tuple, set, np.ndarray))), None)
    if first is not None:
        raise SourceError(
            f"a label is a list or an object, such as {str(list(first))[:60]}, and an audit takes "
            "one label per sample: "
            + _WAY_OUT.format('frame["label"].map(lambda labels: "a" in labels)')
        )


def refuse_several_labels(names: Sequence[str]) -> None:
    """Raise a `SourceError` if labels look like several, as in ``"sports, politics"``.

    They do if the parts of most of them occur in other labels as well: "Food, drinks" and "Toys"
    are classes, and "a,b", "b" and "a,c" are not.

    Args:
        names: the different labels.
    """
    for sign in SIGNS:
        split = [[part.strip() for part in name.split(sign)] for name in names]
        several = [parts for parts in split if len(parts) > 1]
        if len(several) < 2 or any(not part for parts in several for part in parts):
            continue
        if all(part.replace(".", "").isdecimal() for parts in several for part in parts):
            continue  # numbers and dates
        counts: dict[str, int] = {}
        for parts in split:
            for part in set(parts):
                counts[part] = counts.get(part, 0) + 1
        used = {part for parts in several for part in parts}
        shared = sum(counts[part] > 1 for part in used)
        if len(counts) >= FEWEST_LABELS and shared >= SHARED * len(used):
            if len(counts) >= len(names):
                continue  # as many parts as labels: ranges such as 10-20
            example = next(name for name in names if sign in name)
            between = f"{sign} " if f"{sign} " in example else sign
            dummies = f'frame["label"].str.get_dummies("{between}")'
            raise SourceError(
                f"labels such as {example[:60]!r} seem to be several of {len(counts)} labels: "
                f"{_WAY_OUT.format(dummies)}; if each is a class of its own, pass --no-regression"
            )
