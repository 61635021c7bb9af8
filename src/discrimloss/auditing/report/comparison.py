"""Compares several runs: a table of methods, and their curves on the same axes."""

from __future__ import annotations

import math
import statistics as spread
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discrimloss.auditing.report.chart import (
    Chart,
    ChartView,
    Group,
    Spec,
    column_rows,
    lines_view,
    short,
)
from discrimloss.auditing.report.colours import RUN_COLOURS, RUN_DASHES
from discrimloss.auditing.report.contents import ReportRun

IGNORED = ("seed", "method", "threads", "workers", "device", "tensorboard", "checkpoint_seconds")
"""Settings that do not distinguish methods: how and where a run was executed."""


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in the seed."""

    label: str
    runs: tuple[ReportRun, ...]


@dataclass(frozen=True)
class ComparisonTable:
    """Headings and rows, as texts. The test metric of the last epoch precedes that of the best."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def group_runs(runs: Sequence[ReportRun]) -> list[RunGroup]:
    """Group runs that differ only in the seed, in the given order."""
    grouped: dict[str, list[ReportRun]] = {}
    for run in runs:
        grouped.setdefault(repr(sorted(_settings_of(run).items())), []).append(run)
    members = list(grouped.values())
    found = [{"method": _method(group[0]), **_settings_of(group[0])} for group in members]
    names = sorted({name for settings in found for name in settings})
    differing = [
        name for name in names if len({repr(settings.get(name)) for settings in found}) > 1
    ]
    groups = []
    for settings, group in zip(found, members, strict=True):
        details = [
            f"{name}={settings[name]}"
            for name in differing
            # Options of different methods always differ.
            if name in settings and name != "method" and not name.startswith("options.")
        ]
        same_method = [other for other in found if other["method"] == settings["method"]]
        details += [
            f"{name}={settings[name]}"
            for name in differing
            if name.startswith("options.")
            and name in settings
            and len({repr(other.get(name)) for other in same_method}) > 1
        ]
        groups.append(RunGroup(", ".join([settings["method"], *details]), tuple(group)))
    return groups


def _settings_of(run: ReportRun) -> dict[str, Any]:
    """Return the settings that distinguish methods. A run without settings is its own group."""
    if not run.settings:
        return {"name": run.name}
    return {"method": _method(run)} | {
        name: value for name, value in run.settings.items() if name not in IGNORED
    }


def _method(run: ReportRun) -> str:
    return str(run.settings.get("method") or run.summary.get("method") or run.name)


def last_and_best(run: ReportRun) -> tuple[float, float] | None:
    """Return the test metric of the last finished epoch, and of the best epoch."""
    curve = [row[f"test_{run.metric}"] for row in run.history if f"test_{run.metric}" in row]
    if not curve:
        return None
    from discrimloss.training.evaluation import is_better  # slow: it imports torch's compiler

    best = curve[0]
    for value in curve:
        best = value if is_better(value, best, run.is_regression) else best
    return curve[-1], best


def comparison_table(groups: Sequence[RunGroup]) -> ComparisonTable:
    """Return a row per method: the mean, and the standard deviation if there are several seeds."""
    headings = (
        "method",
        "runs",
        "test, last epoch",
        "test, best epoch",
        "wrong, estimated",
        "wrong, true",
        "precision",
        "recall",
        "AUROC",
    )
    rows = []
    for group in groups:
        tests = [found for run in group.runs if (found := last_and_best(run)) is not None]
        unit = "" if group.runs[0].is_regression else " %"
        unfinished = sum(not run.is_finished for run in group.runs)
        count = f"{len(group.runs)}" + (f" ({unfinished} unfinished)" if unfinished else "")
        rows.append(
            (
                group.label,
                count,
                mean_and_spread([last for last, _ in tests], unit),
                mean_and_spread([best for _, best in tests], unit),
                *(_figure(group, name, 100.0, " %") for name in FRACTIONS),
                _figure(group, "auroc", 1.0, "", 3),
            )
        )
    kept = [
        place
        for place in range(len(headings))
        if place < 2 or any(row[place] != "–" for row in rows)
    ]
    return ComparisonTable(
        tuple(headings[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in rows),
    )


FRACTIONS = ("noise_estimated", "noise_true", "precision", "recall")


def _figure(group: RunGroup, name: str, scale: float, unit: str, digits: int = 1) -> str:
    values = [run.summary.get(name) for run in group.runs]
    return mean_and_spread([scale * value for value in values if value is not None], unit, digits)


def mean_and_spread(values: Sequence[float], unit: str, digits: int = 2) -> str:
    """Return ``95.32 ± 0.41 %``: the mean, and the standard deviation of several values."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return "–"
    mean = f"{spread.fmean(known):.{digits}f}"
    if len(known) == 1:
        return f"{mean}{unit}"
    return f"{mean} ± {spread.stdev(known):.{digits}f}{unit}"


def comparison_curves(groups: Sequence[RunGroup]) -> Chart:
    """Return the curves of all runs, with one colour for each method."""
    metrics = list(dict.fromkeys(run.metric for group in groups for run in group.runs))
    words = {"accuracy": "accuracy, %", "mae": "mean absolute error", "loss": "loss"}
    wanted = [(split, metric) for metric in metrics for split in ("test", "validation", "train")]
    views = [
        view
        for split, name in [*wanted, ("train", "loss")]
        if (view := _view(groups, f"{split}_{name}", split, words[name])) is not None
    ]
    title = "Curves side by side"
    if not views:
        return Chart("comparison", title, left_out="Left out: no run has a finished epoch.")
    caption = (
        "Each line is a run, each colour a method. Lines of one colour differ only in the seed, "
        "so the difference between them is chance."
    )
    return Chart("comparison", title, caption, tuple(views), wide=True)


def _view(groups: Sequence[RunGroup], column: str, split: str, words: str) -> ChartView | None:
    rows: list[Spec] = []
    styles: list[Group] = []
    for place, group in enumerate(groups):
        colour = RUN_COLOURS[place % len(RUN_COLOURS)]
        dash = RUN_DASHES[place // len(RUN_COLOURS) % len(RUN_DASHES)]
        style = Group(short(group.label, 48), colour, dash)
        curves = [column_rows(run.history, column, style.label) for run in group.runs]
        drawn = [row | {"line": line} for line, curve in enumerate(curves) for row in curve]
        if drawn:
            rows += drawn
            styles.append(style)
    if not rows:
        return None
    return lines_view(f"{split.capitalize()}: {words}", rows, styles, words)
