"""The page of the robustness benchmark: what each method does to a row, against cross-entropy.

The score of a cell is the mean of overall and balanced accuracy: a method can improve either one
at the cost of the other.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from benchmarks.robustness_design import CIFAR_EPOCHS, CIFAR_GRID, CURBENCH, SEEDS, Row
from benchmarks.robustness_losses import BASELINE, METHODS, OURS, SINGLE_NETWORK
from benchmarks.robustness_results import HARM, NEAR, Line, RowResult, row_results
from benchmarks.robustness_sets import CIFAR_TRAIN, KINDS, SETS
from benchmarks.stored_cells import made_with
from benchmarks.training_runs import spread, table

MARK = "†"
ABOUT = f"""\
Made by `python -m benchmarks.robustness run --data DIR --cifar DIR`. In a row, every method trains
the same network on the same labels, with the same optimizer, learning rate, schedule and number of
epochs. The options of each method are its authors' defaults. All values are test accuracies of the
last epoch in %, on true labels. The *score* is the mean of overall and balanced accuracy, because a
method can improve either one at the cost of the other. A *difference* is the score of a method
minus that of cross-entropy in the same row, in points; ± is the standard deviation over seeds.

Sets with {MARK} were not used for any choice in this library:
{{held_out}}.
All others were used to choose defaults or forms of DiscrimLoss. crowdtruth_treat has the sentences
of a set that was used, crowdtruth_cause, with other labels.

