"""The charts of a run: what each shows, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discrimloss.auditing.report import statistics
from discrimloss.auditing.report.chart import (
    NO_VERDICTS,
    Chart,
    ChartView,
    Figure,
    axes,
    bar_view,
    bars,
    epoch_axes,
    line,
    plain,
    points_by_verdict,
)
from discrimloss.auditing.report.colours import DASHES, colour_of, fill_of
from discrimloss.auditing.report.contents import ReportRun
from discrimloss.auditing.report.trace_charts import (
    loss_distribution,
    loss_map,
    weight_fluctuation,
    weight_traces,
)

MOST_CLASSES = 25
"""A confusion of more classes is a list of its most frequent pairs."""
MOST_BARS = 25


def run_charts(run: ReportRun) -> list[Chart]:
    """All charts of a run, in the order of the page."""
    return [
        loss_distribution(run),
        thresholds(run),
        weight_traces(run),
        weight_fluctuation(run),
        curves(run),
        loss_map(run),
        given_and_suggested(run),
        noise_by_class(run),
    ]


def thresholds(run: ReportRun) -> Chart:
    """``k1``, ``k_dyn`` and ``k2`` over the epochs."""
    key, title = "thresholds", "Thresholds"
    words = {"k1": "k1 (below: easy)", "k_dyn": "k_dyn (in use)", "k2": "k2 (above: incorrect)"}
    present = [name for name in words if any(name in row for row in run.history)]
    if not present:
        reason = "no epoch has ended." if not run.history else "this method has no thresholds."
        return Chart(key, title, left_out=f"Left out: {reason}")
    data = [line(run.history, name, words[name], colour_of(name), DASHES[name]) for name in present]
    caption = (
        "A sample whose loss is above the line in use counts less in training, one below it counts "
        "more; the line in use climbs from k1 to k2 as the run goes from easy samples to hard ones."
    )
    return Chart(key, title, caption, (ChartView("", data, epoch_axes(len(run.history), "loss")),))


def curves(run: ReportRun) -> Chart:
    """Train, validation and test curves."""
    key, title = "curves", "Training and test"
    views = [
        view
        for name, unit in (
            (run.metric, "%" if run.metric == "accuracy" else "MAE"),
            ("loss", "loss"),
        )
        if (view := _curve_view(run, name, unit)) is not None
    ]
    if not views:
        return Chart(key, title, left_out="Left out: no epoch has ended.")
    has_test = any(f"test_{run.metric}" in row for row in run.history)
    good, moves = ("lower", "falls") if run.is_regression else ("higher", "climbs")
    caption = (
        f"How well labels are predicted after each epoch ({good} is better); training is judged "
        f"by the labels as given, wrong ones included, so a training curve that {moves} late means "
        "that wrong labels are learned by heart."
    )
    if not has_test:
        caption += " There is no test part here."
    return Chart(key, title, caption, tuple(views))


def _curve_view(run: ReportRun, name: str, unit: str) -> ChartView | None:
    parts = (
        [
            part
            for part in ("train", "validation", "test")
            if f"{part}_{name}" in run.history[-1:][0]
        ]
        if run.history
        else []
    )
    if not parts:
        return None
    data = [
        line(run.history, f"{part}_{name}", part, colour_of(part), DASHES[part]) for part in parts
    ]
    words = {"accuracy": "Accuracy", "mae": "Mean absolute error", "loss": "Loss"}
    return ChartView(words[name], data, epoch_axes(len(run.history), unit))


def given_and_suggested(run: ReportRun) -> Chart:
    """Which classes are taken for which; for numbers, target against prediction."""
    title = "Target against prediction" if run.is_regression else "Given label → suggested label"
    key = "confusion"
    if run.samples is None:
        return Chart(key, title, left_out=NO_VERDICTS)
    if not run.samples["suggested"].notna().any():
        return Chart(key, title, left_out="Left out: there are no suggested labels.")
    if run.is_regression:
        caption = (
            "Each point is a sample; the further it is from the diagonal, the more its label and "
            "the model differ."
        )
        given = run.samples["given"].to_numpy(dtype=np.float64)
        suggested = run.samples["suggested"].astype(float).to_numpy()
        groups = run.samples["verdict"].to_numpy().astype(str)
        data, left_out = points_by_verdict(given, suggested, groups, run.samples["id"].to_numpy())
        data.insert(0, _diagonal(given, suggested))
        layout = axes("given target", "prediction")
        return Chart(key, title, caption + left_out, (ChartView("", data, layout),))
    found = statistics.confusion(run.samples)
    if not len(found.counts):
        return Chart(key, title, left_out="Left out: no incorrect label with another suggestion.")
    rest = ""
    if found.without_suggestion:
        rest = f" Incorrect labels without another suggestion: {found.without_suggestion:,}."
    if len(run.class_names) <= MOST_CLASSES:
        caption = (
            "Labels called incorrect, by the class they were given (row) and the class that is "
            "suggested (column); the more colour, the more often the two classes are mixed up."
            f"{rest}"
        )
        view = _confusion_matrix(found.matrix(run.class_names), run.class_names)
        return Chart(key, title, caption, (view,))
    shown = min(MOST_BARS, len(found.counts))
    caption = (
        f"The {shown} most frequent pairs of given and suggested class among the labels called "
        f"incorrect, out of {len(found.counts):,} pairs.{rest}"
    )
    names = [
        f"{plain(given, 14)} → {plain(suggested, 14)}"
        for given, suggested in zip(found.given[:shown], found.suggested[:shown], strict=True)
    ]
    pairs = bars(found.counts[:shown].tolist(), "%{x:,} samples<extra></extra>")
    return Chart(key, title, caption, (bar_view([pairs], names, "samples"),))


def _diagonal(x: Any, y: Any) -> Figure:
    """Where label and prediction are equal."""
    values = np.concatenate([x[np.isfinite(x)], y[np.isfinite(y)]])
    ends = [float(values.min()), float(values.max())]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "equal",
        "x": ends,
        "y": ends,
        "line": {"color": colour_of("unseen"), "width": 1, "dash": "dash"},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _confusion_matrix(matrix: Any, class_names: Sequence[str]) -> ChartView:
    names = [plain(name, 16) for name in class_names]
    positions = list(range(len(names)))
    cells: Figure = {
        "type": "heatmap",
        "z": matrix.tolist(),
        "x": positions,
        "y": positions,
        "customdata": [[[row, column] for column in names] for row in names],
        "hovertemplate": "%{customdata[0]} → %{customdata[1]}: %{z:,}<extra></extra>",
        "colorscale": [[0, fill_of("incorrect", 0.0)], [1, fill_of("incorrect", 0.95)]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
    }
    if len(names) <= 12:
        cells |= {"text": [[str(v) if v else "" for v in row] for row in matrix.tolist()]}
        cells |= {"texttemplate": "%{text}"}
    layout = axes("suggested", "given")
    ticks = {"tickvals": positions, "ticktext": names, "showgrid": False, "zeroline": False}
    layout["xaxis"] |= ticks | {"constrain": "domain"}
    layout["yaxis"] |= ticks | {"autorange": "reversed"}
    layout["height"] = 360 + max(0, 12 * (len(names) - 12))
    return ChartView("", [cells], layout)


def noise_by_class(run: ReportRun) -> Chart:
    """Estimated noise of each class."""
    key = "noise"
    title = "Noise by range of the target" if run.is_regression else "Noise by class"
    if run.samples is None:
        return Chart(key, title, left_out=NO_VERDICTS)
    groups = statistics.class_noise(run.samples, run.is_regression)
    if not groups:
        return Chart(key, title, left_out="Left out: no sample was seen in training.")
    shown = groups[:MOST_BARS]
    what = "range" if run.is_regression else "given class"
    caption = (
        f"The estimated share of wrong labels in each {what}: the mean of the samples' "
        "probabilities of being incorrect."
    )
    if len(groups) > len(shown):
        caption += f" Shown are the {len(shown)} noisiest of {len(groups):,} classes."
    names = [plain(group.name) for group in shown]
    hover = "%{x:.1f} % of %{customdata:,}<extra></extra>"
    estimates = bars([round(100 * group.estimated, 2) for group in shown], hover)
    estimates |= {"customdata": [group.count for group in shown], "name": "estimated"}
    data = [estimates]
    if shown[0].true is not None:
        caption += " The diamonds are the true shares."
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "true",
                "x": [round(100 * (group.true or 0.0), 2) for group in shown],
                "y": list(range(len(shown))),
                "marker": {"symbol": "diamond", "size": 9, "color": colour_of("truly wrong")},
                "hovertemplate": "true: %{x:.1f} %<extra></extra>",
            }
        )
    return Chart(key, title, caption, (bar_view(data, names, "wrong labels, %"),))
