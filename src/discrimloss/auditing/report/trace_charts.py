"""Charts of individual samples over the epochs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discrimloss.auditing.report import statistics
from discrimloss.auditing.report.chart import (
    NEEDS_EPOCHS,
    NO_TRACES,
    Chart,
    ChartView,
    Group,
    Spec,
    counted_groups,
    epoch_axis,
    group_of,
    grouped,
    number,
    rounded,
    scatter_view,
    short,
    subset,
    tooltip,
    view_of,
)
from discrimloss.auditing.report.colours import order_of
from discrimloss.auditing.report.contents import ALL_SAMPLES, ReportRun

MOST_EPOCHS = 60
"""Maximum number of positions of a slider."""
TRACED_SAMPLES = 4
"""Number of samples of each verdict whose weights are drawn."""


def loss_distribution(run: ReportRun) -> Chart:
    """Return the paper's histogram of the losses, by verdict and, if known, by truth."""
    key, title = "losses", "Losses, epoch by epoch"
    if run.traces is None:
        return Chart(key, title, left_out=NO_TRACES)
    edges = statistics.loss_bin_edges(run.traces.loss)
    epochs = statistics.chosen_epochs(len(run.traces.epochs), MOST_EPOCHS)
    verdicts = run.traced_verdicts()
    name = "All samples" if verdicts[0] == ALL_SAMPLES else "By verdict"
    views = [_loss_view(run, name, verdicts, edges, epochs)]
    truth = truth_of(run)
    if truth is not None:
        views.append(_loss_view(run, "By truth", truth, edges, epochs))
    skipped = ""
    if len(epochs) < len(run.traces.epochs):
        skipped = f" {len(epochs)} of {len(run.traces.epochs)} epochs are shown."
    caption = (
        "The losses of each group, with small (learned) ones on the left. Move the slider to see "
        "the groups separate. Losses are on a log scale, and fractions on a square-root scale, so "
        "that small groups are visible. The outermost bins include everything beyond them."
        f"{skipped}"
        f"{subset(run)}"
    )
    return Chart(key, title, caption, tuple(views), wide=True)


def _loss_view(run: ReportRun, name: str, groups: Any, edges: Any, epochs: list[int]) -> ChartView:
    assert run.traces is not None
    loss = run.traces.loss
    shown = counted_groups(groups)
    centres = rounded(10.0 ** ((edges[:-1] + edges[1:]) / 2))
    counts = {
        group: np.array(
            [statistics.loss_histogram(loss[epoch][groups == group], edges) for epoch in epochs]
        )
        for group in shown
    }
    rows = [
        {"loss": centre, "group": style.label, "series": counts[group][:, place].tolist()}
        for group, style in shown.items()
        for place, centre in enumerate(centres)
    ]
    totals = [
        {"calculate": "datum.series[position]", "as": "count"},
        {"joinaggregate": [{"op": "sum", "field": "count", "as": "total"}], "groupby": ["group"]},
        {"calculate": "100 * datum.count / max(datum.total, 1)", "as": "percent"},
    ]
    highest = max(
        float((100.0 * count.max(axis=1) / np.maximum(count.sum(axis=1), 1)).max())
        for count in counts.values()
    )
    limits = [float(f"{10.0**edge:.4g}") for edge in (edges[0], edges[-1])]
    powers = [10.0**power for power in range(math.ceil(edges[0]), math.floor(edges[-1]) + 1)]
    ticks = {"values": powers} if len(powers) > 1 else {"tickCount": 5}
    styles = list(shown.values())
    style_of = grouped(styles, "strokeDash")
    fraction = "% of the group"
    spec: Spec = {
        "transform": totals,
        "encoding": {
            "x": number(
                "loss",
                "loss",
                scale={"type": "log", "domain": limits, "nice": False},
                axis={"format": "~g"} | ticks,
            ),
            "y": number(
                "percent",
                fraction,
                stack=None,
                scale={"type": "sqrt", "domain": [0, round(1.08 * max(highest, 1.0), 1)]},
                axis={"values": [0, 1, 5, 10, 25, 50, 75, 100]},
            ),
            "color": style_of["color"],
            "tooltip": tooltip(
                ("group", "", ""),
                ("loss", "loss about", ".2~g"),
                ("count", "samples", ","),
                ("percent", fraction, ".3~g"),
            ),
        },
        "layer": [
            {"mark": {"type": "area", "interpolate": "step", "fillOpacity": 0.22}},
            {
                "mark": {"type": "line", "interpolate": "step", "point": "transparent"},
                "encoding": {"strokeDash": style_of["strokeDash"]},
            },
        ],
    }
    positions = tuple(f"Epoch {run.traces.epochs[epoch]}" for epoch in epochs)
    return view_of(name, rows, spec, styles, positions=positions)


