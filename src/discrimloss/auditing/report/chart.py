"""A chart: Vega-Lite specifications and a caption, for the page and for figure files.

A specification is a plain dictionary. The page passes it to Vega's JavaScript, and `figures.py`
passes it to the same JavaScript in `vl_convert`. The size of a specification does not grow with the
number of samples.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discrimloss.auditing.report import statistics
from discrimloss.auditing.report.colours import colour_of, dash_of, mark_of, order_of
from discrimloss.auditing.report.contents import ReportRun

Spec = dict[str, Any]

MOST_POINTS = 800
"""Maximum number of points of each verdict in a scatter plot."""
LABEL_LENGTH = 40
HEIGHT = 270
"""Height of a plot without axes and legend, in pixels."""

NO_TRACES = (
    "Left out: the run has no traces of its samples (there are more than `traced_samples`, "
    "or no epoch is finished)."
)
NO_VERDICTS = "Left out: there are no verdicts until the run ends."
NEEDS_EPOCHS = "Left out: this chart needs at least two epochs."


@dataclass(frozen=True)
class ChartView:
    """One view of a chart.

    Args:
        name: name of the button that shows it.
        spec: the specification in Vega-Lite.
        positions: labels of a slider, such as "Epoch 3". Each row then has a list ``series`` with a
            value for each position. The parameter ``position`` selects the value.
    """

    name: str
    spec: Spec
    positions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A chart with its title and caption. If it cannot be drawn, it has no views but a reason.

    `part` is ``"data"`` or ``"training"``: what the chart explains.
    """

    key: str
    title: str
    caption: str = ""
    views: tuple[ChartView, ...] = ()
    left_out: str = ""
    wide: bool = False
    part: str = "training"


@dataclass(frozen=True)
class Group:
    """A group of marks: its label in the legend, its colour, its dashes, its shape."""

    label: str
    colour: str
    dash: Sequence[int]
    shape: str = "circle"


def group_of(name: str, label: str = "") -> Group:
    """Return a group. Its name determines its style."""
    return Group(label or name, colour_of(name), dash_of(name), mark_of(name))


def counted_groups(groups: Any) -> dict[str, Group]:
    """Return the groups of samples, with the number of samples in the legend."""
    return {
        name: group_of(name, f"{name} ({int((groups == name).sum()):,})")
        for name in order_of(groups)
    }


def grouped(groups: Sequence[Group], *channels: str) -> Spec:
    """Encode the column ``group`` as colour, and as ``strokeDash`` or ``shape``."""
    legend: Spec = {"title": None, "values": [group.label for group in groups]}
    if "strokeDash" in channels:
        legend |= {"symbolType": "stroke", "symbolSize": 400, "symbolOpacity": 1}
    ranges: dict[str, list[Any]] = {
        "color": [group.colour for group in groups],
        "strokeDash": [list(group.dash) for group in groups],
        "shape": [group.shape for group in groups],
    }
    return {
        channel: {
            "field": "group",
            "type": "nominal",
            "scale": {"domain": legend["values"], "range": ranges[channel]},
            "legend": legend,
        }
        for channel in ("color", *channels)
    }


def number(field: str, title: str, **options: Any) -> Spec:
    """Encode a column of numbers."""
    return {"field": field, "type": "quantitative", "title": title, **options}


def epoch_axis() -> Spec:
    """Encode the column ``epoch`` from left to right, with ticks at whole numbers."""
    axis = {"tickMinStep": 1, "format": "d"}
    return number("epoch", "epoch", axis=axis, scale={"zero": False, "nice": False})


def tooltip(*columns: tuple[str, str, str]) -> list[Spec]:
    """Encode a tooltip. Each argument is a column, its title, and its number format or ``""``."""
    return [
        {"field": field, "title": title}
        | ({"type": "quantitative", "format": form} if form else {"type": "nominal"})
        for field, title, form in columns
    ]


def view_of(
    name: str,
    rows: list[Spec],
    spec: Spec,
    groups: Iterable[Group] = (),
    height: int | None = None,
    positions: tuple[str, ...] = (),
) -> ChartView:
    """Return a view of rows, with the width of its container.

    Args:
        name: name of the view.
        rows: the data.
        spec: marks and encodings, or layers of them.
        groups: groups of the legend, which has as many columns as fit.
        height: height in pixels; None for the default.
        positions: positions of a slider, which starts at the last one.
    """
    longest = max((len(group.label) for group in groups), default=0)
    frame: Spec = {
        "data": {"values": rows},
        "width": "container",
        "height": height or HEIGHT,
        "usermeta": {"longest": longest, "keeps_height": height is not None},
    }
    if positions:
        frame["params"] = [{"name": "position", "value": len(positions) - 1}]
    return ChartView(name, frame | spec, positions)


def lines_view(name: str, rows: list[Spec], groups: Sequence[Group], y: str) -> ChartView:
    """Return curves over the epochs; rows have ``epoch``, ``value``, ``group`` and ``line``."""
    longest = max(row["epoch"] for row in rows) - min(row["epoch"] for row in rows)
    spec = {
        "mark": {"type": "line", "strokeWidth": 2.2, "point": "transparent"}
        if longest
        else {"type": "point", "filled": True, "size": 60},
        "encoding": {
            "x": epoch_axis(),
            "y": number("value", y, scale={"zero": False}),
            "detail": {"field": "line", "type": "nominal"},
            **grouped(groups, *(["strokeDash"] if longest else [])),
            "tooltip": tooltip(("group", "", ""), ("epoch", "epoch", "d"), ("value", y, ".4~g")),
        },
    }
    return view_of(name, rows, spec, groups)


