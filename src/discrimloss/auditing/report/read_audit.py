"""From the directory of an audit to what a report shows of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.directory import COLUMNS, RUNS, VERDICTS, AuditDirectory
from discrimloss.auditing.report.contents import (
    GALLERY_SIZE,
    ReportContents,
    ReportError,
    ReportRun,
    choose_gallery,
)
from discrimloss.auditing.report.read_run import read_run
from discrimloss.auditing.sources.base import AuditSource
from discrimloss.judging.verdicts import import_pandas
from discrimloss.training.run_directory import CONFIG

if TYPE_CHECKING:
    import pandas


def audit_contents(
    directory: AuditDirectory, source: AuditSource | None, note: str = ""
) -> ReportContents:
    """A report on an audit: its verdicts, and the runs they come from.

    Args:
        directory: with verdicts in it. A summary is shown if it is there.
        source: what was audited, to look at samples; None if it cannot be opened.
        note: what a person should know of the gallery.
    """
    samples = report_samples(_read_verdicts(directory))
    runs = [read_run(run) for run in run_directories(directory)]
    summary = directory.summary() if directory.is_finished else {}
    where = Path(directory.settings()["source"]["path"])
    is_regression = _is_number(samples["given"]) if source is None else source.is_regression
    class_names = () if is_regression else _class_names(samples, source, runs)
    if not runs:
        runs = [ReportRun("audit", {}, [], None)]
    view = None if source is None else source.view
    gallery = choose_gallery(samples, view, GALLERY_SIZE, note)
    notes = () if source is None else (*source.notes, *_left_out_note(source))
    reported: list[ReportRun] = []
    for run in runs:
        if run.traces is not None and run.num_samples != len(samples):
            raise ReportError(
                f"{directory.path} has verdicts on {len(samples):,} samples and its run {run.name} "
                f"was trained on {run.num_samples}: audit again"
            )
        reported.append(
            replace(
                run,
                samples=samples,
                num_samples=len(samples),
                class_names=class_names,
                is_regression=is_regression,
                gallery=gallery if not reported else None,
                notes=notes if not reported else (),
                summary={**run.summary, **({} if reported else _figures(summary))},
            )
        )
    return ReportContents(f"Audit of {where.name}", tuple(reported), str(where), is_audit=True)


def run_directories(directory: AuditDirectory) -> list[Path]:
    """The training runs of an audit, in order."""
    folder = directory / RUNS
    found = [run.parent for run in folder.glob(f"*/{CONFIG}")] if folder.is_dir() else []
    return sorted(found, key=lambda run: [int(n) for n in re.findall(r"\d+", run.name)])


def report_samples(verdicts: pandas.DataFrame) -> pandas.DataFrame:
    """An audit's verdicts, worst first, as a report has them: by sample index, with their rank."""
    columns = {"given_label": "given", "suggested_label": "suggested"}
    # Whatever a file's index is called, only its column "index" counts.
    ranked = verdicts.reset_index(drop=True).rename(columns=columns)
    ranked = ranked.assign(rank=np.arange(len(verdicts)))
    ordered: pandas.DataFrame = ranked.sort_values("index", kind="stable").reset_index(drop=True)
    return ordered


def _read_verdicts(directory: AuditDirectory) -> pandas.DataFrame:
    import_pandas()
    try:
        verdicts = directory.verdicts()
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ReportError(f"cannot read {directory / VERDICTS}: {reason}") from error
    missing = [name for name in COLUMNS if name not in verdicts]
    if missing:
        raise ReportError(f"{directory / VERDICTS} has no column {', '.join(missing)}: audit again")
    return verdicts


def _class_names(
    samples: pandas.DataFrame, source: AuditSource | None, runs: list[ReportRun]
) -> tuple[str, ...]:
    known = source.class_names if source is not None else (runs[0].class_names if runs else ())
    present = {str(name) for column in ("given", "suggested") for name in samples[column].dropna()}
    return (*known, *sorted(present - set(known)))


def _is_number(labels: pandas.Series[Any]) -> bool:
    return labels.dtype.kind in "fiu"


def _left_out_note(source: AuditSource) -> tuple[str, ...]:
    if not source.left_out:
        return ()
    return (f"{len(source.left_out):,} rows or files were not judged: see left_out.csv.",)


def _figures(summary: dict[str, Any]) -> dict[str, Any]:
    """Of the audit, before those of its run: what it cost."""
    return {name: summary[name] for name in ("seconds", "command") if name in summary}
