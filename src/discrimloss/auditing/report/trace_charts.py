"""Charts of what became of single samples from epoch to epoch."""

from __future__ import annotations

from typing import Any

import numpy as np

from discrimloss.auditing.report import statistics
from discrimloss.auditing.report.chart import (
    NEEDS_EPOCHS,
    NO_TRACES,
    Chart,
    ChartView,
    Figure,
    axes,
    epoch_axes,
    plain,
    points_by_verdict,
    rounded,
    subset,
)
from discrimloss.auditing.report.colours import DASHES, colour_of, fill_of, order_of
from discrimloss.auditing.report.contents import ALL_SAMPLES, ReportRun, number_text

MOST_EPOCHS = 60
"""Steps of a slider."""
TRACED_SAMPLES = 4
"""Single samples of each verdict whose weights are drawn."""


def loss_distribution(run: ReportRun) -> Chart:
    """The paper's histogram of the losses, by verdict and, where it is known, by truth."""
    key, title = "losses", "Losses, epoch by epoch"
    if run.traces is None:
        return Chart(key, title, left_out=NO_TRACES)
    edges = statistics.loss_bin_edges(run.traces.loss)
    steps = statistics.chosen_epochs(len(run.traces.epochs), MOST_EPOCHS)
    verdicts = run.traced_verdicts()
    views = [_loss_view(run, "By verdict", verdicts, edges, steps)]
    truth = truth_of(run)
    if truth is not None:
        views.append(_loss_view(run, "By truth", truth, edges, steps))
    elif verdicts[0] == ALL_SAMPLES:
        views = [_loss_view(run, "All samples", verdicts, edges, steps)]
    skipped = ""
    if len(steps) < len(run.traces.epochs):
        skipped = f" {len(steps)} of {len(run.traces.epochs)} epochs are shown."
    caption = (
        "Each shape shows how the losses of one group spread, small ones (learned) on the left; "
        "move the slider to see the groups part. Losses are on a log scale and shares on a "
        "square-root scale, so that small groups stay visible; the outermost bins hold all beyond."
        f"{skipped}"
        f"{subset(run)}"
    )
    return Chart(key, title, caption, tuple(views), wide=True)


def _loss_view(run: ReportRun, name: str, groups: Any, edges: Any, steps: list[int]) -> ChartView:
    assert run.traces is not None
    centres = (edges[:-1] + edges[1:]) / 2
    present = order_of(groups)
    masks = [groups == group for group in present]
    frames: list[Figure] = []
    for step in steps:
        counts = [statistics.loss_histogram(run.traces.loss[step][mask], edges) for mask in masks]
        shares = [100.0 * count / max(count.sum(), 1) for count in counts]
        frames.append(
            {
                "label": f"Epoch {run.traces.epochs[step]}",
                "update": {
                    "y": [rounded(np.sqrt(share)) for share in shares],
                    "customdata": [count.tolist() for count in counts],
                },
            }
        )
    last = frames[-1]["update"]
    highest = max(max(y, default=0.0) for frame in frames for y in frame["update"]["y"])
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{group} ({int(mask.sum()):,})",
            "x": rounded(centres),
            "y": last["y"][number],
            "customdata": last["customdata"][number],
            "text": [number_text(10**centre, 2) for centre in centres],
            "hovertemplate": "loss about %{text}: %{customdata:,} samples",
            "line": {"color": colour_of(group), "shape": "hvh", "width": 2, "dash": DASHES[group]},
            "fill": "tozeroy",
            "fillcolor": fill_of(group),
        }
        for number, (group, mask) in enumerate(zip(present, masks, strict=True))
    ]
    ticks: list[Any] = list(range(int(np.ceil(edges[0])), int(np.floor(edges[-1])) + 1))
    if len(ticks) < 2:  # less than a decade
        ticks = rounded(np.linspace(edges[0], edges[-1], 5))
    shares_shown = [share for share in (1, 5, 10, 25, 50, 75, 100) if share <= 1.3 * highest**2]
    layout = {
        "showlegend": True,
        "xaxis": {
            "title": {"text": "loss"},
            "tickvals": ticks,
            "ticktext": [number_text(10.0**tick) for tick in ticks],
            "range": [float(edges[0]), float(edges[-1])],
        },
        "yaxis": {
            "title": {"text": "share of the group"},
            "tickvals": rounded(np.sqrt(shares_shown)),
            "ticktext": [f"{share} %" for share in shares_shown],
            "range": [0, 1.08 * max(highest, 1.0)],
        },
    }
    return ChartView(name, data, layout, frames)


