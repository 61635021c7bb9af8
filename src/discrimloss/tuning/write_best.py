"""What a search leaves: a recipe with the best values, all trials as a table, and a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import tomlkit

from discrimloss.files.atomic_write import atomic_write
from discrimloss.training.config import RunConfig
from discrimloss.training.records import Row, as_csv
from discrimloss.training.run_directory import as_toml
from discrimloss.tuning.outcome import Outcome
from discrimloss.tuning.page import tuning_page
from discrimloss.tuning.search_space import with_values
from discrimloss.tuning.study import SETTINGS, TEST, WHY

BEST = "best.toml"
TRIALS = "trials.csv"
PAGE = "tuning.html"


def write_results(
    outcome: Outcome, recipe: RunConfig, importances: dict[str, float], out: Path, command: str
) -> None:
    """Write all of it, each file whole or not at all.

    Args:
        outcome: what was found.
        recipe: the recipe that was searched.
        importances: how much each setting matters; empty if nobody can say yet.
        out: the directory.
        command: how the search was started.
    """
    out.mkdir(parents=True, exist_ok=True)
    files = {
        BEST: best_recipe(outcome, recipe, out / BEST),
        TRIALS: as_csv(trial_rows(outcome)),
        PAGE: tuning_page(outcome, recipe, importances, command),
    }
    for name, text in files.items():
        with atomic_write(out / name) as unfinished:
            unfinished.write_text(text, encoding="utf-8")


def best_recipe(outcome: Outcome, recipe: RunConfig, path: Path) -> str:
    """The recipe with the best values, as TOML. It learns from all samples."""
    everything = replace(recipe, noisy_validation=0.0)
    table = with_values(everything, outcome.best_settings()).as_dict()
    table["recipe"] = f"{recipe.recipe}-tuned"
    score = outcome.validation(outcome.best.value)
    heading = (
        f"# discrimloss train {path}\n"
        f"# {recipe.recipe}, {recipe.method}: the best of {len(outcome.complete)} complete trials "
        f"by noisy validation labels ({outcome.metric} {score:.2f}, trial {outcome.best.number}).\n"
    )
    return f"{heading}\n{tomlkit.dumps(as_toml(table))}"


def trial_rows(outcome: Outcome) -> list[Row]:
    """A row for each trial: how it ended, its figures, and what was set in it."""
    rows: list[Row] = []
    for trial in outcome.trials:
        row: dict[str, Any] = {"trial": trial.number, "state": trial.state.name.lower()}
        is_complete = trial.value is not None and trial in outcome.complete
        score = trial.value if is_complete else None
        row[f"validation_{outcome.metric}"] = None if score is None else outcome.validation(score)
        row[f"test_{outcome.metric}"] = trial.user_attrs.get(TEST)
        row["epochs"] = len(trial.intermediate_values)
        row["seconds"] = None if trial.duration is None else trial.duration.total_seconds()
        row |= trial.user_attrs.get(SETTINGS, {})
        rows.append(row)
    for row, trial in zip(rows, outcome.trials, strict=True):
        row[WHY] = trial.user_attrs.get(WHY)  # last: it may be long
    return rows
