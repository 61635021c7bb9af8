"""What an audit leaves behind: verdicts, what to keep, what was left out, a report, a summary."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.directory import (
    CLEANED,
    COLUMNS,
    LEFT_OUT,
    REPORT,
    SUMMARY,
    VERDICTS,
    VERDICTS_CSV,
    AuditDirectory,
)
from discrimloss.auditing.predictions import Judgement
from discrimloss.auditing.sources.base import AuditSource
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import INCORRECT, LABELS, import_pandas

if TYPE_CHECKING:
    import pandas

WORST_SHOWN = 5


def write_outputs(
    source: AuditSource, judged: Judgement, directory: AuditDirectory, figures: dict[str, Any]
) -> dict[str, Any]:
    """Write everything, the summary last: it vouches for the others. Returns the summary."""
    from discrimloss.auditing.report.page import write_report
    from discrimloss.auditing.report.read_audit import audit_contents

    frame = verdict_frame(source, judged)
    with atomic_write(directory / VERDICTS) as unfinished:
        frame.to_parquet(unfinished, index=False)
    with atomic_write(directory / VERDICTS_CSV) as unfinished:
        frame.to_csv(unfinished, index=False, float_format="%.6g")
    directory.write(CLEANED, cleaned_csv(source, judged))
    directory.write(
        LEFT_OUT, _as_csv(("id", "reason"), ((o.id, o.reason) for o in source.left_out))
    )
    summary = {**summarize(source, judged, frame), **figures}
    write_report(audit_contents(directory, source), directory / REPORT)
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
    directory.write(SUMMARY, text + "\n")
    return summary


def verdict_frame(source: AuditSource, judged: Judgement) -> pandas.DataFrame:
    """One row per sample, worst first, with `COLUMNS`."""
    pd = import_pandas()
    columns = {
        "id": np.array(source.ids, dtype=object),
        "given_label": _labels(source, source.target.numpy()),
        "suggested_label": _labels(source, judged.suggested),
        "verdict": np.array(LABELS, dtype=object)[judged.code],
        "p_incorrect": judged.p_incorrect,
        "label_score": 1.0 - judged.p_incorrect,
        "average_loss": judged.average_loss,
        "weight": judged.weight,
        "index": np.arange(len(source)),
    }
    order = np.lexsort((columns["index"], -judged.score))
    frame = pd.DataFrame({name: columns[name] for name in COLUMNS})
    worst_first: pandas.DataFrame = frame.iloc[order].reset_index(drop=True)
    return worst_first


def cleaned_csv(source: AuditSource, judged: Judgement) -> str:
    """Which samples to keep, in the order of the source: all but those called incorrect."""
    labels = _labels(source, source.target.numpy())
    keep = np.flatnonzero(judged.code != INCORRECT)
    return _as_csv(("id", "label"), ((source.ids[i], labels[i]) for i in keep))


def summarize(source: AuditSource, judged: Judgement, frame: pandas.DataFrame) -> dict[str, Any]:
    """The figures of an audit."""
    verdicts = {label: int((frame["verdict"] == label).sum()) for label in LABELS[: INCORRECT + 1]}
    return {
        "source": source.options.path,
        "kind": source.kind,
        "samples": len(source),
        "classes": list(source.class_names),
        "noise_estimated": float(judged.p_incorrect.mean(dtype=np.float64)),
        "verdicts": verdicts,
        "worst": [_row(row) for row in frame.head(WORST_SHOWN).to_dict("records")],
        "left_out": len(source.left_out),
        "left_out_why": _counted(source),
        "notes": list(source.notes),
    }


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}


def _counted(source: AuditSource) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for entry in source.left_out:
        reasons[entry.reason] = reasons.get(entry.reason, 0) + 1
    return reasons


def _labels(source: AuditSource, labels: Any) -> Any:
    if source.is_regression:
        return labels.astype(np.float64)
    return np.array(source.class_names, dtype=object)[labels]


def _as_csv(heading: tuple[str, ...], rows: Any) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return text.getvalue()
