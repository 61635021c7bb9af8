"""Chooses the columns of a table that a model learns from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from discrimloss.auditing.sources.base import Samples, SourceError
from discrimloss.auditing.sources.column_features import (
    Features,
    ordinal_values,
    table_features,
)
from discrimloss.auditing.sources.column_reading import (
    LOOKED_AT,
    UsedColumn,
    understood,
)
from discrimloss.auditing.sources.contents import Contents, LearnedColumn, ModelInputs, SampleView
from discrimloss.auditing.sources.leaks import Leak, find_leak, marked_class
from discrimloss.auditing.sources.numerals import shows_decimal_comma
from discrimloss.auditing.sources.splits import find_split_column
from discrimloss.auditing.sources.text import dense_ngrams, joined_texts
from discrimloss.data.base import TensorInputs
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    from discrimloss.auditing.sources.tables import Rows

NAMES_IN_A_NOTE = 8
_GIVES_AWAY = "it leaks the label"
_GIVEN_AWAY = "each marks one class, and together they leak the label"


@dataclass(frozen=True)
class ColumnPlan:
    """The columns to use, how to read them, and notes on the others."""

    used: tuple[UsedColumn, ...]
    left_aside: tuple[tuple[str, str], ...] = ()
    """Names and reasons."""
    warnings: tuple[str, ...] = ()
    """Sentences about columns that leak the label."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return one sentence for each reason not to use columns."""
        names_by_reason = defaultdict(list)
        for name, reason in self.left_aside:
            names_by_reason[reason].append(name)
        return tuple(_left_aside(names, why) for why, names in names_by_reason.items())

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns with texts."""
        return tuple(column.name for column in self.used if column.kind == "text")

    @property
    def table(self) -> tuple[UsedColumn, ...]:
        """All other columns."""
        return tuple(column for column in self.used if column.kind != "text")

    @property
    def learned_from(self) -> tuple[LearnedColumn, ...]:
        """Return notes on the columns that are used."""
        return tuple(LearnedColumn(column.name, column.read_as) for column in self.used)


def _left_aside(names: Sequence[str], reason: str) -> str:
    if len(names) == 1:
        return f"{_named_columns(names)} is not used: {reason}"
    each = f"each {reason.removeprefix('it ')}" if reason.startswith("it ") else reason
    each = each.replace("its values", "their values")
    return f"{_named_columns(names)} are not used: {each}"


class Columns(Contents):
    """Rows of a table with several columns that a model learns from.

    Args:
        rows: rows of the table.
        samples: the rows that can be audited.
        plan: the columns to learn from, see `plan_table`.
        hidden: columns that reviewers do not see, such as the labels.
    """

    kind = "table"

    def __init__(
        self, rows: Rows, samples: Samples, plan: ColumnPlan, hidden: Collection[str | None]
    ) -> None:
        self._rows, self._numbers, self._hidden = rows, samples.rows, frozenset(hidden)
        self._plan = plan
        self._is_learned_from = {column.name for column in plan.used}
        self.notes, self.warnings = plan.notes, plan.warnings
        self.learned_from = plan.learned_from

    def model_inputs(self, cache: Path | None, fingerprint: str) -> ModelInputs:
        """Return scaled numbers, one-hot categories and projected texts. Nothing is cached."""
        found = table_features(self.raw_inputs(), self._plan.table)
        texts = self.texts()
        if texts is not None:
            found = np.concatenate([found, dense_ngrams(texts)], axis=1)
        features = torch.from_numpy(found)
        return ModelInputs(TensorInputs(features), tuple(features.shape[1:]))

    def ordinal_and_features(self) -> tuple[npt.NDArray[np.float32], Features]:
        """Return columns for trees (see `ordinal_values`) and for linear models, without texts."""
        frame = self.raw_inputs()
        return ordinal_values(frame, self._plan.table), table_features(frame, self._plan.table)

    def texts(self) -> list[str] | None:
        """Return the joined texts of each sample, or None if no column contains texts."""
        if not self._plan.texts:
            return None
        joined = joined_texts([self._rows.texts(name) for name in self._plan.texts])
        return [joined[row] or "" for row in self._numbers]

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The names of the columns with texts."""
        return self._plan.texts

    @property
    def has_table(self) -> bool:
        """Whether a model learns from other columns than texts."""
        return bool(self._plan.table)

    def raw_inputs(self) -> Any:
        """Return a data frame with the columns that are used."""
        used = [column.name for column in self._plan.used]
        return self._rows.frame(used).iloc[self._numbers].reset_index(drop=True)

    def view(self, index: int, close: bool = False) -> SampleView:
        """Return the row without its label. Columns that models learn from come first."""
        row = self._rows.row(int(self._numbers[index]))
        fields = [field for field in row if field[0] not in self._hidden]
        fields.sort(key=lambda field: field[0] not in self._is_learned_from)
        return SampleView(fields=tuple(fields))


def plan_table(
    rows: Rows, samples: Samples, hidden: Collection[str | None], wanted: Sequence[str] | None
) -> ColumnPlan:
    """Decide which columns of a table to learn from.

    Args:
        rows: rows of the table.
        samples: the rows that can be audited.
        hidden: columns that are not inputs: labels and ids.
        wanted: the columns that the user named. If None, they are chosen from all columns.

    Raises:
        SourceError: no column can be used.
    """
    splits = None
    if wanted is None:
        splits = find_split_column(rows, None)
        splits = None if splits in hidden else splits
        names = [name for name in rows.columns if name not in (*hidden, splits)]
    else:
        names = [rows.require(name, "--columns") for name in wanted]
        for name in names:
            if name in hidden:
                raise SourceError(f"--columns has {name!r}, the labels or ids: leave it out")
    if not names:
        raise SourceError(
            "the table has no column to learn from besides labels and ids: add columns that say "
            "something about the labels"
        )
    frame = rows.frame(names).iloc[samples.rows]
    plan = plan_columns(frame, samples.target.numpy(), are_wanted=wanted is not None)
    if splits is None:
        return plan
    reason = "it contains the split of each row"
    return replace(plan, left_aside=(*plan.left_aside, (splits, reason)))


