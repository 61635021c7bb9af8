"""Reads labels as classes or regression targets, by the same rules for all sources.

- Texts, booleans and categories are classes.
- Whole numbers are classes if there are only two of them, or at most `MOST_CLASSES`, each with
  `SAMPLES_PER_CLASS` samples on average. Otherwise they are regression targets, such as ages or
  counts. They are also regression targets if there are `SURELY_CLASSES` or more, and neighbouring
  numbers are about equally frequent: this holds for ages, but not for codes of classes.
- Other numbers are regression targets. Floats without decimals, such as 0.0 and 1.0, follow the
  rule for whole numbers, because libraries read whole numbers with gaps as floats.
- None, NaN and blank texts are missing. A text such as "NA" is a class.

The option `regression` overrides these rules.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import (
    LeftOut,
    Samples,
    SourceError,
    SourceOptions,
    Store,
)
from discrimloss.auditing.sources.multi_label import refuse_lists, refuse_several_labels
from discrimloss.auditing.sources.values import class_name, is_number, plain
from discrimloss.judging.verdicts import import_pandas

MOST_CLASSES = 100
SAMPLES_PER_CLASS = 3
SURELY_CLASSES = 15
"""With fewer distinct whole numbers than this, frequencies of neighbours are not compared."""
SMOOTH = 0.6
"""Whole numbers are regression targets if the frequencies of neighbours have at least this
correlation."""
FEW_SAMPLES = 10
"""Up to this number of samples, all labels may be different by chance."""
NAMES_IN_A_NOTE = 5

Values = list[Any]


@dataclass(frozen=True)
class ReadLabels:
    """Labels that a model can learn, and the positions of missing labels."""

    target: Tensor
    """Shape (labelled samples,): int64 positions in `class_names`, or float32 targets."""
    class_names: tuple[str, ...]
    """Sorted, numbers by value. Empty for regression."""
    is_missing: npt.NDArray[np.bool_]
    """Shape (samples,)."""
    notes: tuple[str, ...]
    """How the labels were read."""


NO_LABEL = "no label"


def read_samples(
    store: Store, options: SourceOptions, unusable: Mapping[int, str] = MappingProxyType({})
) -> Samples:
    """Find the rows of a store that can be audited, and read their labels.

    Args:
        store: the rows.
        options: how to read the labels (`regression`).
        unusable: rows that cannot be audited for other reasons, with the reason.

    Raises:
        SourceError: no row can be audited.
    """
    usable = np.ones(len(store), bool)
    usable[list(unusable)] = False
    if len(store) and not usable.any():
        reasons = " or ".join(f"{reason!r}" for reason in sorted(set(unusable.values())))
        raise SourceError(f"no row of {store.name} can be audited: {reasons} in all rows")
    given = store.labels()
    labels = read_labels(given if usable.all() else _selected(given, usable), options.regression)
    rows: npt.NDArray[np.int64] = np.flatnonzero(usable)
    ids = store.ids()
    reasons_by_row = {int(row): NO_LABEL for row in rows[labels.is_missing]} | dict(unusable)
    rows = rows[~labels.is_missing]
    return Samples(
        rows=rows,
        ids=tuple(ids[row] for row in rows),
        target=labels.target,
        class_names=labels.class_names,
        left_out=tuple(LeftOut(ids[row], why) for row, why in sorted(reasons_by_row.items())),
        notes=labels.notes,
    )


def _selected(labels: Any, usable: npt.NDArray[np.bool_]) -> Any:
    if isinstance(labels, list):
        return [label for label, is_usable in zip(labels, usable, strict=True) if is_usable]
    return labels[usable]


def read_labels(values: Any, regression: bool | None) -> ReadLabels:
    """Read labels of any type.

    Args:
        values: shape (samples,): a list, an array, or a pandas series.
        regression: whether they are regression targets. By default, the rules above decide.

    Raises:
        SourceError: a model cannot learn these labels.
    """
    pandas = import_pandas()
    try:
        codes, distinct = pandas.factorize(pandas.Series(values))
    except (TypeError, ValueError) as error:
        refuse_lists(values)
        raise SourceError(
            "a label is a list or an object: labels must be texts or numbers; choose another column"
        ) from error
    # From here on, only distinct values are read, because there may be millions of samples.
    kinds: Values = [plain(value) for value in distinct]
    is_blank = np.array([isinstance(v, str) and not v.strip() for v in kinds] + [True])
    is_missing: npt.NDArray[np.bool_] = is_blank[codes]  # pandas gives missing values the code -1
    codes = codes[~is_missing]
    used = np.unique(codes)
    _require_some(len(is_missing), len(codes))
    position = np.zeros(len(kinds), dtype=np.int64)
    position[used] = np.arange(len(used))
    codes, kinds = position[codes], [kinds[code] for code in used]
    if _is_regression(kinds, np.bincount(codes), regression):
        return _numbers(codes, kinds, is_missing, was_given=regression is not None)
    return _classes(codes, kinds, is_missing, was_given=regression is not None)


def class_notes(target: Tensor, class_names: tuple[str, ...]) -> tuple[str, ...]:
    """Return sentences about classes with one sample, and about class names that look alike."""
    notes = []
    counts = torch.bincount(target, minlength=len(class_names)).tolist()
    lone = [name for name, count in zip(class_names, counts, strict=True) if count == 1]
    if lone:
        notes.append(
            f"{_listed(lone)} {'has' if len(lone) == 1 else 'have'} only one sample: "
            "other samples cannot show whether its label is right"
        )
    alike = defaultdict(list)
    for name in class_names:
        alike[name.strip().casefold()].append(name)
    for names in alike.values():
        if len(names) > 1:
            notes.append(f"{_listed(names)} count as different classes, though they look alike")
    return tuple(notes)


def sorted_names(names: set[str]) -> tuple[str, ...]:
    """Sort class names, with "2" before "10"."""
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))


def _require_some(num_samples: int, num_labelled: int) -> None:
    if num_samples == 0:
        raise SourceError("there are no samples: nothing can be audited")
    if num_labelled == 0:
        raise SourceError(f"all {num_samples:,} labels are missing: choose another column")
    if num_labelled < 2:
        raise SourceError("only one sample has a label: an audit needs two or more")


def _is_regression(kinds: Values, counts: npt.NDArray[np.int64], given: bool | None) -> bool:
    """Return whether labels are regression targets.

    Args:
        kinds: the distinct labels.
        counts: number of samples with each label.
        given: the user's choice.
    """
    if given is not None:
        return given
    if not all(is_number(value) for value in kinds):
        return False
    if not all(float(value).is_integer() for value in kinds):
        return True
    if len(kinds) <= 2:
        return False
    if len(kinds) > MOST_CLASSES or counts.sum() < SAMPLES_PER_CLASS * len(kinds):
        return True
    return len(kinds) >= SURELY_CLASSES and _is_smooth(np.array(kinds, dtype=np.float64), counts)


def _is_smooth(numbers: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> bool:
    """Return whether neighbouring numbers are about equally frequent, as measurements are.

    Neighbouring codes also have similar frequencies if 0 (or 1) is the most frequent code, the next
    number the second most frequent, and so on. For such codes, return False.
    """
    order = np.argsort(numbers)
    numbers, roots = numbers[order], np.sqrt(counts[order])  # similar variance for all counts
    if np.ptp(roots) == 0.0:
        return False
    is_numbered = numbers[-1] - numbers[0] == len(numbers) - 1 and numbers[0] in (0.0, 1.0)
    if is_numbered and (np.diff(roots) <= 0.0).all():
        return False
    first, second = roots[:-1], roots[1:]
    if np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return False
    return float(np.corrcoef(first, second)[0, 1]) >= SMOOTH


def _numbers(
    codes: npt.NDArray[np.int64],
    kinds: Values,
    is_missing: npt.NDArray[np.bool_],
    was_given: bool,
) -> ReadLabels:
    numbers = torch.tensor([_as_number(value) for value in kinds], dtype=torch.float32)
    if not numbers.isfinite().all():
        worst = kinds[int((~numbers.isfinite()).nonzero()[0])]
        raise SourceError(
            f"a label is {worst!r}, which cannot be learned: correct it, or leave it empty"
        )
    if bool(numbers.min() == numbers.max()):
        raise SourceError(f"all labels are {kinds[0]!r}: an audit needs two different labels")
    note = (
        f"labels are read as regression targets ({len(kinds):,} distinct values, "
        f"from {numbers.min():g} to {numbers.max():g}); --no-regression reads them as classes"
    )
    return ReadLabels(numbers[codes], (), is_missing, () if was_given else (note,))


def _as_number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"the label {str(value)[:40]!r} is not a number, which a regression needs: correct it, "
            "or audit classes without --regression"
        ) from error
    if math.isnan(number):  # the text "nan", because missing values are already left out
        raise SourceError(f"the label {value!r} is not a number: correct it, or leave it empty")
    return number


def _classes(
    codes: npt.NDArray[np.int64],
    kinds: Values,
    is_missing: npt.NDArray[np.bool_],
    was_given: bool,
) -> ReadLabels:
    names = [class_name(value) for value in kinds]
    class_names = sorted_names(set(names))
    if not was_given:
        refuse_several_labels(class_names)
    if len(class_names) < 2:
        raise SourceError(
            f"all labels are {class_names[0]!r}: an audit compares classes, and needs two or more"
        )
    if len(class_names) == len(codes) > FEW_SAMPLES:
        raise SourceError(
            f"all {len(codes):,} labels are different, like sample ids: "
            "choose a column with labels that several samples share"
        )
    places = {name: place for place, name in enumerate(class_names)}
    target = torch.tensor([places[name] for name in names])[codes]
    notes = class_notes(target, class_names)
    if not was_given and all(is_number(value) for value in kinds):
        count = len(class_names)
        note = f"labels are read as {count} classes; --regression reads them as regression targets"
        notes = (note, *notes)
    return ReadLabels(target, class_names, is_missing, notes)


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:NAMES_IN_A_NOTE])
    more = len(names) - NAMES_IN_A_NOTE
    return f"{shown} and {more:,} more" if more > 0 else shown


def one_per_sample(labels: npt.NDArray[Any], num_samples: int, name: str) -> npt.NDArray[Any]:
    """Return labels of shape (samples,), or raise a `SourceError`.

    Args:
        labels: shape (samples,) or (samples, 1).
        num_samples: required number of labels.
        name: name of the array or the file, for the message.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise SourceError(
            f"there must be one label per sample, but {name} has the shape {labels.shape}"
        )
    if len(labels) != num_samples:
        raise SourceError(
            f"there are {num_samples:,} samples, but {len(labels):,} labels in {name}: "
            "pass one label per sample, in the same order"
        )
    if labels.dtype.kind not in "biufUS":
        raise SourceError(
            f"{name} contains {labels.dtype}, which cannot be labels: use texts or numbers"
        )
    return labels
