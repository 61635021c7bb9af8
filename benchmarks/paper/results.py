"""The stored results of a table by row and column, as means and spreads."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.paper.cells import Cell
from benchmarks.paper.store import ResultsStore, StoredCell, StoreError
from benchmarks.paper.table_file import Column, PaperTable, PaperValue, TableRow

BETTER, WORSE = "▲", "▼"


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds."""

    mean: float
    deviation: float | None
    """None for a single value."""
    count: int

    @property
    def standard_error(self) -> float | None:
        """Of the mean; None for a single value."""
        return None if self.deviation is None else self.deviation / math.sqrt(self.count)


def mark(ours: Spread, other: Spread | PaperValue, lower_is_better: bool) -> str:
    """Whether ours is better or worse by more than the standard error of both, else empty.

    The paper does not report how many runs its spreads are over: a spread counts as its standard
    error. A single seed has no spread, so that nothing can be said of chance: no mark.
    """
    if ours.standard_error is None:
        return ""
    error = other.standard_error if isinstance(other, Spread) else other.spread
    gain = other.mean - ours.mean if lower_is_better else ours.mean - other.mean
    if abs(gain) <= math.hypot(ours.standard_error, error or 0.0):
        return ""
    return BETTER if gain > 0 else WORSE


def spread_of(values: Sequence[float]) -> Spread | None:
    """Mean and spread; None without values."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.mean(values), deviation, len(values))


@dataclass(frozen=True)
class Group:
    """The cells of a row and a column that differ in the seed only."""

    row: TableRow
    column: Column
    cells: tuple[StoredCell, ...]

    def values(self, *keys: str) -> list[float]:
        """An entry of the summaries, from those that have it."""
        found = []
        for cell in self.cells:
            value: Any = cell.content["summary"]
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                found.append(float(value))
        return found

    @property
    def last(self) -> Spread | None:
        """The test metric of the last epoch."""
        return spread_of(self.values("test", "last"))

    @property
    def best(self) -> Spread | None:
        """The test metric of the best epoch, which is chosen on test labels."""
        return spread_of(self.values("test", "best"))

    @property
    def fit(self) -> Spread | None:
        """Accuracy on the training labels as given."""
        return spread_of(self.values("train_accuracy_noisy"))


@dataclass(frozen=True)
class Results:
    """The results of a table at one size."""

    table: PaperTable
    is_small: bool
    groups: tuple[Group, ...]
    stale: tuple[StoredCell, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def cells(self) -> list[StoredCell]:
        """All stored cells with the settings of today."""
        return [cell for group in self.groups for cell in group.cells]

    @property
    def columns(self) -> list[Column]:
        """Those with a result."""
        present = {group.column.name for group in self.groups}
        return [column for column in self.table.columns if column.name in present]

    @property
    def rows(self) -> list[TableRow]:
        """Those with a result."""
        present = {group.row.name for group in self.groups}
        return [row for row in self.table.rows if row.name in present]

    def group(self, row: str, column: str) -> Group | None:
        """The cells of a row in a column, if there are any."""
        for group in self.groups:
            if group.row.name == row and group.column.name == column:
                return group
        return None

    def best_row(self, column: str) -> str | None:
        """The row whose last epoch is best in this column."""
        means = {g.row.name: g.last.mean for g in self.groups if g.column.name == column and g.last}
        if not means:
            return None
        choose = min if self.table.lower_is_better else max
        return choose(means, key=lambda name: means[name])


def collect(table: PaperTable, store: ResultsStore, is_small: bool) -> Results:
    """Read all results of a table at one size. Stale and damaged ones do not count."""
    found: dict[tuple[str, str], list[StoredCell]] = {}
    stale: list[StoredCell] = []
    unreadable = [] if is_small else store.damaged_lines(table.name)
    for cell in _possible_cells(table, store.seeds(table.name), is_small):
        try:
            stored = store.read(cell)
        except StoreError as error:
            unreadable.append(str(error))
            continue
        if stored is None:
            continue
        if stored.is_stale:
            stale.append(stored)
        else:
            found.setdefault((cell.row.name, cell.column.name), []).append(stored)
    groups = [
        Group(cells[0].cell.row, cells[0].cell.column, tuple(cells)) for cells in found.values()
    ]
    return Results(table, is_small, tuple(groups), tuple(stale), tuple(unreadable))


def _possible_cells(table: PaperTable, seeds: Sequence[int], is_small: bool) -> Iterator[Cell]:
    """Row by row and column by column."""
    for row in table.rows:
        for column in table.columns:
            for seed in seeds if row.method is not None else ():
                yield Cell(table, row, column, seed, is_small)
