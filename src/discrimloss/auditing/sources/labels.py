"""Labels as they are given, to classes or to numbers: one rule for all sources.

- Texts, truth values and categories are classes.
- Whole numbers are classes if there are at most `MOST_CLASSES` different ones, each with
  `SAMPLES_PER_CLASS` samples on average, or if there are just two. Otherwise they are numbers to
  regress on, as ages or counts are.
- Other numbers are for a regression. If all happen to be whole, as 0.0 and 1.0, the rule for whole
  numbers holds: a column with gaps is often read so.
- Missing are None, NaN and texts without a letter. A text such as "NA" is a class.

What a person says (`regression`) comes before the rule.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import SourceError
from discrimloss.judging.verdicts import import_pandas

MOST_CLASSES = 100
SAMPLES_PER_CLASS = 3
FEW_SAMPLES = 10
"""So many may all have different labels by chance."""
NAMES_IN_A_NOTE = 5

Values = list[Any]


@dataclass(frozen=True)
class ReadLabels:
    """Labels that a model can learn, and which were missing."""

    target: Tensor
    """Shape (labelled samples,): int64 positions in `class_names`, or float32 numbers."""
    class_names: tuple[str, ...]
    """Sorted, numbers by their value; empty for a regression."""
    is_missing: npt.NDArray[np.bool_]
    """Shape (samples,)."""
    notes: tuple[str, ...]
    """What a person should know of how the labels were read."""


def read_labels(values: Any, regression: bool | None) -> ReadLabels:
    """Labels of any kind, understood.

    Args:
        values: shape (samples,): a list, an array, or a pandas series.
        regression: whether they are numbers to regress on; None: by the rule above.

    Raises:
        SourceError: nothing can be learnt from them.
    """
    pandas = import_pandas()
    codes, distinct = pandas.factorize(pandas.Series(values))
    # From here on only different values are looked at: there may be millions of samples.
    kinds: Values = [_plain(value) for value in distinct]
    is_blank = np.array([isinstance(v, str) and not v.strip() for v in kinds] + [True])
    is_missing: npt.NDArray[np.bool_] = is_blank[codes]  # pandas gives what is missing the code -1
    codes = codes[~is_missing]
    used = np.unique(codes)
    _require_some(len(is_missing), len(codes))
    position = np.zeros(len(kinds), dtype=np.int64)
    position[used] = np.arange(len(used))
    codes, kinds = position[codes], [kinds[code] for code in used]
    if _is_regression(kinds, len(codes), regression):
        return _numbers(codes, kinds, is_missing, was_asked_for=regression is not None)
    return _classes(codes, kinds, is_missing, was_asked_for=regression is not None)


def class_notes(target: Tensor, class_names: tuple[str, ...]) -> tuple[str, ...]:
    """What is odd about classes: some that have one sample, names that are almost the same."""
    notes = []
    counts = torch.bincount(target, minlength=len(class_names)).tolist()
    lone = [name for name, count in zip(class_names, counts, strict=True) if count == 1]
    if lone:
        notes.append(
            f"{_listed(lone)} {'has' if len(lone) == 1 else 'have'} one sample only: "
            "whether its label is right cannot be learnt from others"
        )
    alike = defaultdict(list)
    for name in class_names:
        alike[name.strip().casefold()].append(name)
    for names in alike.values():
        if len(names) > 1:
            notes.append(f"{_listed(names)} count as different classes, though they look alike")
    return tuple(notes)


def sorted_names(names: set[str]) -> tuple[str, ...]:
    """Names of classes in the order that people expect: "2" before "10"."""
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))


def _require_some(num_samples: int, num_labelled: int) -> None:
    if num_samples == 0:
        raise SourceError("there are no samples: nothing can be audited")
    if num_labelled == 0:
        raise SourceError(f"all {num_samples:,} labels are missing: name the column that has them")
    if num_labelled < 2:
        raise SourceError("only one sample has a label: an audit needs two or more")


def _plain(value: Any) -> Any:
    """A value of Python: pandas and NumPy have their own truth values, numbers and bytes."""
    if isinstance(value, np.generic):
        value = value.item()
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_regression(kinds: Values, num_samples: int, asked: bool | None) -> bool:
    if asked is not None:
        return asked
    if not all(_is_number(value) for value in kinds):
        return False
    if not all(float(value).is_integer() for value in kinds):
        return True
    if len(kinds) <= 2:
        return False
    return len(kinds) > MOST_CLASSES or num_samples < SAMPLES_PER_CLASS * len(kinds)


def _numbers(
    codes: npt.NDArray[np.int64],
    kinds: Values,
    is_missing: npt.NDArray[np.bool_],
    was_asked_for: bool,
) -> ReadLabels:
    numbers = torch.tensor([_as_number(value) for value in kinds], dtype=torch.float32)
    if not numbers.isfinite().all():
        worst = kinds[int((~numbers.isfinite()).nonzero()[0])]
        raise SourceError(
            f"a label is {worst!r}, which nothing can learn: correct it, or leave it empty"
        )
    if bool(numbers.min() == numbers.max()):
        raise SourceError(f"all labels are {kinds[0]!r}: there is nothing to tell apart")
    note = (
        f"labels are read as numbers ({len(kinds):,} different ones, from {numbers.min():g} "
        f"to {numbers.max():g}); --no-regression makes them classes"
    )
    return ReadLabels(numbers[codes], (), is_missing, () if was_asked_for else (note,))


def _as_number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"the label {str(value)[:40]!r} is no number, which a regression needs: correct it, "
            "or audit classes without --regression"
        ) from error
    if math.isnan(number):  # the text "nan"; what is really missing did not come this far
        raise SourceError(f"the label {value!r} is no number: correct it, or leave it empty")
    return number


def _classes(
    codes: npt.NDArray[np.int64],
    kinds: Values,
    is_missing: npt.NDArray[np.bool_],
    was_asked_for: bool,
) -> ReadLabels:
    names = [_class_name(value) for value in kinds]
    class_names = sorted_names(set(names))
    if len(class_names) < 2:
        raise SourceError(
            f"all labels are {class_names[0]!r}: an audit compares classes, and needs two or more"
        )
    if len(class_names) == len(codes) > FEW_SAMPLES:
        raise SourceError(
            f"all {len(codes):,} labels are different, as names of samples are: "
            "name the labels, which samples share"
        )
    places = {name: place for place, name in enumerate(class_names)}
    target = torch.tensor([places[name] for name in names])[codes]
    notes = class_notes(target, class_names)
    if not was_asked_for and all(_is_number(value) for value in kinds):
        count = len(class_names)
        note = f"labels are read as {count} classes; --regression makes them numbers"
        notes = (note, *notes)
    return ReadLabels(target, class_names, is_missing, notes)


def _class_name(value: Any) -> str:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SourceError(
                f"a label is {value!r}, which is no class: correct it, or leave it empty"
            )
        if value.is_integer():
            return str(int(value))
    return str(value)


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:NAMES_IN_A_NOTE])
    more = len(names) - NAMES_IN_A_NOTE
    return f"{shown} and {more:,} more" if more > 0 else shown