def plan_columns(
    frame: Any, target: npt.NDArray[Any] | None = None, are_wanted: bool = False
) -> ColumnPlan:
    """Decide for each column of a frame whether and how to use it.

    Args:
        frame: the samples' rows, without labels and ids.
        target: their labels, to detect columns that determine them.
        are_wanted: whether the user named these columns. Then all usable columns are used.

    Raises:
        SourceError: no column can be used.
    """
    used, left_aside, warnings, leaking = [], [], [], []
    decimal_comma = _decimal_comma(frame)
    for name in frame.columns:
        series = frame[name]
        column = understood(str(name), series, decimal_comma, are_wanted)
        if isinstance(column, str):
            left_aside.append((str(name), column))
            continue
        leak = None if target is None else find_leak(series, column, target)
        if leak is not None and leak.is_complete and not are_wanted:
            leaking.append(column)
            continue
        used.append(column)
        if leak is not None:
            warnings.append(_still_used(column.name, leak))
    marks = {} if target is None or are_wanted else _marks(frame, used, target)
    if len(set(marks.values())) >= _num_classes(target) - 1 > 1:  # together, they encode the label
        leaking += [column for column in used if column.name in marks]
        used = [column for column in used if column.name not in marks]
    else:
        warnings += [_one_class(name) for name in marks]
    if not used:
        used, left_aside = _rescued(frame, leaking, left_aside)
        warnings += [_still_used(column.name, Leak(1.0)) for column in leaking]
        leaking = []
    for reason in (_GIVES_AWAY, _GIVEN_AWAY):
        found = [c.name for c in leaking if (c.name in marks) == (reason == _GIVEN_AWAY)]
        left_aside += [(name, reason) for name in found]
        warnings += [_not_learned_from(found, reason == _GIVEN_AWAY)] if found else []
    if not used:
        reasons = "; ".join(ColumnPlan((), tuple(left_aside)).notes)
        raise SourceError(f"there is no usable column: {reasons}")
    return ColumnPlan(tuple(used), tuple(left_aside), tuple(warnings))


def _marks(frame: Any, used: Sequence[UsedColumn], target: npt.NDArray[Any]) -> dict[str, int]:
    """Return each column that marks one class, and the class that it marks.

    Such a column has one value for all samples of the class and another for all others.
    """
    found = {c.name: marked_class(frame[c.name], c, target) for c in used}
    return {name: marked for name, marked in found.items() if marked is not None}


def _num_classes(target: npt.NDArray[Any] | None) -> int:
    return 0 if target is None else len(np.unique(target))


def _one_class(name: str) -> str:
    return (
        f"the column {name!r} leaks one class: it has one value for all samples of that class "
        "and another for all others. If it was made from the labels, remove it and audit again"
    )


def _not_learned_from(names: Sequence[str], are_marks: bool) -> str:
    """Return a warning about columns that leak the label, and advice if they are real inputs."""
    many = len(names) > 1
    given = f"{_named_columns(names)} {'leak' if many else 'leaks'} the label: "
    if are_marks:
        given += "each marks one class. "
    else:
        given += f"every value of {'each' if many else 'it'} has only one label. "
    return (
        f"{given}{'They are' if many else 'It is'} not used, because wrong labels would then not "
        f"stand out. If {'they are' if many else 'it is'} known before the label, pass the columns "
        "to learn from with --columns"
    )


def _named_columns(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:NAMES_IN_A_NOTE])
    more = f" and {len(names) - NAMES_IN_A_NOTE:,} more" if len(names) > NAMES_IN_A_NOTE else ""
    return f"the column{'s' if len(names) > 1 else ''} {shown}{more}"


def _still_used(name: str, leak: Leak) -> str:
    if leak.is_complete:
        return (
            f"the column {name!r} leaks the label, but you chose it: if it was made "
            "from the labels, wrong labels do not stand out"
        )
    return (
        f"the column {name!r} nearly leaks the label: it determines {100 * leak.fraction:.1f} % of "
        "the labels. If it was made from the labels, wrong labels do not stand out: audit again "
        "with only the other columns, --columns"
    )


def _rescued(
    frame: Any, leaking: list[UsedColumn], left_aside: list[tuple[str, str]]
) -> tuple[list[UsedColumn], list[tuple[str, str]]]:
    """Return the columns to use if there are no others: those that leak the label, or short texts.

    Short texts are used only if exactly one column contains them.
    """
    if leaking:
        return leaking, left_aside
    short = [name for name, reason in left_aside if reason.startswith("nearly all its values")]
    if len(short) != 1:
        return [], left_aside
    others = [(name, reason) for name, reason in left_aside if name not in short]
    return [UsedColumn(short[0], "text", read_as="texts")], others


def _decimal_comma(frame: Any) -> bool | None:
    """Return whether the numbers of a table have a decimal comma, or None if it is unclear."""
    types = import_pandas().api.types
    for name in frame.columns:
        series = frame[name]
        if types.is_object_dtype(series.dtype) or types.is_string_dtype(series.dtype):
            values = series.dropna().iloc[:LOOKED_AT]
            if shows_decimal_comma(values):
                return True
    return None
