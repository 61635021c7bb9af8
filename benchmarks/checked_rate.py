"""What an audit gains when a user checks 100 random labels first.

    python -m benchmarks.checked_rate --data DIR --cifar DIR

Errors of annotators and of rules can often be learned like right labels. An audit ranks them well
but cannot tell how many there are, so it calls few labels incorrect. This benchmark takes the sets
with known truth, counts the wrong labels among 100 random ones, and passes that rate to the audit.
It also audits the same rows with their true labels, to show what a method flags where nothing is
wrong. The directories have the layout of `benchmarks.audit_sets`. --only runs some of the sets, and
keeps the stored results of the others.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.audit_cell import rounded, versions
from benchmarks.audit_design import CIFAR, MOST, REAL, Row
from benchmarks.audit_figures import Figures, judge
from benchmarks.audit_rivals import Shared, find_audit, find_cleanlab
from benchmarks.audit_sets import load
from benchmarks.training_runs import RESULTS, spread, table
from discrimloss.files.atomic_write import atomic_write
from discrimloss.training.seeds import derived_generator

Cells = dict[str, dict[str, dict[str, Figures]]]
"""Metrics by set, seed and method."""
NAME = "checked_rate"
CHECKED = 100
SEEDS = (1, 2, 3)
SETS = (*REAL, *CIFAR[1:])
ABOUT = """\
# An audit after a look at 100 random labels

`python -m benchmarks.checked_rate --data DIR --cifar DIR`. Sets with real label errors and known
truth, at most {most:,} rows; CIFAR-10N as features of EfficientNet-Lite0. A seed draws the rows
and {checked} random labels. The fraction of wrong ones among these is passed to the audit as
`noise_rate` (*{checked} checked*). *F1* is that of the flagged labels. cleanlab runs at its
defaults, with 5-fold probabilities of a simple model. The last two columns show what is flagged on
the same rows with their *true* labels. Values are in %, mean ± standard deviation over seeds
{seeds}.
"""


def cell(name: str, seed: int, data: Path, cifar: Path | None, cache: Path) -> dict[str, Figures]:
    """Return the metrics of each method on a set."""
    samples = load(Row("real", name, MOST, "real"), seed, data, cifar, cache)
    shared = Shared(samples, seed)
    generator = derived_generator(seed, "checked")
    checked = torch.randperm(len(samples.target), generator=generator)[:CHECKED].numpy()
    rate = max(float(samples.is_wrong[checked].mean()), 1.0 / CHECKED)
    clean = Shared(replace(samples, target=samples.clean_target), seed)
    found = {
        "cleanlab": find_cleanlab(shared),
        "audit": find_audit(shared),
        "audit, checked": find_audit(shared, rate),
        "cleanlab, true labels": find_cleanlab(clean),
        "audit, true labels": find_audit(clean),
    }
    figures = {}
    for method, finding in found.items():
        truth = clean if method.endswith("true labels") else shared
        figures[method] = rounded(judge(finding, truth.samples.is_wrong))
    return figures


def render(cells: Cells) -> str:
    """Return the page."""
    rows = []
    for name, seeds in cells.items():

        def of(method: str, key: str, seeds: dict[str, dict[str, Figures]] = seeds) -> str:
            return spread((figures[method][key] for figures in seeds.values()), 1, 100)

        rows.append(
            [
                name,
                of("audit", "noise_true"),
                of("cleanlab", "f1"),
                of("audit", "f1"),
                of("audit, checked", "f1"),
                of("audit, checked", "precision"),
                of("cleanlab, true labels", "flagged"),
                of("audit, true labels", "flagged"),
            ]
        )
    titles = ["set", "wrong labels", "F1, cleanlab", "F1, audit", f"F1, audit, {CHECKED} checked"]
    titles += ["precision of the same", "flagged of true labels, cleanlab", "audit"]
    about = ABOUT.format(most=MOST, checked=CHECKED, seeds=" ".join(map(str, SEEDS)))
    means = [
        statistics.mean(
            figures[method]["f1"] or 0.0 for seeds in cells.values() for figures in seeds.values()
        )
        for method in ("cleanlab", "audit", "audit, checked")
    ]
    ends = f"Mean F1: cleanlab {means[0]:.2f}, audit {means[1]:.2f}, audit with {CHECKED} checked "
    ends += f"labels {means[2]:.2f}."
    made = "Made with " + ", ".join(f"{name} {value}" for name, value in versions().items()) + "."
    return "\n".join([about, *table(titles, rows), "", ends, "", made, ""])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = os.environ.get("DISCRIMLOSS_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--cifar", type=Path, help="the directory of CIFAR-10 and CIFAR-10N")
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results are")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    path = options.out / f"{NAME}.json"
    stored: Cells = json.loads(path.read_text("utf-8")) if path.exists() else {}
    with TemporaryDirectory() as cache:
        for name, seed in product(options.only, SEEDS):
            figures = cell(name, seed, options.data, options.cifar, Path(cache))
            stored.setdefault(name, {})[str(seed)] = figures
            values = (f"{method} {one['f1'] or 0.0:.3f}" for method, one in figures.items())
            print(f"{name}, seed {seed}: F1 {', '.join(values)}", flush=True)
    cells = {name: stored[name] for name in SETS if name in stored}
    for suffix, text in ((".json", json.dumps(cells, indent=1) + "\n"), (".md", render(cells))):
        with atomic_write(path.with_suffix(suffix)) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    print(render(cells))


if __name__ == "__main__":
    main()
