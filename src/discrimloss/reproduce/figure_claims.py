"""What the paper says of its figures, against ours, in sentences made from the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any, NamedTuple

from discrimloss.reproduce.claims import verdict
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
            told = f"ends at {mean(fits):.2f} % on the training labels as given, "
            told += f"{excess:+.2f} points from the share of right ones; its test accuracy ends "
            told += f"{group.best.mean - group.last.mean:.2f} points below its best epoch."
            claim = f"the fit stays within {NEAR_CLEAN_SHARE:.0f} points of the clean share. "
            is_main = group.row.name == results.table.main
            start = f"{verdict([holds])} {claim}" if is_main else ""
            yield f"{start}{column.title}: {group.row.title} {told}"


def histogram_claims(results: Results) -> Iterator[str]:
    """The main row divides clean from wrong samples better than each other row, at the end."""
    ends = {g.row.name: (g, o) for g in results.groups if (o := _last_overlap(g)) is not None}
    main = ends.get(results.table.main)
    for group, shared in ends.values():
        yield f"{group.row.title}: {_path(group)}; {100 * shared:.1f} % overlap at the end."
        if main is None or group is main[0]:
            continue
        overlaps = f"{100 * main[1]:.1f} % overlap against {100 * shared:.1f} %"
        yield (
            f"{verdict([main[1] < shared])} {main[0].row.title} divides clean from wrong samples "
            f"better than {group.row.title} ({overlaps})."
        )


def fluctuation_claims(results: Results) -> Iterator[str]:
    """Wrong samples fluctuate more than clean ones; with the main row less than with others."""
    main = results.table.main
    found = {g.row.name: (g.row.title, kinds) for g in results.groups if (kinds := _jumps(g))}
    for name, (title, (clean, wrong)) in found.items():
        claim = f"{verdict([wrong.jumps > clean.jumps])} wrong samples jump more than clean ones. "
        yield (
            f"{'' if name == main else claim}{title}: {wrong.jumps:.2f} jumps of a wrong sample, "
            f"{wrong.turns:.2f} of them back; {clean.jumps:.2f} of a clean one, "
            f"{clean.turns:.2f} of them back."
        )
    for name, (title, kinds) in found.items():
        if name != main and main in found:
            yield from _less_fluctuation(*found[main], title, kinds)


def _less_fluctuation(
    ours: str, our_kinds: tuple[Jumps, Jumps], other: str, other_kinds: tuple[Jumps, Jumps]
) -> Iterator[str]:
    """By what the paper counts, then by what we count: of clean samples and of wrong ones."""
    pairs = list(zip(("clean", "wrong"), our_kinds, other_kinds, strict=True))
    for kind, our, their in pairs:
        yield (
            f"{verdict([our.jumps < their.jumps])} by the number of jumps, as the paper counts, "
            f"{kind} samples fluctuate less with {ours} than with {other} "
            f"({our.jumps:.2f} against {their.jumps:.2f})."
        )
    for kind, our, their in pairs:
        yield (
            f"{verdict([our.turns < their.turns])} by jumps back, a measure of our own, "
            f"{kind} samples fluctuate less with {ours} than with {other} "
            f"({our.turns:.2f} against {their.turns:.2f})."
        )


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


class Jumps(NamedTuple):
    """Means over the samples of a kind."""

    jumps: float
    turns: float


def _jumps(group: Group) -> tuple[Jumps, Jumps] | None:
    """Of clean and of wrong samples."""
    found = [f for f in _samples(group, "fluctuation") if {"clean", "wrong"} <= set(f)]
    if not found:
        return None
    clean, wrong = (
        Jumps(mean(f[kind]["mean"] for f in found), mean(f[kind]["turns"] for f in found))
        for kind in ("clean", "wrong")
    )
    return clean, wrong
