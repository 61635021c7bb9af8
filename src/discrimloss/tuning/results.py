"""Writes the files of a search: the best recipe, all trials as CSV, and a page of charts."""

from __future__ import annotations

import html
import warnings
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

import plotly.graph_objects as go
import tomlkit
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from plotly.io.json import to_json_plotly

from discrimloss._version import __version__
from discrimloss.files.atomic_write import atomic_write
from discrimloss.training.config import RunConfig
from discrimloss.training.records import Row, as_csv
from discrimloss.training.run_directory import as_toml
from discrimloss.tuning.outcome import Outcome
from discrimloss.tuning.search_space import with_values
from discrimloss.tuning.storage import experimental_is_fine
from discrimloss.tuning.study import SETTINGS, TEST, WHY, standing

BEST = "best.toml"
TRIALS = "trials.csv"
PAGE = "tuning.html"
TEMPLATE = Path(__file__).parent / "page.html"
FEWEST_TRIALS = 10
"""Minimum number of complete trials for importances. With fewer trials, they are random."""
BLUE, RED, GREY = "#2e86c8", "#c9356f", "#8a8f98"


def write_results(
    outcome: Outcome, recipe: RunConfig, importances: dict[str, float], out: Path, command: str
) -> None:
    """Write all three files, each complete or not at all.

    Args:
        outcome: the trials, and the best one.
        recipe: the recipe that was searched.
        importances: importance of each setting. Empty with too few trials.
        out: the directory.
        command: the command that started the search.
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
    """Return the recipe with the best values as TOML. It has no noisy validation split."""
    everything = replace(recipe, noisy_validation=0.0)
    settings = with_values(everything, outcome.best_settings()).as_dict()
    settings["recipe"] = f"{recipe.recipe}-tuned"
    score = outcome.validation(outcome.best.value)
    heading = (
        f"# discrimloss train {path}\n"
        f"# {recipe.recipe}, {recipe.method}: the best of {len(outcome.complete)} complete trials "
        f"by noisy validation labels ({outcome.metric} {score:.2f}, trial {outcome.best.number}).\n"
    )
    return f"{heading}\n{tomlkit.dumps(as_toml(settings))}"


def trial_rows(outcome: Outcome) -> list[Row]:
    """Return a row for each trial: its state, its metrics and its settings."""
    rows: list[Row] = []
    for trial in outcome.trials:
        is_complete = trial.state == TrialState.COMPLETE
        score = outcome.validation(trial.value) if is_complete else None
        row: dict[str, Any] = {
            "trial": trial.number,
            "state": trial.state.name.lower(),
            f"validation_{outcome.metric}": score,
            f"test_{outcome.metric}": trial.user_attrs.get(TEST),
            "epochs": len(trial.intermediate_values),
            "seconds": None if trial.duration is None else trial.duration.total_seconds(),
        }
        rows.append(row | trial.user_attrs.get(SETTINGS, {}))
    for row, trial in zip(rows, outcome.trials, strict=True):
        row[WHY] = trial.user_attrs.get(WHY)  # the last column: it may be long
    return rows


def importances_of(study: Study) -> dict[str, float]:
    """Return the importance of each setting for a good trial (PED-ANOVA). The sum is 1.

    The result is empty with fewer than `FEWEST_TRIALS` complete trials.
    """
    if standing(study).complete < FEWEST_TRIALS:
        return {}
    with experimental_is_fine(), warnings.catch_warnings():
        # If all trials are equal, Optuna warns and returns equal importances.
        warnings.simplefilter("ignore", UserWarning)
        return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())


def tuning_page(
    outcome: Outcome, recipe: RunConfig, importances: dict[str, float], command: str
) -> str:
    """Return the page as HTML. It loads nothing from the network."""
    from plotly.offline import get_plotlyjs

    charts = [
        ("history", "The search, trial by trial", history_figure(outcome), _HISTORY),
        ("importance", "What matters", importance_figure(importances), _IMPORTANCE),
        ("oracle", "Noisy choice and oracle", oracle_figure(outcome), _ORACLE),
    ]
    drawn = {key: figure.to_plotly_json() for key, _, figure, _ in charts if figure is not None}
    sections = "\n".join(_section(key, title, key in drawn, text) for key, title, _, text in charts)
    settings = "\n".join(
        f"<tr><td>{html.escape(key)}</td><td>{html.escape(str(value))}</td></tr>"
        for key, value in outcome.best_settings().items()
    )
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=html.escape(f"{recipe.recipe}, {recipe.method}: {len(outcome.trials)} trials"),
        command=html.escape(command),
        settings=settings,
        sections=sections,
        figures=to_json_plotly(drawn),
        plotly=get_plotlyjs(),
        version=html.escape(__version__),
    )


_HISTORY = (
    "Each mark is a trial, scored on the labels of its noisy validation split. The line is the "
    "best score so far. Pruned trials have the score of the epoch in which they were stopped. The "
    "first trial is the unchanged recipe."
)
_IMPORTANCE = (
    "The importance of each setting for being among the best trials, as fractions that sum to 1 "
    f"(PED-ANOVA). This needs {FEWEST_TRIALS} complete trials."
)
_ORACLE = (
    "Complete trials: the score that the search used, and the test score, which it did not use. "
    "The closer the trials are to a rising line, the better the choice without clean labels."
)
_MISSING = {"importance": "there are too few complete trials", "oracle": "there is no test data"}


def history_figure(outcome: Outcome) -> go.Figure:
    """Return a plot of the score of each trial, and of the best score so far."""
    complete = outcome.complete
    pruned = [t for t in outcome.trials if t.state == TrialState.PRUNED and t.intermediate_values]
    last_scores = [t.intermediate_values[max(t.intermediate_values)] for t in pruned]
    best: list[float] = []
    for trial in complete:
        best.append(max([float(trial.value or 0.0), *best[-1:]]))
    line = go.Scatter(
        mode="lines",
        name="best so far",
        x=[t.number for t in complete],
        y=[outcome.validation(score) for score in best],
        line={"shape": "hv", "color": RED},
        hoverinfo="skip",
    )
    marks = [
        _marks("complete", complete, outcome, [t.value for t in complete], "circle", BLUE),
        _marks("pruned", pruned, outcome, last_scores, "x", GREY),
    ]
    return _figure([*marks, line], "trial", f"noisy validation {outcome.metric}")


def _marks(
    name: str,
    trials: list[FrozenTrial],
    outcome: Outcome,
    scores: list[Any],
    symbol: str,
    colour: str,
) -> go.Scatter:
    def settings(trial: FrozenTrial) -> str:
        values = trial.user_attrs.get(SETTINGS, {})
        return "<br>".join(html.escape(f"{key} = {value}"[:60]) for key, value in values.items())

    return go.Scatter(
        mode="markers",
        name=f"{name} ({len(trials)})",
        x=[t.number for t in trials],
        y=[outcome.validation(score) for score in scores],
        text=[settings(t) for t in trials],
        hovertemplate="trial %{x}: %{y:.4~g}<br>%{text}<extra></extra>",
        marker={"symbol": symbol, "color": colour, "size": 8},
    )


def importance_figure(importances: dict[str, float]) -> go.Figure | None:
    """Return a bar chart of the importances, the largest on top."""
    if not importances:
        return None
    rising = sorted(importances.items(), key=lambda item: item[1])
    bars = go.Bar(
        orientation="h",
        x=[importance for _, importance in rising],
        y=[html.escape(key[:40]) for key, _ in rising],
        marker={"color": BLUE},
        hovertemplate="%{y}: %{x:.4~g}<extra></extra>",
    )
    return _figure([bars], "importance", "").update_layout(margin={"l": 210})


def oracle_figure(outcome: Outcome) -> go.Figure | None:
    """Return a plot of the test metric of each complete trial over its score."""
    tested = [t for t in outcome.complete if TEST in t.user_attrs]
    if not tested:
        return None
    marks = go.Scatter(
        mode="markers",
        x=[outcome.validation(t.value) for t in tested],
        y=[t.user_attrs[TEST] for t in tested],
        text=[f"trial {t.number}" for t in tested],
        hovertemplate="%{text}: %{x:.4~g}, test %{y:.4~g}<extra></extra>",
        marker={"color": BLUE, "size": 8},
    )
    return _figure([marks], f"noisy validation {outcome.metric}", f"test {outcome.metric}")


def _figure(data: list[Any], x: str, y: str) -> go.Figure:
    # No template: the page itself sets colours for light and for dark screens.
    layout = {"template": None, "xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}
    return go.Figure(data, layout)


def _section(key: str, title: str, is_drawn: bool, text: str) -> str:
    chart = f'<div class="chart" id="{key}"></div>'
    place = chart if is_drawn else f"<p>Left out: {_MISSING[key]}.</p>"
    return f"<section><h2>{title}</h2>{place}<p>{text}</p></section>"
