"""Writes `report.html`, a single file that needs no network."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from discrimloss._version import __version__
from discrimloss.auditing.health.data_health import HEALTHY
from discrimloss.auditing.report.answer import Answer, find_answer, noise_of
from discrimloss.auditing.report.chart import Chart
from discrimloss.auditing.report.charts import run_charts
from discrimloss.auditing.report.comparison import (
    ComparisonTable,
    comparison_curves,
    comparison_table,
    group_runs,
    last_and_best,
)
from discrimloss.auditing.report.contents import ReportContents, ReportRun
from discrimloss.auditing.report.gallery import (
    GalleryEntry,
    Thumbnail,
    format_number,
    one_line,
    shortened,
    thumbnail,
)
from discrimloss.auditing.report.wording import (
    UNIT,
    columns_text,
    counted,
    duration,
    percent,
    percent_range,
    probability_percent,
)
from discrimloss.files.atomic_write import atomic_write

ID_LENGTH = 120
LABEL_LENGTH = 60
IDS_SHOWN = 50
"""Number of samples shown for each problem of the data."""


@dataclass(frozen=True)
class Headline:
    """A number at the top of the page, with its name and a detail below it."""

    word: str
    number: str
    detail: str = ""
    verdict: str = ""
    """The verdict that determines its colour, if any."""


@dataclass(frozen=True)
class Section:
    """The section of the page about one run."""

    anchor: str
    run: ReportRun
    answer: Answer | None
    headlines: list[Headline]
    charts: list[Chart]
    worst: list[tuple[GalleryEntry, Thumbnail]]
    hardest: list[tuple[GalleryEntry, Thumbnail]]
    facts: list[tuple[str, str]]


def write_report(contents: ReportContents, path: Path) -> None:
    """Write the page atomically."""
    page = render(contents)
    with atomic_write(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")


def render(contents: ReportContents) -> str:
    """Return the page as text."""
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
    environment.filters["probability_percent"] = probability_percent
    environment.filters["number"] = format_number
    environment.filters["shortened"] = shortened
    environment.filters["one_line"] = one_line
    environment.filters["basis"] = basis
    sections = [_section(f"run{number}", run, contents) for number, run in enumerate(contents.runs)]
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
    main = None if is_comparison else sections[0]
    return environment.get_template("report.html").render(
        contents=contents,
        main=main,
        folded=sections if is_comparison else sections[1:],
        compared=compared,
        table=table,
        version=__version__,
        id_length=ID_LENGTH,
        label_length=LABEL_LENGTH,
        ids_shown=IDS_SHOWN,
        healthy=HEALTHY,
        figures=Markup(safe_json(figures)),
        samples_json=Markup(_columns_json(main, "table", contents)),
        map_json=Markup(_columns_json(main, "map", contents)),
        vega=Markup(vega_script()),
    )


def _columns_json(main: Section | None, name: str, contents: ReportContents) -> str:
    """Return the columns of the table or the map, with the address of the review page."""
    found = None if main is None else getattr(main.run, name)
    if main is None or found is None:
        return ""
    about = {"is_regression": main.run.is_regression, "review": contents.review_address}
    return safe_json(found.columns | about)


def safe_json(value: Any) -> str:
    """Return JSON that is safe inside a script element, whatever texts it contains."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    text = text.encode("utf-8", "replace").decode("utf-8")  # replaces lone surrogates
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def vega_script() -> str:
    """Return Vega and Vega-Lite as one script of about 0.9 MB.

    Bundling takes more than a second, so the script is kept in the user's cache.
    """
    import vl_convert

    kept = user_cache() / f"vega-{metadata.version('vl-convert-python')}.js"
    try:
        return kept.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with suppress(OSError):  # without a cache, the next report takes longer
        kept.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(kept) as unfinished:
            unfinished.write_text(script, encoding="utf-8")
    return script