def weight_traces(run: ReportRun) -> Chart:
    """The weights of some samples of each verdict, and the median of all."""
    key, title = "weights", "Weights of single samples"
    reason = _no_weights(run, 2)
    if reason:
        return Chart(key, title, left_out=reason)
    assert run.traces is not None
    assert run.traces.weight is not None
    weight, epochs = run.traces.weight, run.traces.epochs
    shown = statistics.chosen_epochs(len(epochs), 4 * MOST_EPOCHS)
    verdicts = run.traced_verdicts()
    last = np.nan_to_num(weight[-1].astype(np.float64))
    names, rows = run.traced_column("id"), run.traced_rows()
    data: list[Figure] = []
    for group in order_of(verdicts):
        members = np.flatnonzero(verdicts == group)
        style = {"color": colour_of(group), "dash": DASHES[group]}
        for sample in statistics.spread_out(members, last, TRACED_SAMPLES):
            label = plain(rows[sample] if names is None else names[sample], 40)
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{group}: {label}",
                    "legendgroup": group,
                    "showlegend": False,
                    "opacity": 0.55,
                    "x": epochs[shown].tolist(),
                    "y": rounded(weight[shown, sample]),
                    "line": style | {"width": 1.2},
                }
            )
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{group}, median",
                "legendgroup": group,
                "x": epochs[shown].tolist(),
                "y": [_median(weight[step, members]) for step in shown],
                "line": style | {"width": 3.5},
            }
        )
    caption = (
        "A thin line is the weight of one sample, a thick one the median of its group; a high "
        "weight means that the sample is distrusted. Thin lines are up to "
        f"{TRACED_SAMPLES} samples of each verdict, from its lowest to its highest weight at the "
        f"end.{subset(run)}"
    )
    return Chart(key, title, caption, (ChartView("", data, epoch_axes(len(epochs), "weight")),))


def weight_fluctuation(run: ReportRun) -> Chart:
    """The paper's figure of fluctuation: how often weights jump, as boxes."""
    key, title = "fluctuation", "Restless weights"
    reason = _no_weights(run, 2)
    if reason:
        return Chart(key, title, left_out=reason)
    assert run.traces is not None
    assert run.traces.weight is not None
    threshold = statistics.fluctuation_threshold(run.traces.weight)
    if threshold <= 0.0:
        return Chart(key, title, left_out="Left out: the weights are all alike.")
    jumps = statistics.fluctuations(run.traces.weight, threshold)
    views = [_box_view("By verdict", jumps, run.traced_verdicts())]
    truth = truth_of(run)
    if truth is not None:
        views.append(_box_view("By truth", jumps, truth))
    caption = (
        "In how many epochs a sample's weight changed by more than T_fluc since the epoch before: "
        "half of a group is within its box, and a high box is a group the method kept changing its "
        f"mind about. T_fluc is {threshold:.3g} here, a tenth of the spread of all weights."
        f"{subset(run)}"
    )
    return Chart(key, title, caption, tuple(views))


def _box_view(name: str, jumps: Any, groups: Any) -> ChartView:
    data = []
    for group in order_of(groups):
        box = statistics.box_of(jumps[groups == group])
        data.append(
            {
                "type": "box",
                "name": group,
                "x": [group],
                "q1": [box.first_quartile],
                "median": [box.median],
                "q3": [box.third_quartile],
                "lowerfence": [box.low],
                "upperfence": [box.high],
                "marker": {"color": colour_of(group)},
                "fillcolor": fill_of(group),
                "showlegend": False,
            }
        )
    layout = axes("", "epochs with a jump")
    layout["xaxis"] |= {"type": "category"}
    layout["yaxis"] |= {"rangemode": "tozero"}
    return ChartView(name, data, layout)


def loss_map(run: ReportRun) -> Chart:
    """The data map: mean of the loss against its variability."""
    key, title = "map", "Data map"
    if run.traces is None:
        return Chart(key, title, left_out=NO_TRACES)
    if len(run.traces.epochs) < 2:
        return Chart(key, title, left_out=NEEDS_EPOCHS)
    mean, deviation = statistics.data_map(run.traces.loss)
    groups = run.traced_verdicts()
    caption = (
        "Each point is a sample: high up are those that stayed hard, at the right those whose loss "
        "went up and down or fell late; easy samples are at the bottom, wrong labels at the top."
    )
    names = run.traced_column("id")
    names = run.traced_rows() if names is None else names
    data, left_out = points_by_verdict(deviation, mean, groups, names)
    layout = axes("standard deviation of the loss", "mean loss")
    return Chart(key, title, caption + left_out + subset(run), (ChartView("", data, layout),))


def _no_weights(run: ReportRun, epochs: int) -> str:
    if run.traces is None:
        return NO_TRACES
    if run.traces.weight is None:
        return "Left out: this method does not weigh samples."
    return NEEDS_EPOCHS if len(run.traces.epochs) < epochs else ""


def truth_of(run: ReportRun) -> Any:
    """``truly clean`` or ``truly wrong`` of each traced sample, where it is known."""
    is_wrong = run.traced_column("is_wrong")
    if is_wrong is None:
        return None
    return np.where(np.asarray(is_wrong, dtype=bool), "truly wrong", "truly clean")


def _median(values: Any) -> float | None:
    known = values[~np.isnan(values)]
    return rounded([np.median(known)])[0] if len(known) else None
