"""`discrimloss report`: a page or figures about runs and audits."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discrimloss.cli.data_directory import (
    ENVIRONMENT,
    DataOption,
    check_is_directory,
    is_built_in,
)
from discrimloss.cli.failures import writing
from discrimloss.errors import DiscrimLossError, needs_extra

if TYPE_CHECKING:
    from discrimloss.auditing.report.chart import Chart
    from discrimloss.auditing.report.contents import ReportContents, ReportRun

PAGE = "report.html"
FIGURES_FOLDER = "figures"


class Format(str, Enum):
    """The formats of a report: a page, or figures."""

    html = "html"
    png = "png"
    svg = "svg"
    pdf = "pdf"


@needs_extra("report", "a report")
def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Directories of runs, or of one audit.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The file of the page, or the directory of the figures. [default: RUN/report.html "
            "or RUN/figures; with several runs, in the current directory]",
        ),
    ] = None,
    kind: Annotated[
        Format, typer.Option("--format", help="A page (html), or the paper's figures as files.")
    ] = Format.html,
    data: DataOption = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier report.")
    ] = False,
) -> None:
    """Write a report about runs or an audit.

    A report is one HTML file that needs no network. --data adds the samples themselves. --format
    png, svg or pdf writes figures as files instead. For an unfinished run, the report shows the
    epochs so far.
    """
    check_is_directory(data)
    if kind is Format.html:
        _write_page(runs, out, data, overwrite)
    else:
        _write_figures(runs, out, kind.value, overwrite)


def _write_page(runs: list[Path], out: Path | None, data: Path | None, overwrite: bool) -> None:
    from discrimloss.auditing.report.page import write_report

    path = out or (runs[0] / PAGE if len(runs) == 1 else Path(PAGE))
    if path.is_dir():
        path = path / PAGE
    _check_runs(runs)
    _check_free([path], overwrite)
    contents = _contents(runs, data)
    with writing(str(path), "choose another path with --out"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_report(contents, path)
    typer.echo(f"Report: {path}")


def _write_figures(runs: list[Path], out: Path | None, kind: str, overwrite: bool) -> None:
    from discrimloss.auditing.report.charts import run_charts
    from discrimloss.auditing.report.comparison import comparison_curves, group_runs
    from discrimloss.auditing.report.figures import figure_file
    from discrimloss.files.atomic_write import atomic_write

    folder = out or (runs[0] / FIGURES_FOLDER if len(runs) == 1 else Path(FIGURES_FOLDER))
    if folder.exists() and not folder.is_dir():
        raise DiscrimLossError(f"--out {folder} is not a directory: choose one for the figures")
    _check_runs(runs)
    reported = _contents(runs, None, gallery=False).runs
    charts: dict[Path, Chart] = {}
    for number, run in enumerate(reported, 1):
        place = folder if len(reported) == 1 else folder / f"{number}-{run.name}"
        charts |= {place / f"{chart.key}.{kind}": chart for chart in run_charts(run)}
    if len(runs) > 1:
        compared = comparison_curves(group_runs(reported))
        charts[folder / f"{compared.key}.{kind}"] = compared
    drawn = {path: chart for path, chart in charts.items() if chart.views}
    if not drawn:
        raise DiscrimLossError("there is nothing to draw: no epoch is finished")
    _check_free(list(drawn), overwrite)
    with writing(str(folder), "choose another path with --out"):
        for path, chart in drawn.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as unfinished:
                unfinished.write_bytes(figure_file(chart, kind))
    typer.echo(f"{len(drawn)} figures: {folder}")


def _check_runs(runs: list[Path]) -> None:
    from discrimloss.auditing.directory import AuditDirectory
    from discrimloss.training.run_directory import RunDirectory

    for path in runs:
        if not path.is_dir():
            raise DiscrimLossError(
                f"there is no directory {path}: pass the --out directory of a run"
            )
        if AuditDirectory(path).holds_audit:
            AuditDirectory(path).require_finished()
            if len(runs) > 1:
                raise DiscrimLossError(
                    f"{path} is an audit, which has its own report: pass it alone, or only runs"
                )
        elif not RunDirectory(path).holds_run:
            raise DiscrimLossError(
                f"{path} holds no run: pass the --out directory of `discrimloss train` or "
                "`discrimloss audit`"
            )


def _check_free(paths: list[Path], overwrite: bool) -> None:
    for path in paths:
        if path.exists() and not overwrite:
            raise DiscrimLossError(
                f"{path} exists already: pass --overwrite to replace it, or choose another path "
                "with --out"
            )


def _contents(runs: list[Path], data: Path | None, gallery: bool = True) -> ReportContents:
    from discrimloss.auditing.directory import AuditDirectory
    from discrimloss.auditing.report.contents import ReportContents
    from discrimloss.auditing.report.gallery import GALLERY_SIZE
    from discrimloss.auditing.result import AuditResult

    if AuditDirectory(runs[0]).holds_audit:
        with needs_extra("audit", "the report of an audit"):
            return AuditResult.load(runs[0]).report_contents(gallery)
    size = GALLERY_SIZE if len(runs) == 1 else GALLERY_SIZE // 3
    reported = tuple(_read(path, data, size if gallery else 0) for path in runs)
    if len(reported) > 1:
        return ReportContents(f"{len(reported)} runs", reported)
    run = reported[0]
    names = [str(run.settings.get(key)) for key in ("data.name", "method") if key in run.settings]
    command = str(run.summary.get("command") or "")
    return ReportContents(" · ".join(names) or run.name, reported, command)


@needs_extra("train", "reading the data of a run")
def _read(path: Path, data: Path | None, gallery_size: int) -> ReportRun:
    from discrimloss.auditing.report.read_run import read_run, with_gallery
    from discrimloss.auditing.report.sample_views import training_views
    from discrimloss.training.run_directory import RunDirectory

    run = read_run(path)
    if run.samples is None or not gallery_size:
        return run
    if data is None and not is_built_in(str(run.settings.get("data.name"))):
        note = "Samples are shown by their index: pass --data DIR to see them."
        return with_gallery(run, None, gallery_size, note)
    settings = RunDirectory(path).config()
    try:
        views = training_views(settings, data or Path(), len(run.samples))
    except DiscrimLossError as error:
        # If the user did not pass --data, a report without samples is better than an error.
        if data is None or str(data) == os.environ.get(ENVIRONMENT):
            return with_gallery(
                run, None, gallery_size, f"Samples are shown by their index: {error}."
            )
        raise
    return with_gallery(run, views, gallery_size)