def user_cache() -> Path:
    """Return the cache directory, which ``XDG_CACHE_HOME`` can change."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "discrimloss"


def _figure(chart: Chart) -> list[dict[str, Any]]:
    return [{"spec": view.spec, "positions": view.positions} for view in chart.views]


def _section(anchor: str, run: ReportRun, contents: ReportContents) -> Section:
    gallery = run.gallery
    worst = gallery.worst if gallery is not None else ()
    hardest = gallery.hardest if gallery is not None else ()
    return Section(
        anchor,
        run,
        find_answer(run, contents),
        headlines(run),
        run_charts(run),
        [(entry, thumbnail(entry.view)) for entry in worst],
        [(entry, thumbnail(entry.view)) for entry in hardest],
        _facts(run),
    )


def _facts(run: ReportRun) -> list[tuple[str, str]]:
    """Return how the run was made, so that it can be repeated."""
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


def basis(run: ReportRun) -> list[tuple[str, str]]:
    """Return what an audit compared the labels with, as on the terminal."""
    found = {
        "Learned from": columns_text(run.summary.get("learned_from", ())),
        "Predicted by": run.summary.get("predicted_by"),
    }
    return [(name, str(value)) for name, value in found.items() if value]


def headlines(run: ReportRun) -> list[Headline]:
    """Return the most important numbers of a run."""
    found = []
    if run.num_samples is not None:
        classes = counted(len(run.class_names), "class", "classes") if run.class_names else ""
        found.append(Headline("samples", f"{run.num_samples:,}", classes))
    if run.samples is not None:
        found += _verdict_headlines(run)
    found += _test_headline(run)
    found += _detection_headlines(run.summary)
    ended = int(run.history[-1]["epoch"]) if run.history else 0
    wanted = run.settings.get("epochs") or run.summary.get("epochs") or ended
    seconds = run.summary.get("seconds") or (run.history[-1].get("seconds") if ended else None)
    detail = "" if seconds is None else f"in {duration(float(seconds))}"
    if run.is_finished and not (ended or wanted):  # an audit without a network
        found += [] if seconds is None else [Headline("time", duration(float(seconds)))]
    elif run.is_finished:
        found.append(Headline("epochs", f"{ended or wanted:,}", detail))
    else:
        found.append(Headline("epochs so far", f"{ended:,} of {wanted:,}", detail))
    return found


def _verdict_headlines(run: ReportRun) -> list[Headline]:
    assert run.samples is not None
    verdict = run.samples["verdict"].to_numpy().astype(str)
    found = []
    if (verdict != "unseen").any():
        found.append(_noise_headline(run))
    for name in ("incorrect", "undecided", "hard", "easy", "unseen"):
        number = int((verdict == name).sum())
        if number or name not in ("undecided", "unseen"):
            fraction = percent(number / max(len(verdict), 1))
            what = f"{fraction}, wrong or hard" if name == "undecided" else fraction
            found.append(Headline(name, f"{number:,}", what, name))
    return found


def _noise_headline(run: ReportRun) -> Headline:
    assert run.samples is not None
    rate, interval = noise_of(run)
    detail = ""
    if "is_wrong" in run.samples:
        detail = f"truly {percent(float(run.samples['is_wrong'].mean()))}"
    elif interval:
        detail = percent_range(interval)
    value = "not known" if rate is None else percent(rate)
    return Headline("wrong labels, estimated", value, detail)


def _test_headline(run: ReportRun) -> list[Headline]:
    test = last_and_best(run)
    if test is None:
        return []
    last, best = test
    if run.is_regression:
        return [Headline("test error, last epoch", f"{last:.3g}", f"best {best:.3g}")]
    return [Headline("test accuracy, last epoch", f"{last:.1f}{UNIT}", f"best {best:.1f}{UNIT}")]


def _detection_headlines(summary: dict[str, Any]) -> list[Headline]:
    if summary.get("precision") is None or summary.get("recall") is None:
        return []
    auroc = f"AUROC {summary['auroc']:.3f}" if summary.get("auroc") is not None else ""
    numbers = f"{percent(summary['precision'])} / {percent(summary['recall'])}"
    return [Headline("precision / recall", numbers, auroc)]
