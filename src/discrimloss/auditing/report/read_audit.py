"""Makes the contents of a report from the verdicts and the training runs of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.evidence.why import Evidence
from discrimloss.auditing.health.data_health import DataHealth
from discrimloss.auditing.report.contents import ReportContents, ReportRun
from discrimloss.auditing.report.gallery import GALLERY_SIZE, choose_gallery
from discrimloss.auditing.report.map_of_data import make_map
from discrimloss.auditing.report.sample_table import make_table
from discrimloss.auditing.sources.base import AuditSource
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.verdicts import Verdicts

if TYPE_CHECKING:
    import pandas


def audit_contents(
    verdicts: Verdicts,
    summary: dict[str, Any],
    runs: Sequence[ReportRun],
    source: AuditSource | None,
    *,
    path: str,
    note: str = "",
    health: DataHealth | None = None,
    evidence: Evidence | None = None,
    directory: Path | None = None,
    cache: Path | None = None,
    review_address: str = "",
) -> ReportContents:
    """Return the contents of a report on an audit: its verdicts and its training runs.

    Args:
        verdicts: verdicts of the audit.
        summary: summary of the audit.
        runs: training runs, in order. May be empty.
        source: the audited source, to show samples; None if it cannot be opened.
        path: path of the source. Empty for data in memory.
        note: a note on the gallery.
        health: problems of the data besides its labels.
        evidence: why samples are suspicious.
        directory: directory of the audit, or None.
        cache: the directory with cached results of the audit, or None.
        review_address: address of the review page of this audit. Empty if there is none.
    """
    samples = report_samples(verdicts)
    is_regression = samples["given"].dtype.kind in "fiu" if source is None else source.is_regression
    class_names = () if is_regression else _class_names(samples, source, runs)
    view = None if source is None else source.view
    gallery = choose_gallery(samples, view, GALLERY_SIZE, note, evidence)
    is_text = source is not None and source.kind == "text"
    table = make_table(samples, view, is_text=is_text)
    data_map = None if source is None else make_map(samples, source, cache)
    reported: list[ReportRun] = []
    for run in runs or [ReportRun("audit", {}, [], None)]:
        if run.traces is not None and run.num_samples != len(samples):
            raise DiscrimLossError(
                f"the audit has verdicts on {len(samples):,} samples and its run {run.name} was "
                f"trained on {run.num_samples}: audit again"
            )
        reported.append(
            replace(
                run,
                samples=samples,
                num_samples=len(samples),
                class_names=class_names,
                is_regression=is_regression,
                gallery=gallery if not reported else None,
                table=table if not reported else None,
                map=data_map if not reported else None,
                notes=verdicts.notes if not reported else (),
                health=health if not reported else None,
                summary={**run.summary, **({} if reported else _of_audit(summary))},
            )
        )
    name = f"Audit of {Path(path).name}" if path else "Audit of data in memory"
    return ReportContents(
        name,
        tuple(reported),
        path,
        is_audit=True,
        directory="" if directory is None else str(directory),
        review_address=review_address,
    )


def report_samples(verdicts: Verdicts) -> pandas.DataFrame:
    """Return verdicts for a report, in the order of the sample index, with their rank."""
    frame = verdicts.to_pandas()
    rank = np.empty(len(verdicts), dtype=np.int64)
    rank[verdicts.order] = np.arange(len(verdicts))
    columns = {"given_label": "given", "suggested_label": "suggested"}
    samples: pandas.DataFrame = frame.rename(columns=columns).assign(
        verdict=frame["verdict"].astype(str), rank=rank
    )
    return samples


def _class_names(
    samples: pandas.DataFrame, source: AuditSource | None, runs: Sequence[ReportRun]
) -> tuple[str, ...]:
    known = source.class_names if source is not None else (runs[0].class_names if runs else ())
    present = {str(name) for column in ("given", "suggested") for name in samples[column].dropna()}
    return (*known, *sorted(present - set(known)))


def _of_audit(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of the audit's summary that replace those of its first run."""
    names = (
        *("seconds", "command", "noise_estimated", "noise_given", "noise_interval", "verdicts"),
        *("learned_from", "warnings", "versions"),
    )
    found = {name: summary[name] for name in names if name in summary}
    return found | ({"predicted_by": summary["model"]} if summary.get("model") else {})