def weight_traces(run: ReportRun) -> Chart:
    """Return the weights of some samples of each verdict, and the median of each group."""
    key, title = "weights", "Weights of single samples"
    reason = _no_weights(run)
    if reason:
        return Chart(key, title, left_out=reason)
    assert run.traces is not None
    assert run.traces.weight is not None
    weight, epochs = run.traces.weight, run.traces.epochs
    shown = statistics.chosen_epochs(len(epochs), 4 * MOST_EPOCHS)
    verdicts = run.traced_verdicts()
    last = np.nan_to_num(weight[-1].astype(np.float64))
    names, indices = run.traced_column("id"), run.traced_rows()
    rows: list[Spec] = []
    styles: list[Group] = []

    def add(values: Any, group: str, name: str, is_median: bool) -> None:
        rows.extend(
            {"epoch": int(epoch), "value": value, "group": group, "name": name, "all": is_median}
            for epoch, value in zip(epochs[shown], rounded(values), strict=True)
            if value is not None
        )

    for group in order_of(verdicts):
        members = np.flatnonzero(verdicts == group)
        styles.append(group_of(group, f"{group}, median"))
        label = styles[-1].label
        for sample in statistics.spread_out(members, last, TRACED_SAMPLES):
            name = short(indices[sample] if names is None else names[sample])
            add(weight[shown, sample], label, name, is_median=False)
        add([_median(weight[step, members]) for step in shown], label, label, is_median=True)
    encoding = {
        "x": epoch_axis(),
        "y": number("value", "weight", scale={"zero": False}),
        "detail": {"field": "name", "type": "nominal"},
        **grouped(styles, "strokeDash"),
        "tooltip": tooltip(("name", "", ""), ("epoch", "epoch", "d"), ("value", "weight", ".3~g")),
    }
    thin = {"type": "line", "strokeWidth": 1.2, "opacity": 0.55, "point": "transparent"}
    thick = {"type": "line", "strokeWidth": 3.5, "point": "transparent"}
    spec = {
        "encoding": encoding,
        "layer": [
            {"transform": [{"filter": "!datum.all"}], "mark": thin},
            {"transform": [{"filter": "datum.all"}], "mark": thick},
        ],
    }
    caption = (
        "A thin line is the weight of one sample, and a thick line the median of its group. A high "
        "weight means little trust in the sample. Thin lines are up to "
        f"{TRACED_SAMPLES} samples of each verdict, from its lowest to its highest weight at the "
        f"end.{subset(run)}"
    )
    return Chart(key, title, caption, (view_of("", rows, spec, styles),))


