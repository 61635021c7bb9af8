"""Experiments as data: one TOML file each, found by a recursive look.

A recipe opens with the command that runs it. It may hold settings for some cases, ``[[case]]``,
which count where their ``when`` fits, and the rows of the paper's appendix, ``[[paper]]``, which
count where ``hyperparameters = "paper"``; a small recipe names its full-sized sibling instead,
``paper_of``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import tomlkit
import tomlkit.exceptions

from discrimloss.options import OptionError, did_you_mean
from discrimloss.recipes.cases import apply_cases, apply_paper_rows, look_up, merge, stretched
from discrimloss.recipes.settings import parse_setting
from discrimloss.training.config import (
    RunConfig,
    Table,
    read_config,
    require_tables,
)

FOLDER = Path(__file__).parent


def recipe_files() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    files = sorted(FOLDER.rglob("*.toml"), key=lambda file: file.stem)
    return {file.stem: file for file in files}


def find_recipe(name_or_file: str) -> Path:
    """The file of a recipe: one of ours by name, or any TOML file."""
    ours = recipe_files()
    if name_or_file in ours:
        return ours[name_or_file]
    path = Path(name_or_file)
    if path.is_file():
        return path
    if path.suffix == ".toml" or len(path.parts) > 1:
        ours_is_meant = f": the recipe is named {path.stem!r}" if path.stem in ours else ""
        raise OptionError(f"there is no recipe file {path}{ours_is_meant}")
    raise OptionError(f"unknown recipe {name_or_file!r}: {did_you_mean(name_or_file, ours)}")


def load_recipe(name_or_file: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a recipe, with `key=value` settings on top.

    Raises:
        OptionError: one sentence on what is wrong with it.
    """
    path = find_recipe(name_or_file)
    table = _read_toml(path)
    changes: Table = {}
    for override in overrides:
        merge(changes, parse_setting(override))
    try:
        full_sized = table.pop("paper_of", None)
        cases, rows = (_pop_tables(table, name) for name in ("case", "paper"))
        for settings in (table, changes):
            require_tables(settings)
        is_resolved = table.get("hyperparameters") == "paper" and "recipe" in table and not rows
        if is_resolved:
            _require_paper_still_fits(table, changes)
        table = _with_changes(table, changes)
        table = apply_cases(table, cases)
        if table.get("hyperparameters") == "paper" and not is_resolved:
            read_config(table, recipe=path.stem)  # the rows are chosen by values of the right types
            table = apply_paper_rows(table, rows or _rows_of(full_sized, table), changes)
        table = _with_changes(table, changes)  # what a person says outranks cases and the paper
        return read_config(table, recipe=path.stem)
    except OptionError as error:
        where = "" if path.parent.is_relative_to(FOLDER) else f"{path}: "
        raise OptionError(f"{where}{error}") from error


def summary_of(path: Path) -> str:
    """What a recipe is about: the second line of its opening comment."""
    comments = [line[1:].strip() for line in path.read_text("utf-8").splitlines()[:2]]
    return comments[1] if len(comments) > 1 else ""


def _read_toml(path: Path) -> Table:
    try:
        return deepcopy(_parsed(path.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read the recipe {path}: {error}") from error
    except tomlkit.exceptions.TOMLKitError as error:
        raise OptionError(f"{path} is not valid TOML: {error}") from error


@lru_cache(maxsize=32)
def _parsed(text: str) -> Table:
    """A table of results reads the same recipe for every cell, and parsing is what takes time."""
    return tomlkit.parse(text).unwrap()


def _pop_tables(table: Table, name: str) -> list[Table]:
    rows: Any = table.pop(name, [])
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        raise OptionError(f"{name} must be a list of tables, each under [[{name}]]")
    for row in rows:
        if not isinstance(row.get("when", {}), dict):
            raise OptionError(f"when in [[{name}]] must be a table, not {row['when']!r}")
        if name == "case" and "when" not in row:
            raise OptionError("each [[case]] needs when, a table of keys and values to match")
    return rows


def _rows_of(full_sized: Any, table: Table) -> list[Table]:
    """The paper's rows for the full-sized sibling of a small recipe, stretched to its epochs."""
    if full_sized is None:
        return []
    full = _read_toml(find_recipe(str(full_sized)))
    rows = [row for row in _pop_tables(full, "paper") if "when" in row]
    return stretched(rows, table["epochs"], full["epochs"])


def _require_paper_still_fits(table: Table, changes: Table) -> None:
    """The config of a run has the values of one row of the paper, and no other rows."""
    changed = _with_changes(table, changes)
    if changed.get("method") != table.get("method"):
        return  # the values are no longer there
    for key in ("hyperparameters", "loss", "noise.rate", "batch_size"):
        if look_up(changed, key) != look_up(table, key):
            raise OptionError(
                f"{key} cannot be changed here, where the options are the paper's for "
                f"{key}={look_up(table, key)}: train the recipe {table['recipe']!r} instead"
            )


def _with_changes(table: Mapping[str, Any], changes: Table) -> Table:
    merged: Table = {}
    merge(merged, table)
    merge(merged, changes)
    # Another method has other options: those of the recipe's own method are not meant for it.
    if changes.get("method", table.get("method")) != table.get("method"):
        merged["options"] = dict(changes.get("options", {}))
    noise = changes.get("noise", {})
    if "rate" not in noise and noise.get("kind") in ("none", "human"):  # another kind's rate
        merged["noise"] = {**noise, "rate": 0.0} if noise["kind"] == "none" else dict(noise)
    for section in ("data", "model"):
        name = changes.get(section, {}).get("name")
        if name is not None and name != table.get(section, {}).get("name"):
            merged[section] = dict(changes[section])
    return merged
