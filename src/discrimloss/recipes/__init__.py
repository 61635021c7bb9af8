"""Recipes: experiments as TOML files in this package.

A recipe begins with the command that runs it. The settings of a ``[[case]]`` section apply if its
``when`` matches. The ``[[paper]]`` sections are the rows of the paper's appendix. They apply with
``hyperparameters = "paper"``. A small recipe names its full-size recipe as ``paper_of`` and uses
the rows of that recipe.
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
from discrimloss.recipes.cases import apply_cases, apply_paper_rows, stretched
from discrimloss.recipes.settings import look_up, merged, parse_setting
from discrimloss.training.config import RunConfig, Settings, read_config, require_sections

FOLDER = Path(__file__).parent


def recipe_files() -> dict[str, Path]:
    """Return the recipes of this package, by name."""
    files = sorted(FOLDER.rglob("*.toml"), key=lambda file: file.stem)
    return {file.stem: file for file in files}


def find_recipe(name_or_file: str) -> Path:
    """Return the file of a recipe, given the name of a recipe of this package or any TOML file."""
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
    """Return the config of a recipe with the user's `key=value` settings.

    Raises:
        OptionError: the recipe or a setting is invalid.
    """
    path = find_recipe(name_or_file)
    settings = _read_toml(path)
    changes = merged(*(parse_setting(override) for override in overrides))
    try:
        full_sized = settings.pop("paper_of", None)
        cases, rows = (_pop_rows(settings, name) for name in ("case", "paper"))
        for part in (settings, changes):
            require_sections(part)
        is_paper = settings.get("hyperparameters") == "paper"
        is_resolved = is_paper and "recipe" in settings and not rows  # the config of an earlier run
        if is_resolved:
            _require_paper_still_fits(settings, changes)
        settings = apply_cases(_with_changes(settings, changes), cases)
        if settings.get("hyperparameters") == "paper" and not is_resolved:
            read_config(settings, recipe=path.stem)  # rows match by typed values
            rows = rows + _rows_of(full_sized, settings)
            settings = apply_paper_rows(settings, rows, changes)
        settings = _with_changes(settings, changes)  # again: changes override cases and rows
        return read_config(settings, recipe=path.stem)
    except OptionError as error:
        where = "" if path.parent.is_relative_to(FOLDER) else f"{path}: "
        raise OptionError(f"{where}{error}") from error


def summary_of(path: Path) -> str:
    """Return the summary of a recipe: the second line of its file."""
    comments = [line[1:].strip() for line in path.read_text("utf-8").splitlines()[:2]]
    return comments[1] if len(comments) > 1 else ""


def _read_toml(path: Path) -> Settings:
    try:
        return deepcopy(_parsed(path.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read the recipe {path}: {error}") from error
    except tomlkit.exceptions.TOMLKitError as error:
        raise OptionError(f"{path} is not valid TOML: {error}") from error


@lru_cache(maxsize=32)
def _parsed(text: str) -> Settings:
    """Parse a recipe. Cached, because a results table reads a recipe for every cell."""
    return tomlkit.parse(text).unwrap()


def _pop_rows(settings: Settings, name: str) -> list[Settings]:
    rows: Any = settings.pop(name, [])
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        raise OptionError(f"{name} must be a list of tables, each under [[{name}]]")
    for row in rows:
        if not isinstance(row.get("when", {}), dict):
            raise OptionError(f"when in [[{name}]] must be a table, not {row['when']!r}")
        if name == "case" and "when" not in row:
            raise OptionError("each [[case]] needs when, a table of keys and values to match")
    return rows


def _rows_of(full_sized: Any, settings: Settings) -> list[Settings]:
    """Return the rows of the full-size recipe, scaled to the epochs of the small recipe."""
    if full_sized is None:
        return []
    full = _read_toml(find_recipe(str(full_sized)))
    rows = _pop_rows(full, "paper")
    theirs = merged(full, *(row for row in rows if "when" not in row))  # with its epochs
    rows = [row for row in rows if "when" in row]
    return stretched(rows, settings["epochs"], theirs["epochs"])


def _require_paper_still_fits(settings: Settings, changes: Settings) -> None:
    """Refuse changes of keys that select a row of the paper: a run's config has only one row."""
    changed = _with_changes(settings, changes)
    if changed.get("method") != settings.get("method"):
        return  # the row's options do not apply to another method
    for key in ("hyperparameters", "loss", "noise.rate", "batch_size"):
        if look_up(changed, key) != look_up(settings, key):
            raise OptionError(
                f"{key} cannot be changed here, because the options are those of the paper for "
                f"{key}={look_up(settings, key)}: train the recipe {settings['recipe']!r} instead"
            )


def _with_changes(settings: Mapping[str, Any], changes: Settings) -> Settings:
    result = merged(settings, changes)
    # The options in the recipe are for its own method. Another method has other options.
    if changes.get("method", settings.get("method")) != settings.get("method"):
        result["options"] = dict(changes.get("options", {}))
    noise = changes.get("noise", {})
    # The recipe's rate is for another kind of noise.
    if "rate" not in noise and noise.get("kind") in ("none", "human"):
        result["noise"] = {**noise, "rate": 0.0} if noise["kind"] == "none" else dict(noise)
    for section in ("data", "model"):
        name = changes.get(section, {}).get("name")
        if name is not None and name != settings.get(section, {}).get("name"):
            result[section] = dict(changes[section])
    return result
