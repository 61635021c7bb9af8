"""The figures of a table: all rows over the columns, and their curves over the epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.paper.drawing import (
    Draw,
    epochs_below,
    legend_below,
    legend_beside,
    line_style,
    panels,
)
from benchmarks.paper.results import Group, Results
from discrimloss.auditing.report.colours import colour_of

METRICS = {"accuracy": "test accuracy, %", "mae": "test mean absolute error"}


def table_charts(results: Results) -> dict[str, Draw]:
    """The figures of a table, by the end of their files' names."""
    return {"rows": lambda: _rows(results), "curves": lambda: _curves(results)}


def curve(group: Group, name: str) -> tuple[Any, Any, Any]:
    """Epochs, mean and standard deviation of a metric of the history over the seeds."""
    histories = [c.content["history"] for c in group.cells if name in c.content["history"]]
    if not histories:
        return np.array([]), np.array([]), np.array([])
    values = np.array([history[name] for history in histories], dtype=np.float64)
    return np.array(histories[0]["epoch"]), values.mean(axis=0), values.std(axis=0)


def draw_curves(axis: Any, results: Results, column: str, name: str) -> None:
    """A line for each row: the mean over the seeds, with its spread."""
    for position, row in enumerate(results.rows):
        group = results.group(row.name, column)
        if group is None:
            continue
        epochs, mean, deviation = curve(group, name)
        if not len(epochs):
            continue
        look = line_style(position)
        axis.plot(epochs, mean, linewidth=1.3, label=row.title, **look)
        if len(group.cells) > 1:
            low, high = mean - deviation, mean + deviation
            axis.fill_between(epochs, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _rows(results: Results) -> Any:
    """A panel for each column, a line for each row: ours with its spread, the paper's beside it."""
    columns = results.columns
    rows = [row for row in results.table.rows if any(c.name in row.paper for c in columns)]
    shown = [
        r for r in results.table.rows if r in results.rows or (r in rows and not results.is_small)
    ]
    across = min(len(columns), 4)
    height = 0.9 + 0.24 * len(shown)
    figure, axes = panels(len(columns), across, width=2.6, height=height, room=2.0)
    for number, (axis, column) in enumerate(zip(axes, columns, strict=True)):
        for place, row in enumerate(shown):
            group, paper = results.group(row.name, column.name), row.paper.get(column.name)
            if group is not None and group.last is not None:
                error = group.last.deviation or 0.0
                axis.errorbar(
                    group.last.mean,
                    place,
                    xerr=error,
                    fmt="o",
                    color=colour_of("easy"),
                    markersize=5,
                    capsize=2,
                )
            if paper is not None and not results.is_small:
                axis.plot(paper.mean, place, "D", color="#555555", markersize=4, fillstyle="none")
        _mark_outliers(axis)
        axis.set(title=column.title, xlabel=METRICS[results.table.metric])
        axis.grid(axis="x", alpha=0.3)
        is_first = number % across == 0
        axis.set_yticks(range(len(shown)), [row.title for row in shown] if is_first else [])
        axis.set_ylim(len(shown) - 0.5, -0.5)
    _explain_marks(figure, axes[0], results)
    return figure


def _mark_outliers(axis: Any) -> None:
    """Draw a row that collapsed as an arrow at the edge, so that the others stay distinct."""
    marks = [(float(line.get_xdata()[0]), line) for line in axis.lines if _is_mark(line)]
    low, high = usual_range([value for value, _ in marks])
    far_off = [(value, line) for value, line in marks if not low <= value <= high]
    if not far_off:
        return
    near = [value for value, _ in marks if low <= value <= high]
    room = max(max(near) - min(near), 0.1) * 0.15
    axis.set_xlim(min(near) - room, max(near) + room)
    for value, line in far_off:
        edge, arrow = (0.02, "<") if value < low else (0.98, ">")
        across = axis.get_yaxis_transform()
        place = float(line.get_ydata()[0])
        axis.plot(edge, place, arrow, transform=across, color=line.get_color(), markersize=6)


def _is_mark(line: Any) -> bool:
    return len(line.get_xdata()) == 1 and line.get_marker() in ("o", "D")


def usual_range(values: Sequence[float]) -> tuple[float, float]:
    """A range around the middle half, with room of six times its width on either side.

    >>> [round(bound, 1) for bound in usual_range([98.9, 99.0, 99.1, 99.3, 69.5])]
    [87.0, 111.0]
    """
    if not len(values):
        return -math.inf, math.inf
    lower, middle, upper = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    # Rows that are close together are not each other's outliers: two in a hundred is close.
    room = 6.0 * max(upper - lower, 0.02 * abs(middle))
    return lower - room, upper + room


def _explain_marks(figure: Any, axis: Any, results: Results) -> None:
    axis.plot([], [], "o", color=colour_of("easy"), markersize=5, label="ours, last epoch")
    if not results.is_small:
        axis.plot([], [], "D", color="#555555", markersize=4, fillstyle="none", label="the paper")
    legend_below(figure, [axis], 2)


def _curves(results: Results) -> Any:
    """A panel for each column: the test metric over the epochs."""
    columns = results.columns
    figure, axes = panels(len(columns), 4)
    for axis, column in zip(axes, columns, strict=True):
        draw_curves(axis, results, column.name, f"test_{results.table.metric}")
        axis.set_title(column.title)
        epochs_below(axis)
        if results.table.metric == "accuracy":
            _limit_to_most_values(axis)
    axes[0].set_ylabel(METRICS[results.table.metric])
    if len(axes) == 1:  # a narrow figure: under it, names would be in a column as high as itself
        legend_beside(figure, axes)
    else:
        legend_below(figure, axes, 4)
    return figure


def _limit_to_most_values(axis: Any) -> None:
    """Limit the axis to most values: first epochs and collapsed runs may lie far below."""
    values = np.concatenate([line.get_ydata() for line in axis.lines] or [np.array([0.0, 100.0])])
    low, high = max(np.quantile(values, 0.1), usual_range(values)[0]), values.max()
    room = max(high - low, 0.5) * 0.15
    axis.set_ylim(low - room, high + room)