def weight_fluctuation(run: ReportRun) -> Chart:
    """Return the paper's figure of fluctuation: box plots of how often weights jump."""
    key, title = "fluctuation", "Fluctuation of weights"
    reason = _no_weights(run)
    if reason:
        return Chart(key, title, left_out=reason)
    assert run.traces is not None
    assert run.traces.weight is not None
    threshold = statistics.fluctuation_threshold(run.traces.weight)
    if threshold <= 0.0:
        return Chart(key, title, left_out="Left out: all weights are equal.")
    jumps = statistics.fluctuations(run.traces.weight, threshold)
    views = [_box_view("By verdict", jumps, run.traced_verdicts())]
    truth = truth_of(run)
    if truth is not None:
        views.append(_box_view("By truth", jumps, truth))
    caption = (
        "The number of epochs in which a sample's weight changed by more than T_fluc. Half of a "
        "group is within its box. In a group with a high box, weights changed often. "
        f"T_fluc is {threshold:.3g} here, a tenth of the range of all weights."
        f"{subset(run)}"
    )
    return Chart(key, title, caption, tuple(views))


def _box_view(name: str, jumps: Any, groups: Any) -> ChartView:
    styles = [group_of(group) for group in order_of(groups)]
    rows: list[Spec] = []
    for style in styles:
        box = statistics.box_of(jumps[groups == style.label])
        rows.append(
            {"group": style.label, "low": box.low, "first": box.first_quartile}
            | {"median": box.median, "third": box.third_quartile, "high": box.high}
        )
    order = [style.label for style in styles]
    colour = grouped(styles)["color"] | {"legend": None}
    axis = {"labelAngle": 0, "grid": False}
    x = {"field": "group", "type": "nominal", "title": None, "sort": order, "axis": axis}
    y = "epochs with a jump"
    hover = tooltip(
        ("group", "", ""),
        ("high", "highest", ".3~g"),
        ("third", "upper quartile", ".3~g"),
        ("median", "median", ".3~g"),
        ("first", "lower quartile", ".3~g"),
        ("low", "lowest", ".3~g"),
    )

    def layer(mark: Spec, low: str, high: str = "") -> Spec:
        upper = {"y2": {"field": high}} if high else {}
        return {"mark": mark, "encoding": {"y": number(low, y), **upper}}

    spec = {
        "encoding": {"x": x, "color": colour, "tooltip": hover},
        "layer": [
            layer({"type": "rule"}, "low", "first"),
            layer({"type": "rule"}, "third", "high"),
            layer({"type": "bar", "size": 46, "opacity": 0.35}, "first", "third"),
            layer({"type": "tick", "size": 46, "thickness": 3}, "median"),
            layer({"type": "tick", "size": 20}, "low"),
            layer({"type": "tick", "size": 20}, "high"),
        ],
    }
    return view_of(name, rows, spec)


def data_map(run: ReportRun) -> Chart:
    """Return the data map: the mean of the loss against its standard deviation."""
    key, title = "data_map", "Data map"
    if run.traces is None:
        return Chart(key, title, left_out=NO_TRACES)
    if len(run.traces.epochs) < 2:
        return Chart(key, title, left_out=NEEDS_EPOCHS)
    mean, deviation = statistics.data_map(run.traces.loss)
    caption = (
        "Each point is a sample. Easy samples are at the bottom. Hard samples and wrong labels are "
        "at the top. The loss of samples on the right fluctuated or fell late."
    )
    names = run.traced_column("id")
    view, left_out = scatter_view(
        deviation,
        mean,
        run.traced_verdicts(),
        run.traced_rows() if names is None else names,
        ("standard deviation of the loss", "mean loss"),
    )
    return Chart(key, title, caption + left_out + subset(run), (view,))


def _no_weights(run: ReportRun) -> str:
    if run.traces is None:
        return NO_TRACES
    if run.traces.weight is None:
        return "Left out: this method does not weight samples."
    return NEEDS_EPOCHS if len(run.traces.epochs) < 2 else ""


def truth_of(run: ReportRun) -> Any:
    """Return ``truly clean`` or ``truly wrong`` for each traced sample, if the truth is known."""
    is_wrong = run.traced_column("is_wrong")
    if is_wrong is None:
        return None
    return np.where(np.asarray(is_wrong, dtype=bool), "truly wrong", "truly clean")


def _median(values: Any) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None