def column_rows(history: list[dict[str, Any]], column: str, label: str) -> list[Spec]:
    """Return the rows of a curve: a column of the history, without missing values."""
    return [
        {"epoch": row["epoch"], "value": value, "group": label}
        for row, value in zip(history, rounded(r.get(column) for r in history), strict=True)
        if value is not None
    ]


def bars_view(
    rows: list[Spec], names: Sequence[str], x: str, marks: bool = False, lines: bool = False
) -> ChartView:
    """Return horizontal bars, the first on top.

    Args:
        rows: rows with ``value`` and ``count``. If `marks`, they also have ``true``. If `lines`,
            they also have ``low`` and ``high``.
        names: names of the bars, which need not be unique.
        x: title of the axis.
        marks: whether a diamond shows a true value.
        lines: whether a line shows an interval.
    """
    placed = [
        {"place": place, "name": name} | row
        for place, (row, name) in enumerate(zip(rows, names, strict=True))
    ]
    y = {
        "field": "place",
        "type": "ordinal",
        "title": None,
        "axis": {"labelExpr": f"{json.dumps(list(names))}[datum.value]", "grid": False}
        | {"labelLimit": 200},
    }
    ends = (("low", "at least", ".3~g"), ("high", "at most", ".3~g")) if lines else ()
    hover = tooltip(("name", "", ""), ("value", x, ".4~g"), *ends, ("count", "samples", ","))
    incorrect, wrong = colour_of("incorrect"), colour_of("truly wrong")
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "color": incorrect, "fillOpacity": 0.55, "stroke": incorrect},
            "encoding": {"x": number("value", x), "y": y, "tooltip": hover},
        }
    ]
    if lines:
        span = {"x": number("low", x), "x2": {"field": "high"}, "y": y, "tooltip": hover}
        layers.append(
            {"mark": {"type": "rule", "color": incorrect, "strokeWidth": 2}, "encoding": span}
        )
    if marks:
        layers.append(
            {
                "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 80}
                | {"color": wrong, "opacity": 1},
                "encoding": {
                    "x": number("true", x),
                    "y": y,
                    "tooltip": tooltip(("name", "", ""), ("true", "true", ".4~g")),
                },
            }
        )
    return view_of("", placed, {"layer": layers}, height=max(120, 24 * len(names)))


def scatter_view(
    x: Any, y: Any, groups: Any, names: Any, titles: tuple[str, str], diagonal: bool = False
) -> tuple[ChartView, str]:
    """Return points, at most `MOST_POINTS` of each group, and a sentence if some are left out.

    Args:
        x: shape (samples,).
        y: shape (samples,).
        groups: verdict of each sample.
        names: names of the samples.
        titles: titles of the axes.
        diagonal: whether to draw a line at equal values.
    """
    generator = np.random.default_rng(0)
    known = np.isfinite(x) & np.isfinite(y)
    shown = counted_groups(groups[known])
    rows: list[Spec] = []
    for group, style in shown.items():
        members = np.flatnonzero((groups == group) & known)
        chosen = statistics.sampled(members, MOST_POINTS, generator)
        rows += [
            {"x": point[0], "y": point[1], "group": style.label, "name": short(names[row])}
            for row, *point in zip(chosen, rounded(x[chosen]), rounded(y[chosen]), strict=True)
        ]
    hover = tooltip(("name", "", ""), ("x", titles[0], ".3~g"), ("y", titles[1], ".3~g"))
    styles = list(shown.values())
    points: Spec = {
        "mark": {"type": "point", "filled": True, "size": 30, "opacity": 1, "fillOpacity": 0.6},
        "encoding": {
            "x": number("x", titles[0], scale={"zero": False}),
            "y": number("y", titles[1], scale={"zero": False}),
            **grouped(styles, "shape"),
            "tooltip": hover,
        },
    }
    spec = points
    if diagonal and rows:
        ends = [min(min(r["x"], r["y"]) for r in rows), max(max(r["x"], r["y"]) for r in rows)]
        equal = {
            "data": {"values": [{"x": end, "y": end} for end in ends]},
            "mark": {"type": "line", "strokeDash": [6, 4], "strokeWidth": 1}
            | {"color": colour_of("unseen")},
            "encoding": {"x": number("x", titles[0]), "y": number("y", titles[1])},
        }
        spec = {"layer": [equal, points]}
    total = int(known.sum())
    view = view_of("", rows, spec, styles)
    if len(rows) == total:
        return view, ""
    return (
        view,
        f" {len(rows):,} of {total:,} samples are drawn, at most {MOST_POINTS} of each verdict.",
    )


def short(text: Any, length: int = LABEL_LENGTH) -> str:
    """Return the beginning of a text from data, on one line."""
    words = " ".join(str(text).split())
    return words if len(words) <= length else f"{words[: length - 1]}…"


def short_names(names: Sequence[Any], length: int) -> list[str]:
    """Return the beginnings of names. For names that begin alike, return beginning and end."""
    words = [" ".join(str(name).split()) for name in names]
    cut = [short(text, length) for text in words]
    number = Counter(name for name, _ in set(zip(cut, words, strict=True)))
    begin = (length - 1) // 2
    return [
        f"{text[:begin]}…{text[begin + 1 - length :]}" if number[name] > 1 else name
        for name, text in zip(cut, words, strict=True)
    ]


def rounded(values: Iterable[Any]) -> list[float | None]:
    """Round to four significant digits, enough for a screen. None stays None."""
    return [
        None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
        for value in values
    ]


def subset(run: ReportRun) -> str:
    """Return a sentence if there are traces of only some samples."""
    if run.traced is None:
        return ""
    return f" Drawn from {len(run.traced):,} of {run.num_samples:,} samples, chosen at random."
