"""A chart: plain plotly figures, and a sentence on how to read them.

Figures are dictionaries, as plotly's JavaScript takes them: building them needs no library, and
nothing in them grows with the number of samples. Texts that come from data go through `plain`,
because plotly understands some HTML in labels.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discrimloss.auditing.report import statistics
from discrimloss.auditing.report.colours import MARKERS, colour_of, fill_of, order_of
from discrimloss.auditing.report.contents import ReportRun

Figure = dict[str, Any]

MOST_POINTS = 800
"""Points of each verdict in a scatter plot."""
LABEL_LENGTH = 22

NO_TRACES = (
    "Left out: the run kept no traces of its samples (there are more than `traced_samples` allows, "
    "or no epoch has ended)."
)
NO_VERDICTS = "Left out: there are no verdicts yet; they come when the run ends."
NEEDS_EPOCHS = "Left out: it takes at least two epochs."


@dataclass(frozen=True)
class ChartView:
    """One way to look at a chart: a figure, and how it changes along a slider."""

    name: str
    data: list[Figure]
    layout: Figure
    steps: list[Figure] = field(default_factory=list)
    """Each has a ``label`` and an ``update``: what `Plotly.restyle` is given."""


@dataclass(frozen=True)
class Chart:
    """A chart with its words. One that cannot be drawn has no views, and says why."""

    key: str
    title: str
    caption: str = ""
    views: tuple[ChartView, ...] = ()
    left_out: str = ""
    wide: bool = False


def plain(text: Any, length: int = LABEL_LENGTH) -> str:
    """A text for a label of plotly, which would take tags in it for HTML."""
    words = " ".join(str(text).split())
    short = words if len(words) <= length else f"{words[: length - 1]}…"
    return html.escape(short, quote=False)


def rounded(values: Iterable[Any]) -> list[float | None]:
    """Four significant digits, which is more than a screen can show; None where there is none."""
    return [
        None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
        for value in values
    ]


def axes(x: str, y: str) -> Figure:
    """A layout with two named axes."""
    return {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}


def epoch_axes(number: int, y: str) -> Figure:
    """A layout with epochs from left to right: whole numbers, also where there are few."""
    layout = axes("epoch", y)
    if number <= 10:
        layout["xaxis"] |= {"dtick": 1}
    return layout


def line(history: list[Figure], name: str, words: str, colour: str, dash: str) -> Figure:
    """A column of the history over the epochs."""
    return {
        "type": "scatter",
        "mode": "lines" if len(history) > 1 else "markers",
        "name": words,
        "x": [row["epoch"] for row in history],
        "y": rounded([row.get(name) for row in history]),
        "line": {"color": colour, "width": 2.2, "dash": dash},
        "marker": {"color": colour},
    }


def bars(values: list[Any], hover: str) -> Figure:
    """Bars that lie, the first one on top."""
    return {
        "type": "bar",
        "orientation": "h",
        "x": values,
        "y": list(range(len(values))),
        "hovertemplate": hover,
        "marker": {
            "color": fill_of("incorrect", 0.55),
            "line": {"color": colour_of("incorrect"), "width": 1},
        },
    }


def bar_view(data: list[Figure], names: Sequence[str], x: str) -> ChartView:
    """Lying bars with their names; names may occur twice."""
    layout = axes(x, "")
    positions = list(range(len(names)))
    layout["yaxis"] |= {"tickvals": positions, "ticktext": list(names), "autorange": "reversed"}
    layout["yaxis"] |= {"showgrid": False, "zeroline": False}
    layout["xaxis"] |= {"rangemode": "tozero"}
    layout["height"] = max(220, 90 + 24 * len(names))
    return ChartView("", data, layout)


def points_by_verdict(x: Any, y: Any, groups: Any, names: Any) -> tuple[list[Figure], str]:
    """Points, no more than `MOST_POINTS` of each group, and a sentence if some are left out."""
    generator = np.random.default_rng(0)
    known = np.isfinite(x) & np.isfinite(y)
    data: list[Figure] = []
    total = drawn = 0
    for group in order_of(groups):
        members = np.flatnonzero((groups == group) & known)
        chosen = statistics.sampled(members, MOST_POINTS, generator)
        total, drawn = total + len(members), drawn + len(chosen)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{group} ({len(members):,})",
                "x": rounded(x[chosen]),
                "y": rounded(y[chosen]),
                "text": [plain(names[row], 40) for row in chosen],
                "hovertemplate": "%{text}: %{x:.3g}, %{y:.3g}<extra></extra>",
                "marker": {
                    "color": colour_of(group),
                    "symbol": MARKERS[group],
                    "size": 6,
                    "opacity": 0.6,
                },
            }
        )
    if drawn == total:
        return data, ""
    return (
        data,
        f" {drawn:,} of {total:,} samples are drawn, at most {MOST_POINTS} of each verdict.",
    )


def subset(run: ReportRun) -> str:
    """A sentence where traces are of some samples only."""
    if run.traced is None:
        return ""
    return f" Drawn from {len(run.traced):,} of {run.num_samples:,} samples, chosen at random."
