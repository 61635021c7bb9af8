"""Writes charts as PNG, SVG or PDF files, without a browser."""

from __future__ import annotations

from typing import Any

from discrimloss.auditing.report import statistics
from discrimloss.auditing.report.chart import Chart, ChartView, Spec

WIDTH, HEIGHT = 320, 210
SMALL_MULTIPLES = 6
"""Maximum number of small plots. In a figure file they replace the slider of the report."""
SMALL_SIDE = 130

STYLE: Spec = {
    "background": "white",
    "font": "sans-serif",
    "axis": {"titleFontWeight": "normal", "labelLimit": 160, "gridColor": "#e6e8ec"},
    "axisQuantitative": {"tickCount": 6},
    "legend": {"orient": "top", "symbolStrokeWidth": 2, "labelLimit": 400},
    "view": {"stroke": None},
    "title": {"fontWeight": "normal", "fontSize": 12},
    "header": {"titleFontWeight": "normal"},
}


def figure_file(chart: Chart, kind: str) -> bytes:
    """Return the content of a file with all views of a chart.

    Args:
        chart: a chart with at least one view.
        kind: "png", "svg" or "pdf".
    """
    import vl_convert

    spec = figure_spec(chart)
    if kind == "png":
        return vl_convert.vegalite_to_png(spec, ppi=200)
    if kind == "pdf":
        return vl_convert.vegalite_to_pdf(spec)
    return vl_convert.vegalite_to_svg(spec).encode()


def figure_spec(chart: Chart) -> Spec:
    """Return the specification of a figure file: all views, with a slider as small multiples."""
    named = len(chart.views) > 1
    views = [_figure_view(view, view.name if named else "") for view in chart.views]
    whole = views[0]
    if named:
        own = dict.fromkeys(("color", "strokeDash", "shape"), "independent")
        whole = {"concat": views, "columns": 1 if chart.views[0].positions else 2}
        whole |= {"resolve": {"scale": own, "legend": own}}
    longest = max(view.spec["usermeta"]["longest"] for view in chart.views)
    width = SMALL_MULTIPLES * SMALL_SIDE if chart.views[0].positions else WIDTH
    columns = max(1, width // (40 + 6 * longest))
    style = STYLE | {"legend": STYLE["legend"] | {"columns": columns}}
    return whole | {"config": style, "params": [{"name": "position", "value": 0}]}


def _without_hovering(spec: Any) -> Any:
    """Return a specification without tooltips and their invisible points."""
    if isinstance(spec, list):
        return [_without_hovering(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    return {
        name: value if name == "data" else _without_hovering(value)
        for name, value in spec.items()
        if name != "tooltip" and (name, value) != ("point", "transparent")
    }


def _figure_view(view: ChartView, title: str) -> Spec:
    spec: Spec = _without_hovering(view.spec)
    del spec["usermeta"]
    spec.pop("params", None)
    heading = {"title": title} if title else {}
    if not view.positions:
        height = spec["height"] if view.spec["usermeta"]["keeps_height"] else HEIGHT
        return spec | {"width": WIDTH, "height": height} | heading
    chosen = statistics.chosen_epochs(len(view.positions), SMALL_MULTIPLES)
    data = spec.pop("data")
    rows = [
        row | {"series": [row["series"][place]], "at": view.positions[place]}
        for place in chosen
        for row in data["values"]
    ]
    order = [view.positions[place] for place in chosen]
    header = {"title": None, "labelFontSize": 11}
    return {
        "data": {"values": rows},
        "facet": {"column": {"field": "at", "sort": order, "header": header}},
        "spec": spec | {"width": SMALL_SIDE, "height": SMALL_SIDE},
        **heading,
    }
