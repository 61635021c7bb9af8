"""`tuning.html`: how the search went and what matters, in one file that opens without a network."""

from __future__ import annotations

import html
import warnings
from pathlib import Path
from string import Template
from typing import Any

from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from discrimloss._version import __version__
from discrimloss.auditing.report.chart import Figure, axes, plain, rounded
from discrimloss.auditing.report.colours import colour_of
from discrimloss.auditing.report.page import safe_json
from discrimloss.training.config import RunConfig
from discrimloss.tuning.outcome import Outcome
from discrimloss.tuning.storage import experimental_is_fine
from discrimloss.tuning.study import SETTINGS, TEST, standing

TEMPLATE = Path(__file__).parent / "page.html"
FEWEST_TRIALS = 10
"""Complete ones, below which chance decides what seems to matter."""


def importances_of(study: Study) -> dict[str, float]:
    """How much each setting decides whether a trial is among the best, as shares (PED-ANOVA).

    Empty where too few trials are complete to say.
    """
    if standing(study).complete < FEWEST_TRIALS:
        return {}
    with experimental_is_fine(), warnings.catch_warnings():
        # It warns where all trials are alike, and then gives equal shares.
        warnings.simplefilter("ignore", UserWarning)
        return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())


def tuning_page(
    outcome: Outcome, recipe: RunConfig, importances: dict[str, float], command: str
) -> str:
    """The page as text."""
    from plotly.offline import get_plotlyjs

    charts = [
        ("history", "The search, trial by trial", history_figure(outcome), _HISTORY),
        ("importance", "What matters", importance_figure(importances), _IMPORTANCE),
        ("oracle", "Noisy choice and oracle", oracle_figure(outcome), _ORACLE),
    ]
    drawn = {key: figure for key, _, figure, _ in charts if figure is not None}
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
        figures=safe_json(drawn),
        plotly=get_plotlyjs(),
        version=html.escape(__version__),
    )


_HISTORY = (
    "Each mark is a trial, judged by the labels of its noisy validation split; the line is the "
    "best so far. Pruned trials stand at the epoch they were stopped in. The first trial is the "
    "recipe as it is."
)
_IMPORTANCE = (
    "How much each setting decides whether a trial is among the best, as shares of all of it "
    f"(PED-ANOVA). It takes {FEWEST_TRIALS} complete trials."
)
_ORACLE = (
    "Complete trials: what the search saw, and the test score that it did not see. The closer to a "
    "rising line, the better the choice without clean labels."
)


def history_figure(outcome: Outcome) -> Figure:
    """Scores by the number of the trial, and the best so far."""
    complete = outcome.complete
    pruned = [t for t in outcome.trials if t.state == TrialState.PRUNED and t.intermediate_values]
    best: list[float] = []
    for trial in complete:
        score = float(trial.value or 0.0)
        best.append(max(score, best[-1]) if best else score)
    data = [
        _marks("complete", complete, outcome, [float(t.value or 0.0) for t in complete], "circle"),
        _marks("pruned", pruned, outcome, [_last_score(t) for t in pruned], "x"),
        {
            "type": "scatter",
            "mode": "lines",
            "name": "best so far",
            "x": [t.number for t in complete],
            "y": rounded(outcome.validation(score) for score in best),
            "line": {"shape": "hv", "color": colour_of("incorrect")},
            "hoverinfo": "skip",
        },
    ]
    return {"data": data, "layout": axes("trial", f"noisy validation {outcome.metric}")}


def _last_score(trial: FrozenTrial) -> float:
    return trial.intermediate_values[max(trial.intermediate_values)]


def _marks(
    name: str, trials: list[FrozenTrial], outcome: Outcome, scores: list[float], symbol: str
) -> Figure:
    colour = colour_of("test" if name == "complete" else "unseen")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{name} ({len(trials)})",
        "x": [t.number for t in trials],
        "y": rounded(outcome.validation(score) for score in scores),
        "text": [_told(t) for t in trials],
        "hovertemplate": "trial %{x}: %{y}<br>%{text}<extra></extra>",
        "marker": {"symbol": symbol, "color": colour, "size": 8},
    }


def _told(trial: FrozenTrial) -> str:
    settings: dict[str, Any] = trial.user_attrs.get(SETTINGS, {})
    return "<br>".join(plain(f"{key} = {value}", 60) for key, value in settings.items())


def importance_figure(importances: dict[str, float]) -> Figure | None:
    """Bars, the longest on top."""
    if not importances:
        return None
    rising = sorted(importances.items(), key=lambda item: item[1])
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": rounded(share for _, share in rising),
        "y": [plain(key, 40) for key, _ in rising],
        "marker": {"color": colour_of("test")},
        "hovertemplate": "%{y}: %{x}<extra></extra>",
    }
    layout = {**axes("share", ""), "margin": {"l": 210}}
    return {"data": [bars], "layout": layout}


def oracle_figure(outcome: Outcome) -> Figure | None:
    """The test figure of each complete trial over its score."""
    judged = [t for t in outcome.complete if TEST in t.user_attrs]
    if not judged:
        return None
    marks = {
        "type": "scatter",
        "mode": "markers",
        "x": rounded(outcome.validation(t.value) for t in judged),
        "y": rounded(t.user_attrs[TEST] for t in judged),
        "text": [f"trial {t.number}" for t in judged],
        "hovertemplate": "%{text}: %{x}, test %{y}<extra></extra>",
        "marker": {"color": colour_of("test"), "size": 8},
    }
    names = (f"noisy validation {outcome.metric}", f"test {outcome.metric}")
    return {"data": [marks], "layout": axes(*names)}


def _section(key: str, title: str, is_drawn: bool, text: str) -> str:
    place = f'<div class="chart" id="{key}"></div>' if is_drawn else "<p>Left out: too little.</p>"
    return f"<section><h2>{title}</h2>{place}<p>{text}</p></section>"
