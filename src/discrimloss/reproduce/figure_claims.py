"""What the paper says of its figures, against ours, in sentences made from the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any

from discrimloss.reproduce.claims import AHEAD, BEHIND, compare, format_figure
from discrimloss.reproduce.results import Group, Results, spread_of

NEAR_CLEAN_SHARE = 2.0
"""Points: so near to the share of right labels counts as having learned no wrong one by heart."""


def generalization_claims(results: Results) -> Iterator[str]:
    """The fit of the main row stays near the clean share; its test accuracy does not fall."""
    for column in results.columns:
        groups = [group for group in results.groups if group.column == column]
        for group in groups:
            fits, noise = group.values("train_accuracy_noisy"), group.values("noise_true")
            if not fits or not noise or group.last is None or group.best is None:
                continue
            excess = mean(fits) - 100.0 * (1.0 - mean(noise))
            holds = abs(excess) <= NEAR_CLEAN_SHARE
            verdict = "**Holds:** " if holds else "**Does not hold:** "
            told = f"ends at {mean(fits):.2f} % on the training labels as given, "
            told += f"{excess:+.2f} points from the share of right ones; its test accuracy ends "
            told += f"{group.best.mean - group.last.mean:.2f} points below its best epoch."
            is_main = group.row.name == results.table.main
            claim = f"the fit stays within {NEAR_CLEAN_SHARE:.0f} points of the clean share. "
            yield f"{verdict + claim if is_main else ''}{column.title}: {group.row.title} {told}"


def histogram_claims(results: Results) -> Iterator[str]:
    """The main row divides clean from wrong samples better than each other row, at the end."""
    ends = {g.row.name: (g, o) for g in results.groups if (o := _last_overlap(g)) is not None}
    main = ends.get(results.table.main)
    for group, shared in ends.values():
        yield f"{group.row.title}: {_path(group)}; {100 * shared:.1f} % overlap at the end."
        if main is None or group is main[0]:
            continue
        verdict = "**Holds:**" if main[1] < shared else "**Does not hold:**"
        yield (
            f"{verdict} {main[0].row.title} divides clean from wrong samples better than "
            f"{group.row.title} ({100 * main[1]:.1f} % overlap against {100 * shared:.1f} %)."
        )


def fluctuation_claims(results: Results) -> Iterator[str]:
    """Wrong samples fluctuate more than clean ones; the main row fluctuates less than others."""
    jumps = {group.row.name: (group, _mean_jumps(group)) for group in results.groups}
    main = jumps.get(results.table.main)
    for group, found in jumps.values():
        if found is None:
            continue
        clean, wrong = found
        is_main = group.row.name == results.table.main
        verdict = "**Holds:**" if wrong > clean else "**Does not hold:**"
        claim = "" if is_main else f"{verdict} wrong samples fluctuate more than clean ones. "
        told = f"{wrong:.2f} jumps of a wrong sample, {clean:.2f} of a clean one"
        yield f"{claim}{group.row.title}: {told}."
        if is_main or main is None or main[1] is None:
            continue
        ours = mean(main[1])
        verdict = "**Holds:**" if ours < mean(found) else "**Does not hold:**"
        yield (
            f"{verdict} the importance is steadier with {main[0].row.title} than with "
            f"{group.row.title} ({ours:.2f} against {mean(found):.2f} jumps, mean of both kinds)."
        )


def ablation_claims(results: Results) -> Iterator[str]:
    """What each change costs against the main row."""
    table = results.table
    for column in results.columns:
        main = results.group(table.main, column.name)
        if main is None or main.last is None:
            continue
        figure = format_figure(main.last.mean, main.last.deviation)
        yield f"**{column.title}**: {main.row.title} ends at {figure}."
        for group in results.groups:
            if group.column != column or group.row == main.row or group.last is None:
                continue
            word, gain, _ = compare(main.last, group.last, table.lower_is_better)
            told = {AHEAD: f"costs {gain:.2f}", BEHIND: f"gains {-gain:.2f}"}
            one = " (one seed)" if main.last.count == 1 else ""
            what = told.get(word, f"makes no difference beyond the spread ({-gain:+.2f})")
            yield f"{column.title}, {group.row.title}: {what}{one}."


def _samples(group: Group, key: str) -> list[Any]:
    found = [(cell.content.get("samples") or {}).get(key) for cell in group.cells]
    return [entry for entry in found if entry]


def _last_overlap(group: Group) -> float | None:
    ends = [drawn[-1]["overlap"] for drawn in _samples(group, "histograms")]
    shared = spread_of([end for end in ends if end is not None])
    return None if shared is None else shared.mean


def _path(group: Group) -> str:
    drawn = _samples(group, "histograms")[0]
    steps = [
        "{clean:.3f} and {wrong:.3f}".format(**step["medians"]) + f" in epoch {step['epoch']}"
        for step in drawn
        if None not in step["medians"].values()
    ]
    return f"median of the normalised losses of clean and wrong samples {', '.join(steps)}"


def _mean_jumps(group: Group) -> tuple[float, float] | None:
    found = [f for f in _samples(group, "fluctuation") if {"clean", "wrong"} <= set(f)]
    if not found:
        return None
    clean, wrong = (mean(each[name]["mean"] for each in found) for name in ("clean", "wrong"))
    return clean, wrong
