"""Legends have room beside the panels, however many names they have."""

from typing import Any

import matplotlib
import pytest

from benchmarks.paper.drawing import SETTINGS, legend_below, legend_beside, panels


def drawn(panels_wanted: int, names: int) -> tuple[Any, Any]:
    figure, axes = panels(panels_wanted, 4)
    for axis in axes:
        for number in range(names):
            axis.plot([0, 1], [0, number], label=f"a row with the number {number}")
    return figure, axes


def laid_out(figure: Any, axes: Any) -> tuple[float, Any, Any]:
    """Height of the first panel in inches, and where all panels and the legend are."""
    figure.draw_without_rendering()  # a panel without room is a warning, which is an error here
    boxes = [axis.get_tightbbox() for axis in axes]
    (legend,) = figure.legends
    inside = legend.get_window_extent()
    assert figure.bbox.x0 <= inside.x0 < inside.x1 <= figure.bbox.x1 + 1
    assert figure.bbox.y0 <= inside.y0 < inside.y1 <= figure.bbox.y1 + 1
    return axes[0].get_window_extent().height / figure.dpi, boxes, inside


@pytest.mark.parametrize("names", [1, 5, 13, 60])
@pytest.mark.parametrize("number", [1, 3, 6])
def test_a_legend_below_takes_nothing_from_the_panels(number: int, names: int) -> None:
    with matplotlib.rc_context(SETTINGS):
        figure, axes = drawn(number, names)
        legend_below(figure, axes, 4)
        height, boxes, legend = laid_out(figure, axes)
    assert height > 1.8
    assert all(box.y0 >= legend.y1 for box in boxes)


@pytest.mark.parametrize("names", [1, 13, 60])
def test_a_legend_beside_takes_nothing_from_the_panel(names: int) -> None:
    with matplotlib.rc_context(SETTINGS):
        figure, axes = drawn(1, names)
        legend_beside(figure, axes)
        height, (box,), legend = laid_out(figure, axes)
    assert height > 1.8
    assert axes[0].get_window_extent().width / figure.dpi > 2.2
    assert box.x1 <= legend.x0
