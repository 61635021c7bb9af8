"""Figures as PNG files, without anything global and without a display."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from discrimloss.report.colours import RUN_COLOURS
from discrimloss.report.figures import SETTINGS

STYLES = ("-", "--", ":", "-.")
Draw = Callable[[], Any]


def as_png(draw: Draw) -> bytes:
    """What `draw` makes, as a file."""
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        written = io.BytesIO()
        draw().savefig(written, format="png", dpi=160, metadata={"Software": None})
        return written.getvalue()


def panels(
    number: int, across: int, width: float = 3.2, height: float = 2.6, room: float = 0.0
) -> tuple[Any, Any]:
    """A figure of `number` panels, `across` in a line; returns it and a list of its axes.

    `room` is what long names need on the left, in inches like width and height of a panel.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = -(-number // across)
    across = min(across, number)
    figure = Figure(figsize=(width * across + room, height * lines), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(lines, across, squeeze=False).flat)
    for unused in axes[number:]:
        unused.set_axis_off()
    return figure, axes[:number]


def legend_below(figure: Any, axes: Any, most_across: int) -> None:
    """One legend for all panels, under them, as many names in a line as the figure has room for."""
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    for across in range(min(most_across, len(found)), 0, -1):
        legend = figure.legend(
            found.values(), found.keys(), loc="outside lower center", ncols=across
        )
        figure.draw_without_rendering()
        if across == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()


def epochs_below(axis: Any) -> None:
    """Epochs on the horizontal axis: whole numbers."""
    axis.set_xlabel("epoch")
    axis.xaxis.get_major_locator().set_params(integer=True)


def line_style(position: int) -> dict[str, str]:
    """The look of a row, by its place in the table: the same in all figures of it."""
    colours = len(RUN_COLOURS)
    style = STYLES[position // colours % len(STYLES)]
    return {"color": RUN_COLOURS[position % colours], "linestyle": style}
