"""A cell: one row, one column and one seed of a table, which is one training run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import nn

from benchmarks.paper.table_file import Column, PaperTable, TableRow
from discrimloss.data.base import datasets
from discrimloss.data.published_files import BuiltIn, how_obtained
from discrimloss.options import OptionError
from discrimloss.recipes import load_recipe
from discrimloss.training.config import RunConfig
from discrimloss.training.methods.base import Setting, methods
from discrimloss.training.task_losses import task_losses

WITHOUT_EFFECT = (
    "checkpoint_seconds",
    "device",
    "eval_batch_size",
    "tensorboard",
    "threads",
    "traced_samples",
    "workers",
)
"""Settings that change how a run is made, but not its result."""


@dataclass(frozen=True)
class Cell:
    """One run of a table."""

    table: PaperTable
    row: TableRow
    column: Column
    seed: int
    is_small: bool = False

    @property
    def name(self) -> str:
        """The name of its files."""
        small = "-small" if self.is_small else ""
        return f"{self.row.name}-{self.column.name}-{self.seed}{small}"

    @property
    def recipe(self) -> str:
        """The recipe that is trained."""
        own, general = self.column.recipe, self.table.recipe
        if self.is_small:
            own, general = self.column.small.recipe, self.table.small.recipe or own or general
        return own or general

    @property
    def settings(self) -> tuple[str, ...]:
        """What differs from the recipe; later settings override earlier ones."""
        small = self.table.small.settings if self.is_small else ()
        own_small = self.column.small.settings if self.is_small else ()
        row_small = self.row.small_settings if self.is_small else None
        return (
            *self.table.settings,
            *small,
            *self.column.settings,
            *own_small,
            f"method={self.row.method}",
            *(self.row.settings if row_small is None else row_small),
            f"seed={self.seed}",
            "threads=1",
            "tensorboard=false",
        )

    @cached_property
    def config(self) -> RunConfig:
        """Every setting of the run."""
        return load_recipe(self.recipe, self.settings)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that its result depends on: the settings, and the method's own defaults.

        With the types of JSON. Two cells with one identity are the same experiment.
        """
        settings = settings_with_effect(self.config)
        made = {"config": settings, "method_defaults": method_defaults(self.config)}
        identity: dict[str, Any] = json.loads(json.dumps(made))
        return identity

    @property
    def needs_data(self) -> bool:
        """Whether its dataset must be in the data directory."""
        return not isinstance(how_obtained(datasets.get(self.config.data.name)), BuiltIn)


def settings_with_effect(config: RunConfig) -> dict[str, Any]:
    """All settings of a run that its result depends on."""
    table = config.as_dict()
    return {key: value for key, value in table.items() if key not in WITHOUT_EFFECT}


def method_defaults(config: RunConfig) -> dict[str, Any]:
    """All hyperparameters of a method before its first step.

    The config has only those that were set: it does not show that a default has changed.

    Raises:
        OptionError: the method does not fit the task, or an option has no sensible value.
    """
    is_regression = config.loss != "cross_entropy"
    numbers = torch.tensor([0.0, 1.0])
    setting = Setting(
        build_network=lambda: nn.Linear(2, 2),
        task_losses=task_losses(config.loss, is_regression),
        num_samples=2,
        num_classes=None if is_regression else 10,
        epochs=config.epochs,
        target=numbers if is_regression else numbers.long(),
        difficulty=numbers,
    )
    try:
        made: dict[str, Any] = methods.get(config.method)(
            setting, **config.options
        ).hyperparameters()
    except ValueError as error:
        raise OptionError(str(error)) from error
    return made


def all_cells(
    table: PaperTable,
    seeds: int | None = None,
    chosen_rows: Sequence[str] = (),
    chosen_columns: Sequence[str] = (),
    is_small: bool = False,
) -> list[Cell]:
    """The cells of a table, all of the first seed first: what is finished is a whole table.

    Args:
        table: the table.
        seeds: how many, from 1; the table's own number if not given.
        chosen_rows: names of rows or methods; the default rows if empty.
        chosen_columns: names of columns or noise levels; the default columns if empty.
        is_small: whether the runs are of reduced size.

    Raises:
        OptionError: nothing fits a name.
    """
    rows = [row for row in table.rows if row.method is not None]
    columns = [column for column in table.columns if column.runs_small or not is_small]
    if chosen_rows:
        rows = _chosen("methods", chosen_rows, rows, lambda row: row.method)
    else:
        rows = [row for row in rows if row.by_default]
    if chosen_columns:
        columns = _chosen("noise", chosen_columns, columns, lambda column: column.noise)
    else:
        columns = [c for c in columns if (c.small_by_default if is_small else c.by_default)]
    own_seeds = (table.small.seeds if is_small else None) or table.seeds
    return [
        Cell(table, row, column, seed, is_small)
        for seed in range(1, (seeds or own_seeds) + 1)
        for column in columns
        for row in rows
    ]


Entry = TypeVar("Entry", TableRow, Column)


def _chosen(
    option: str, wanted: Sequence[str], entries: list[Entry], other: Callable[[Entry], Any]
) -> list[Entry]:
    """Entries by name; where no name fits, by their other name: a method or a noise level."""
    chosen: set[str] = set()
    for word in wanted:
        fitting = [e.name for e in entries if e.name == word]
        fitting = fitting or [e.name for e in entries if _is_called(word, other(e))]
        if not fitting:
            names = ", ".join(_both_names(entry.name, other(entry)) for entry in entries)
            raise OptionError(f"--{option} {word} selects nothing: there are {names}")
        chosen.update(fitting)
    return [entry for entry in entries if entry.name in chosen]


def _is_called(word: str, other: Any) -> bool:
    if isinstance(other, float):
        try:
            return float(word) == other
        except ValueError:
            return False
    return bool(word == other)


def _both_names(name: str, other: Any) -> str:
    return name if other is None or other == name else f"{name} ({other})"
