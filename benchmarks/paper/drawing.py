"""Figures as PNG files, without a display and without the global state of pyplot."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from discrimloss.auditing.report.colours import RUN_COLOURS

SETTINGS = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "legend.frameon": False,
    "legend.fontsize": 8,
}
STYLES = ("-", "--", ":", "-.")
LEGEND_MARGIN = 0.1
"""Inches."""
Draw = Callable[[], Any]


def as_png(draw: Draw) -> bytes:
    """The figure that `draw` returns, as the bytes of a file."""
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
    """One legend for all panels, under them, as many names in a line as the figure has room for.

    The figure grows by its height: however many names there are, the panels keep their size.
    """
    found = _names(axes)
    for across in range(min(most_across, len(found)), 0, -1):
        legend = figure.legend(
            found.values(), found.keys(), loc="outside lower center", ncols=across
        )
        width, height = _inches(figure, legend)
        if across == 1 or width <= figure.get_figwidth():
            figure.set_figheight(figure.get_figheight() + height)
            break
        legend.remove()


def legend_beside(figure: Any, axes: Any) -> None:
    """One legend to the right, a name in a line; the figure grows until it has room for it."""
    found = _names(axes)
    if not found:
        return
    legend = figure.legend(found.values(), found.keys(), loc="outside right upper")
    width, height = _inches(figure, legend)
    figure.set_figwidth(figure.get_figwidth() + width)
    figure.set_figheight(max(figure.get_figheight(), height + 2 * LEGEND_MARGIN))


def _names(axes: Any) -> dict[str, Any]:
    """The names of the panels' lines, each with one of these lines."""
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return found


def _inches(figure: Any, legend: Any) -> tuple[float, float]:
    """Width and height, before the layout: there may be no room for it yet."""
    extent = legend.get_window_extent()
    return extent.width / figure.dpi, extent.height / figure.dpi


def epochs_below(axis: Any) -> None:
    """Epochs on the horizontal axis: whole numbers."""
    axis.set_xlabel("epoch")
    axis.xaxis.get_major_locator().set_params(integer=True)


def line_style(position: int) -> dict[str, str]:
    """Colour and line style of a row, by its position in the table: the same in all figures."""
    colours = len(RUN_COLOURS)
    style = STYLES[position // colours % len(STYLES)]
    return {"color": RUN_COLOURS[position % colours], "linestyle": style}
