"""The charts of a run, with captions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from discrimloss.auditing.report import statistics
from discrimloss.auditing.report.answer import noise_of
from discrimloss.auditing.report.chart import (
    HEIGHT,
    NO_VERDICTS,
    Chart,
    ChartView,
    bars_view,
    column_rows,
    group_of,
    lines_view,
    scatter_view,
    short,
    short_names,
    tooltip,
    view_of,
)
from discrimloss.auditing.report.colours import colour_of
from discrimloss.auditing.report.contents import ReportRun
from discrimloss.auditing.report.trace_charts import (
    data_map,
    loss_distribution,
    weight_fluctuation,
    weight_traces,
)

MOST_CLASSES = 25
"""With more classes, a list of the most frequent pairs replaces the confusion matrix."""
MOST_BARS = 25
FEWEST_WRONG = 0.0005
"""Smaller estimated fractions of wrong labels are not drawn."""
METRICS = {"accuracy": ("Accuracy", "%"), "mae": ("Mean absolute error", "MAE")}


def run_charts(run: ReportRun) -> list[Chart]:
    """Return all charts of a run, in the order of the page."""
    return [
        loss_distribution(run),
        thresholds(run),
        weight_traces(run),
        weight_fluctuation(run),
        curves(run),
        data_map(run),
        replace(given_and_suggested(run), part="data"),
        replace(class_noise(run), part="data"),
    ]


def thresholds(run: ReportRun) -> Chart:
    """Return ``k1``, ``k_dyn`` and ``k2`` over the epochs."""
    key, title = "thresholds", "Thresholds"
    labels = {"k1": "k1 (below: easy)", "k_dyn": "k_dyn (in use)", "k2": "k2 (above: incorrect)"}
    view = _history_view(run, "", {name: (name, label) for name, label in labels.items()}, "loss")
    if view is None:
        reason = "no epoch is finished." if not run.history else "this method has no thresholds."
        return Chart(key, title, left_out=f"Left out: {reason}")
    caption = (
        "A sample with a loss above the current threshold has less weight in training, one below "
        "has more. The current threshold rises from k1 to k2 as training turns from easy samples "
        "to hard ones."
    )
    return Chart(key, title, caption, (view,))


def curves(run: ReportRun) -> Chart:
    """Return training, validation and test curves."""
    key, title = "curves", "Training and test"
    splits = ("train", "validation", "test")
    views = [
        view
        for column, (words, unit) in {
            run.metric: METRICS[run.metric],
            "loss": ("Loss", "loss"),
        }.items()
        if (view := _history_view(run, words, {f"{s}_{column}": (s, s) for s in splits}, unit))
    ]
    if not views:
        return Chart(key, title, left_out="Left out: no epoch is finished.")
    better, moves = ("lower", "falls") if run.is_regression else ("higher", "rises")
    caption = (
        f"How well labels are predicted after each epoch ({better} is better). The training curve "
        f"is measured on the given labels, including wrong ones: if it {moves} late, wrong labels "
        "are memorised."
    )
    if not any(f"test_{run.metric}" in row for row in run.history):
        caption += " There is no test split here."
    return Chart(key, title, caption, tuple(views))


def _history_view(
    run: ReportRun, name: str, columns: dict[str, tuple[str, str]], y: str
) -> ChartView | None:
    """Return curves of columns of the history, each with the name of its style and its label."""
    rows = {
        column: found
        for column, (_, label) in columns.items()
        if (found := column_rows(run.history, column, label))
    }
    if not rows:
        return None
    groups = [group_of(*columns[column]) for column in rows]
    return lines_view(name, [row for found in rows.values() for row in found], groups, y)


def given_and_suggested(run: ReportRun) -> Chart:
    """Return the confusion of classes, or regression targets against predictions."""
    title = "Target against prediction" if run.is_regression else "Given label → suggested label"
    key = "confusion"
    if run.samples is None:
        return Chart(key, title, left_out=NO_VERDICTS)
    if not run.samples["suggested"].notna().any():
        return Chart(key, title, left_out="Left out: there are no suggested labels.")
    if run.is_regression:
        caption = (
            "Each point is a sample. The further it is from the diagonal, the more its label and "
            "the prediction differ."
        )
        given = run.samples["given"].to_numpy(dtype=np.float64)
        suggested = run.samples["suggested"].astype(float).to_numpy()
        view, left_out = scatter_view(
            given,
            suggested,
            run.samples["verdict"].to_numpy().astype(str),
            run.samples["id"].to_numpy(),
            ("given target", "prediction"),
            diagonal=True,
        )
        return Chart(key, title, caption + left_out, (view,))
    found = statistics.confusion(run.samples)
    if not len(found.counts):
        return Chart(key, title, left_out="Left out: no incorrect label has another suggestion.")
    rest = ""
    if found.without_suggestion:
        rest = f" Incorrect labels without another suggestion: {found.without_suggestion:,}."
    if len(run.class_names) <= MOST_CLASSES:
        caption = (
            "Labels with the verdict incorrect, by given class (row) and suggested class (column). "
            f"The stronger the colour, the more often the two classes are confused.{rest}"
        )
        view = _confusion_matrix(found.matrix(run.class_names), run.class_names)
        return Chart(key, title, caption, (view,))
    shown = min(MOST_BARS, len(found.counts))
    caption = (
        f"The {shown} most frequent pairs of given and suggested class among the labels with the "
        f"verdict incorrect, out of {len(found.counts):,} pairs.{rest}"
    )
    pairs = [*found.given[:shown], *found.suggested[:shown]]
    cut = short_names(pairs, 14)
    names = [f"{one} → {other}" for one, other in zip(cut[:shown], cut[shown:], strict=True)]
    counts = found.counts[:shown].tolist()
    rows = [{"value": count, "count": count} for count in counts]
    return Chart(key, title, caption, (bars_view(rows, names, "samples"),))


def _confusion_matrix(matrix: Any, class_names: Sequence[str]) -> ChartView:
    names = short_names(class_names, 18)
    cells = [
        {"row": row, "column": column, "count": int(count)}
        | {"given": short(class_names[row]), "suggested": short(class_names[column])}
        for (row, column), count in np.ndenumerate(matrix)
        if count
    ]
    positions = list(range(len(names)))

    def places(field: str, title: str, **axis: Any) -> dict[str, Any]:
        names_of = f"{json.dumps(names)}[datum.value]"
        return {
            "field": field,
            "type": "ordinal",
            "title": title,
            "scale": {"domain": positions},
            "axis": {"labelExpr": names_of, "labelLimit": 130, "grid": False} | axis,
        }

    angle = 0 if max(map(len, names)) <= 2 else -90
    place = {"x": places("column", "suggested", labelAngle=angle), "y": places("row", "given")}
    hover = tooltip(
        ("given", "given", ""), ("suggested", "suggested", ""), ("count", "samples", ",")
    )
    opacity = {
        "field": "count",
        "type": "quantitative",
        "scale": {"domain": [0, int(matrix.max())], "range": [0.05, 0.95]},
        "legend": None,
    }
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rect", "color": colour_of("incorrect")},
            "encoding": {**place, "fillOpacity": opacity, "tooltip": hover},
        }
    ]
    if len(names) <= 12:
        text = {"field": "count", "type": "quantitative"}
        layers.append({"mark": {"type": "text"}, "encoding": {**place, "text": text}})
    return view_of("", cells, {"layer": layers}, height=max(HEIGHT + 20, 20 * len(names)))


def class_noise(run: ReportRun) -> Chart:
    """Return the estimated noise of each class."""
    key = "class_noise"
    title = "Noise by range of the target" if run.is_regression else "Noise by class"
    if run.samples is None:
        return Chart(key, title, left_out=NO_VERDICTS)
    rate, interval = noise_of(run)
    groups = statistics.class_noise(
        run.samples, run.is_regression, noise_rate=rate, noise_interval=interval
    )
    if not groups:
        return Chart(key, title, left_out="Left out: no sample was seen in training.")
    if max(group.estimated for group in groups) < FEWEST_WRONG:
        return Chart(key, title, left_out="Left out: almost no label is wrong.")
    shown = groups[:MOST_BARS]
    what = "range" if run.is_regression else "given class"
    caption = (
        f"The estimated fraction of wrong labels in each {what}: the mean of the samples' "
        "probabilities of being incorrect."
    )
    if len(groups) > len(shown):
        caption += f" The chart shows the {len(shown)} noisiest of {len(groups):,} classes."
    rows = [
        {"value": round(100 * group.estimated, 2), "count": group.count}
        | ({} if group.true is None else {"true": round(100 * group.true, 2)})
        | ({} if group.interval is None else _ends(group.interval))
        for group in shown
    ]
    has_lines = shown[0].interval is not None
    if has_lines:
        caption += " A line shows the interval that probably contains the true fraction."
    is_known = shown[0].true is not None
    if is_known:
        caption += " The diamonds are the true fractions."
    names = short_names([group.name for group in shown], 22)
    view = bars_view(rows, names, "wrong labels, %", is_known, has_lines)
    return Chart(key, title, caption, (view,))


def _ends(interval: tuple[float, float]) -> dict[str, float]:
    low, high = interval
    return {"low": round(100 * low, 2), "high": round(100 * high, 2)}