*Drop and retrain* trains with DiscrimLoss (predictions), drops the labels that its verdicts call
incorrect and trains a second network with cross-entropy. All others train one network."""
COLUMNS = """\
*Below CE*: rows whose score is more than 1 point below that of cross-entropy. *Near the best*:
noisy rows whose score is at most half a point below the best score of a method with one network."""
CHANCE = """\
Part of *near the best* is chance, because each seed draws other samples and other wrong labels. In
single seeds of noisy rows, {ours} is near the best in {near:.0%} of {cells:,} cases. An oracle
that takes, for each row, the method that is best on the other seeds is near the
best in {known:.0%}."""
HARM_BY_CHANCE = """\
Part of *below CE* is chance as well. Cross-entropy was trained again, with another initial network
and another order of the batches, for {cells:,} pairs of a row and a seed. It is more than 1 point
below itself in {control:.0%} of them, and more than 1 above in {above:.0%}. {ours} is below in
{harmed:.0%} of the same pairs."""
FIELD = """\
At reduced size: {train:,} training images at 16 × 16 before the long tail is cut, a small residual
network, {epochs} epochs, images moved and mirrored at random. Noise and class sizes are those of
published papers, but the accuracies cannot be compared with theirs. CurBench (Zhou et al., 2024)
trains with AdamW at a constant rate, the others use SGD with a decaying one. Overall accuracy; the
test set is balanced, so balanced accuracy is almost the same."""

# --------------------------------------------------------------------------------- summary


@dataclass(frozen=True)
class Summary:
    """The results of a method over some rows."""

    rows: int
    mean: float | None
    """Mean difference between the method and cross-entropy."""
    mean_spread: float | None
    """Standard deviation of that mean over seeds."""
    mean_noisy: float | None
    mean_clean: float | None
    worst: float
    worst_row: Row
    below: int
    """Number of rows that the method harms."""
    near_best: int
    """Number of noisy rows in which the method is near the best."""
    noisy: int


def summarise(results: list[RowResult], method: str) -> Summary | None:
    """Return the results of a method over the rows that it was run on; None if there are none."""
    own = [result for result in results if method in result.scores]
    if not own:
        return None
    worst = min(own, key=lambda result: result.difference(method))
    noisy = [result for result in own if result.row.setting.is_noisy]
    clean = [result for result in own if not result.row.setting.is_noisy]
    return Summary(
        rows=len(own),
        mean=_mean_difference(own, method),
        mean_spread=_spread_over_seeds(own, method),
        mean_noisy=_mean_difference(noisy, method),
        mean_clean=_mean_difference(clean, method),
        worst=worst.difference(method),
        worst_row=worst.row,
        below=sum(result.difference(method) < HARM for result in own),
        near_best=sum(result.is_near_best(method) for result in noisy),
        noisy=len(noisy),
    )


def _mean_difference(results: list[RowResult], method: str) -> float | None:
    return statistics.mean(result.difference(method) for result in results) if results else None


def _spread_over_seeds(results: list[RowResult], method: str) -> float | None:
    """Return the standard deviation over seeds of the mean difference over rows."""
    differences: dict[int, list[float]] = {}
    for result in results:
        baseline = result.seed_scores(BASELINE)
        for seed, value in result.seed_scores(method).items():
            if seed in baseline:
                differences.setdefault(seed, []).append(value - baseline[seed])
    means = [statistics.mean(values) for values in differences.values()]
    return statistics.stdev(means) if len(means) > 1 else None


def summary_table(results: list[RowResult]) -> list[str]:
    """Return a table with a line for each method."""
    titles = ["method", "rows", "difference", "noisy rows", "clean rows", "worst row"]
    titles += ["below CE", "near the best"]
    rows = []
    for name, method in METHODS.items():
        summary = summarise(results, name)
        if summary is None or method.is_control:
            continue
        mean = _signed(summary.mean)
        if summary.mean_spread is not None and name != BASELINE:
            mean += f" ± {summary.mean_spread:.2f}"
        worst = "–" if name == BASELINE else f"{summary.worst:+.1f} ({_words(summary.worst_row)})"
        rows.append(
            [
                method.title,
                str(summary.rows),
                mean,
                _signed(summary.mean_noisy),
                _signed(summary.mean_clean),
                worst,
                f"{summary.below} of {summary.rows}",
                f"{summary.near_best} of {summary.noisy}",
            ]
        )
    return table(titles, rows)


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"


def _words(row: Row) -> str:
    return f"{_marked(row.set)}, {row.setting.labels}, {row.setting.training}"


def _marked(name: str) -> str:
    return f"{name} {MARK}" if SETS[name].is_held_out else name


# ------------------------------------------------------------------------------ other parts


def chance(results: list[RowResult]) -> str | None:
    """How much of "near the best" is chance; None before there are two seeds of a row."""
    ours, near, near_known = OURS[-1], 0, 0
    cells = [
        (scores, seed)
        for scores in (_seed_scores(r) for r in results if r.row.setting.is_noisy)
        for seed in scores.get(ours, {})
        if len(scores[ours]) > 1
    ]
    for scores, seed in cells:
        found = {name: by_seed[seed] for name, by_seed in scores.items()}
        elsewhere = {
            name: statistics.mean(value for other, value in by_seed.items() if other != seed)
            for name, by_seed in scores.items()
        }
        lowest = max(found.values()) - NEAR
        near += found[ours] >= lowest
        near_known += found[max(elsewhere, key=lambda name: elsewhere[name])] >= lowest
    if not cells:
        return None
    return CHANCE.format(
        ours=METHODS[ours].title,
        near=near / len(cells),
        known=near_known / len(cells),
        cells=len(cells),
    )


def harm_by_chance(results: list[RowResult]) -> str | None:
    """How often cross-entropy is below itself, and how often ours; None without such cells."""
    ours, control = OURS[-1], next(name for name, method in METHODS.items() if method.is_control)
    differences = [
        (of[control][seed] - of[BASELINE][seed], of[ours][seed] - of[BASELINE][seed])
        for of in ({name: r.seed_scores(name) for name in r.lines} for r in results)
        for seed in of.get(control, {})
        if seed in of[BASELINE] and seed in of.get(ours, {})
    ]
    if not differences:
        return None
    of_control, of_ours = zip(*differences, strict=True)
    return HARM_BY_CHANCE.format(
        cells=len(differences),
        control=statistics.mean(value < HARM for value in of_control),
        above=statistics.mean(value > -HARM for value in of_control),
        harmed=statistics.mean(value < HARM for value in of_ours),
        ours=METHODS[ours].title,
    )


def _seed_scores(result: RowResult) -> dict[str, dict[int, float]]:
    """Return scores by seed, of methods with one network that have all seeds of the row."""
    seeds = set(result.lines[BASELINE])
    of_methods = {name: result.seed_scores(name) for name in result.lines if name in SINGLE_NETWORK}
    return {name: scores for name, scores in of_methods.items() if set(scores) == seeds}


def losses_of_ours(results: list[RowResult]) -> list[str]:
    """Return the rows where DiscrimLoss is below cross-entropy or its best form is not best."""
    lines = []
    for name in (*OURS, "drop"):
        harmed = [r for r in results if name in r.scores and r.difference(name) < HARM]
        harmed.sort(key=lambda result: result.difference(name))
        words = [f"{_words(r.row)} ({r.difference(name):+.1f})" for r in harmed]
        if summarise(results, name) is not None:
            title = METHODS[name].title
            lines += ["", f"**{title}**, below cross-entropy by more than 1: {_listed(words)}."]
    name = OURS[-1]
    behind = [
        (result.scores[result.best] - result.scores[name], result)
        for result in results
        if result.row.setting.is_noisy and name in result.scores and not result.is_near_best(name)
    ]
    behind.sort(key=lambda pair: -pair[0])
    words = [f"{_words(r.row)} ({METHODS[r.best].title} by {lead:.1f})" for lead, r in behind]
    if summarise(results, name) is not None:
        title = METHODS[name].title
        lines += ["", f"**{title}**, noisy rows with a better method: {_listed(words)}."]
    return lines[1:]


def _listed(words: list[str]) -> str:
    return "; ".join(words) or "none"


def field_table(results: list[RowResult]) -> list[str]:
    """Return a table of CIFAR-10 in the settings of papers, with a line for each method."""
    by_setting = {r.row.setting: r for r in results if r.row.set == "cifar10"}
    chosen = [by_setting[s] for s in CIFAR_GRID + CURBENCH if s in by_setting]
    chosen += [r for r in results if r.row.set.startswith("cifar10n")]
    if not chosen:
        return ["Not run yet."]
    titles = ["method", *(_field_title(result.row) for result in chosen)]
    rows = []
    for name, method in METHODS.items():
        if any(name in result.lines for result in chosen):
            values = [r.values(name, "overall") if name in r.lines else [] for r in chosen]
            rows.append([method.title, *(spread(numbers, 1) for numbers in values)])
    return table(titles, rows)


def _field_title(row: Row) -> str:
    if row.setting.noise == "real":
        return f"CIFAR-10N, {row.set.partition('_')[2]}"
    labels = row.setting.labels
    return f"CurBench: {labels}" if row.setting in CURBENCH else labels


def full_table(results: list[RowResult]) -> list[str]:
    """Return a table of overall / balanced accuracy by row and method, the best score in bold."""
    present = [
        name
        for name, method in METHODS.items()
        if not method.is_control and any(name in result.lines for result in results)
    ]
    titles = ["set", "labels", "training", "training rows", "wrong, %"]
    titles += [METHODS[name].title for name in present]
    return table(titles, (_full_row(result, present) for result in results))


def _full_row(result: RowResult, present: list[str]) -> list[str]:
    setting = result.row.setting
    best = max(value for name, value in result.scores.items() if not METHODS[name].is_control)
    cells = [_marked(result.row.set), setting.labels, setting.training]
    cells.append(f"{statistics.mean(result.values(BASELINE, 'train_rows')):,.0f}")
    cells.append(f"{100 * statistics.mean(result.values(BASELINE, 'wrong')):.1f}")
    for name in present:
        if name not in result.lines:
            cells.append("–")
            continue
        means = (statistics.mean(result.values(name, key)) for key in ("overall", "balanced"))
        words = " / ".join(f"{mean:.1f}" for mean in means)
        of_seeds = list(result.seed_scores(name).values())
        words += f" ± {statistics.stdev(of_seeds):.1f}" if len(of_seeds) > 1 else ""
        cells.append(f"**{words}**" if round(result.scores[name] - best, 2) == 0 else words)
    return cells


# ---------------------------------------------------------------------------------- the page


def render(lines: list[Line], rows: list[Row]) -> str:
    """Return the page.

    Args:
        lines: the stored lines.
        rows: the rows of the design, in the order of the page.
    """
    results = row_results(lines, rows)
    names = sorted({row.set for row in rows if row.data_set.is_held_out})
    parts = {
        f"Sets that were not used for any choice ({MARK})": [
            result for result in results if result.row.data_set.is_held_out
        ],
        "Real noise": [result for result in results if result.row.setting.noise == "real"],
        **{kind.capitalize(): _of_kind(results, kind) for kind in KINDS},
    }
    page = ["# Harm and help of training losses", "", ABOUT.format(held_out=", ".join(names))]
    page += ["", _counts(results, rows), "", "## All rows", "", COLUMNS, ""]
    page += summary_table(results)
    for words in (chance(results), harm_by_chance(results)):
        page += ["", words] if words else []
    for title, part in parts.items():
        page += ["", f"## {title}", "", *summary_table(part)]
    page += ["", "## Where DiscrimLoss loses", "", *losses_of_ours(results)]
    about_field = FIELD.format(train=CIFAR_TRAIN, epochs=CIFAR_EPOCHS)
    page += [
        "",
        "## CIFAR-10 as the field publishes it",
        "",
        about_field,
        "",
        *field_table(results),
    ]
    page += ["", "## Every row", "", "Overall / balanced accuracy ± spread of the score."]
    for kind in KINDS:
        page += ["", f"### {kind.capitalize()}", "", *full_table(_of_kind(results, kind))]
    for words in made_with(_cells(results)):
        page += ["", words]
    return "\n".join(page) + "\n"


def _of_kind(results: list[RowResult], kind: str) -> list[RowResult]:
    return [result for result in results if result.row.data_set.kind == kind]


def _counts(results: list[RowResult], rows: list[Row]) -> str:
    """Return a sentence on how much of the design is stored."""
    cells = _cells(results)
    sets = {"cifar10" if r.row.data_set.is_cifar else r.row.set for r in results}
    held_out = sum(SETS[name].is_held_out for name in sets)
    seeds = sorted({line["seed"] for line in cells})
    hours = sum(line["seconds"] for line in cells) / 3600
    return (
        f"{len(results)} of {len(rows)} rows on {len(sets)} sets, {held_out} of them not used for "
        f"any choice; {len(cells):,} of {len(rows) * len(METHODS) * len(SEEDS):,} cells, seeds "
        f"{', '.join(map(str, seeds))}; {hours:.1f} hours of one core."
    )


def _cells(results: list[RowResult]) -> list[Line]:
    return [line for r in results for by_seed in r.lines.values() for line in by_seed.values()]
