"""The summary of an audit, and the files that it writes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.directory import (
    CLEANED,
    EVIDENCE,
    HEALTH,
    LEFT_OUT,
    VERDICTS,
    VERDICTS_CSV,
    AuditDirectory,
)
from discrimloss.auditing.evidence.why import Evidence
from discrimloss.auditing.health.data_health import DataHealth
from discrimloss.auditing.sources.base import AuditSource
from discrimloss.judging.class_rates import class_rates
from discrimloss.judging.verdicts import INCORRECT, LABELS, UNSEEN, Verdicts, import_pandas

WORST_SHOWN = 5
CLASSES_LISTED = 100


def summarize(source: AuditSource, verdicts: Verdicts) -> dict[str, Any]:
    """Return the summary of an audit: the content of ``summary.json``."""
    interval = verdicts.noise_interval
    counts = verdicts.counts
    return {
        "source": source.options.path,
        "kind": source.kind,
        "samples": len(source),
        "classes": list(source.class_names),
        "noise_estimated": verdicts.noise_rate,
        "noise_interval": None if interval is None else list(interval),
        "verdicts": {label: counts[label] for label in LABELS[:UNSEEN]},
        "worst": worst_rows(verdicts, WORST_SHOWN),
        "class_noise": _class_noise(source, verdicts),
        "left_out": len(source.left_out),
        "left_out_why": source.left_out_why,
        "learned_from": [asdict(column) for column in source.contents.learned_from],
        "warnings": list(source.warnings),
        "notes": list(verdicts.notes),
    }


def _class_noise(source: AuditSource, verdicts: Verdicts) -> list[dict[str, Any]]:
    """Return the estimated noise of the noisiest classes. Empty if the noise is unknown."""
    if source.is_regression or verdicts.noise_rate is None:
        return []
    assert verdicts.given_label is not None
    found = class_rates(
        verdicts.given_label,
        verdicts.p_incorrect,
        verdicts.noise_rate,
        verdicts.noise_interval,
    )
    return [
        {
            "class": one.name,
            "samples": one.count,
            "noise_estimated": one.rate,
            "noise_interval": None if one.interval is None else list(one.interval),
        }
        for one in found[:CLASSES_LISTED]
    ]


def left_out_notes(number_by_reason: Mapping[str, int], unit: str) -> tuple[str, ...]:
    """Return a note on how many rows were left out and why, or no note if there are none.

    Args:
        number_by_reason: number of left-out rows for each reason.
        unit: the noun for one row, in the singular.
    """
    if not number_by_reason:
        return ()
    number = sum(number_by_reason.values())
    reasons = list(number_by_reason)
    if len(reasons) > 1:
        reasons = [f"{reason} ({count:,})" for reason, count in number_by_reason.items()]
    return (f"{number:,} {unit}{'' if number == 1 else 's'} left out: {', '.join(reasons)}",)


def worst_rows(verdicts: Verdicts, number: int) -> list[dict[str, Any]]:
    """Return the most suspicious samples as values for JSON."""
    assert verdicts.ids is not None
    return [
        {
            "id": verdicts.ids[index],
            "given_label": plain_label(verdicts.given_label, index),
            "suggested_label": plain_label(verdicts.suggested_label, index),
            "verdict": LABELS[verdicts.code[index]],
            "p_incorrect": float(verdicts.p_incorrect[index]),
            "index": index,
        }
        for index in verdicts.most_suspicious(number).tolist()
    ]


def plain_label(labels: Any, index: int) -> Any:
    """Return a label as a Python value: a name, a float, or None if it is missing."""
    label = None if labels is None else labels[index]
    if isinstance(label, np.generic):
        label = label.item()
    return None if label != label else label


def write_outputs(
    directory: AuditDirectory,
    source: AuditSource,
    verdicts: Verdicts,
    health: DataHealth | None,
    evidence: Evidence,
) -> None:
    """Write the verdicts with evidence, the health of the data, and the rows kept and left out."""
    why = as_texts(evidence.sentences(len(verdicts)))
    verdicts.to_parquet(directory / VERDICTS, why=why)
    verdicts.to_csv(directory / VERDICTS_CSV, why=why)
    evidence.to_parquet(directory / EVIDENCE)
    directory.write(HEALTH, (health or DataHealth()).to_csv())
    is_kept = verdicts.code != INCORRECT
    if not source.is_regression:
        is_kept |= of_emptied_classes(verdicts.given_label, ~is_kept)
    kept = np.flatnonzero(is_kept).tolist()
    rows = ((source.ids[index], plain_label(verdicts.given_label, index)) for index in kept)
    directory.write(CLEANED, _as_csv(("id", "label"), rows))
    left_out = ((entry.id, entry.reason) for entry in source.left_out)
    directory.write(LEFT_OUT, _as_csv(("id", "reason"), left_out))


def as_texts(texts: Sequence[str | None]) -> Any:
    """Return a pandas array of texts. None becomes a missing value."""
    return import_pandas().array(texts, dtype="string")


def of_emptied_classes(
    given_label: Any, is_lost: npt.NDArray[np.bool_], arriving: Sequence[str] = ()
) -> npt.NDArray[np.bool_]:
    """Return which samples belong to a class that would lose all its samples: shape (samples,).

    If all labels of a class seem wrong, the models have probably failed to learn the class.

    Args:
        given_label: the class of each sample.
        is_lost: shape (samples,): which samples would be dropped or get another label.
        arriving: the new labels of those samples.
    """
    names = given_label.astype(str)
    remaining = [*np.unique(names[~is_lost]).tolist(), *arriving]
    return ~np.isin(names, remaining)


def _as_csv(heading: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return text.getvalue()
