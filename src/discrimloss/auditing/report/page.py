"""`report.html`: one file that opens without a network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from discrimloss._version import __version__
from discrimloss.auditing.report.chart import Chart
from discrimloss.auditing.report.charts import run_charts
from discrimloss.auditing.report.comparison import (
    ComparisonTable,
    comparison_curves,
    comparison_table,
    group_runs,
)
from discrimloss.auditing.report.contents import (
    GalleryEntry,
    ReportContents,
    ReportRun,
    number_text,
)
from discrimloss.auditing.report.headline import Headline, duration, headlines, percent
from discrimloss.auditing.report.thumbnails import Thumbnail, shortened, thumbnail
from discrimloss.files.atomic_write import atomic_write

ID_LENGTH = 120
LABEL_LENGTH = 60


@dataclass(frozen=True)
class Section:
    """What the page says of one run."""

    anchor: str
    run: ReportRun
    headlines: list[Headline]
    charts: list[Chart]
    worst: list[tuple[GalleryEntry, Thumbnail]]
    hardest: list[tuple[GalleryEntry, Thumbnail]]
    facts: list[tuple[str, str]]


def write_report(contents: ReportContents, path: Path) -> None:
    """Write the page, all of it or nothing."""
    page = render(contents)
    with atomic_write(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")


def render(contents: ReportContents) -> str:
    """The page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("discrimloss.auditing.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    environment.filters["number"] = number_text
    environment.filters["shortened"] = shortened
    sections = [_section(f"run{number}", run) for number, run in enumerate(contents.runs)]
    is_comparison = len(sections) > 1 and not contents.is_audit
    compared: Chart | None = None
    table: ComparisonTable | None = None
    if is_comparison:
        groups = group_runs(contents.runs)
        compared, table = comparison_curves(groups), comparison_table(groups)
    figures = {
        f"{section.anchor}-{chart.key}": _figure(chart)
        for section in sections
        for chart in section.charts
        if chart.views
    }
    if compared is not None and compared.views:
        figures["all-comparison"] = _figure(compared)
    return environment.get_template("report.html").render(
        contents=contents,
        main=None if is_comparison else sections[0],
        folded=sections if is_comparison else sections[1:],
        compared=compared,
        table=table,
        version=__version__,
        id_length=ID_LENGTH,
        label_length=LABEL_LENGTH,
        figures=Markup(safe_json(figures)),
        vega=Markup(vega_script()),
    )


def safe_json(value: Any) -> str:
    """JSON that may stand inside a script element, whatever texts are in it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def vega_script() -> str:
    """Vega and Vega-Lite as one script that needs no network, about 0.9 MB."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _figure(chart: Chart) -> list[dict[str, Any]]:
    return [{"spec": view.spec, "positions": view.positions} for view in chart.views]


def _section(anchor: str, run: ReportRun) -> Section:
    gallery = run.gallery
    worst = gallery.worst if gallery is not None else ()
    hardest = gallery.hardest if gallery is not None else ()
    return Section(
        anchor,
        run,
        headlines(run),
        run_charts(run),
        [(entry, thumbnail(entry.view)) for entry in worst],
        [(entry, thumbnail(entry.view)) for entry in hardest],
        _facts(run),
    )


def _facts(run: ReportRun) -> list[tuple[str, str]]:
    """How the run was made, for who wants to make it again."""
    summary, settings = run.summary, run.settings
    versions = summary.get("versions") or {}
    facts = {
        "method": settings.get("method") or summary.get("method"),
        "recipe": settings.get("recipe") or summary.get("recipe"),
        "data": settings.get("data.name"),
        "model": settings.get("model.name"),
        "seed": settings.get("seed", summary.get("seed")),
        "device": summary.get("device"),
        "time": None if summary.get("seconds") is None else duration(float(summary["seconds"])),
        "command": summary.get("command"),
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
    }
    return [(name, str(value)) for name, value in facts.items() if value not in (None, "")]
