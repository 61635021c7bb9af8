"""Writes the stored results into their pages, docs/results.md and README.md.

The pages of a table, TABLE.md, TABLE.csv and TABLE-*.png in benchmarks/results, are those of
`python -m benchmarks.paper TABLE --render-only`. In the other pages blocks are filled, each from a
line ``<!-- results: TABLE -->`` to a line ``<!-- end -->``:

    <!-- results: mnist -->                         every row, ours and the paper's
    <!-- results: mnist brief=plain,discrimloss --> these rows at the last epoch
    <!-- results: mnist only=small -->              at reduced size only, or only=full
    <!-- tuned: mnist -->                           the best trial of `discrimloss tune`
    <!-- comparison: audit_quality -->              the audit beside other ways to find wrong labels

    python -m benchmarks.results_page           writes all of them from the stored runs
    python -m benchmarks.results_page --check   names those that are outdated, and exits with 1

The check compares no figures: it only looks whether they are there.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import fmean

from benchmarks.audit_design import design
from benchmarks.audit_page import TITLES, row_results
from benchmarks.paper.grids import brief_grid, grids
from benchmarks.paper.pages import both_sizes, figures, pages, write
from benchmarks.paper.results import Results
from benchmarks.paper.store import ResultsStore
from benchmarks.paper.table_file import load_table, table_files

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "results.md", ROOT / "README.md")
RESULTS = ROOT / "benchmarks" / "results"
TABLES = tuple(table_files())
BLOCK = re.compile(
    r"(<!-- (?P<kind>results|tuned|comparison): (?P<words>[^>]*?) -->\n).*?<!-- end -->", re.DOTALL
)


def filled(page: str, link: str) -> str:
    """The page with every block as the store has it now; `link` leads to the store's folder."""

    def fill(found: re.Match[str]) -> str:
        name, *options = found["words"].split()
        if found["kind"] == "tuned":
            lines = _searches(name)
        elif found["kind"] == "comparison":
            lines = comparison(name, link)
        else:
            lines = _block(name, dict(word.split("=", 1) for word in options), link)
        text = "\n".join(lines)
        return f"{found[1]}\n{text}\n\n<!-- end -->"

    return BLOCK.sub(fill, page)


def _block(name: str, options: dict[str, str], link: str) -> Iterator[str]:
    wanted = [r for r in _stored(name) if _wanted(r.is_small, options.get("only")) and r.groups]
    if not wanted:
        yield "No run yet."
    for number, results in enumerate(wanted):
        if number:
            yield ""
        if "brief" in options:
            rows = [row for row in results.table.rows if row.name in options["brief"].split(",")]
            yield from brief_grid(results, rows)
        else:
            yield from _in_full(results, link)


@cache
def _stored(name: str) -> list[Results]:
    """Read the store once: a table may be on several pages."""
    return both_sizes(load_table(name), ResultsStore(RESULTS))


def _in_full(results: Results, link: str) -> Iterator[str]:
    table = results.table
    yield from grids(results)
    for figure in figures([results]):
        yield f"![{Path(figure).stem}]({link}/{figure})"
        yield ""
    yield f"[Every run]({link}/{table.name}.jsonl), [as CSV]({link}/{table.name}.csv)"


def _searches(recipe: str) -> Iterator[str]:
    """For each method the best trial of its search, and the first: the recipe as it is."""
    yield "| | best by noisy validation | the recipe as it is | complete / stopped early |"
    yield "|---|---|---|---|"
    for folder in sorted((RESULTS / "tuned").glob(f"{recipe}-*")):
        with (folder / "trials.csv").open(newline="", encoding="utf-8") as file:
            trials = list(csv.DictReader(file))
        complete = [trial for trial in trials if trial["state"] == "complete"]
        best = max(complete, key=lambda trial: float(trial["validation_accuracy"]))
        told = [_trial(best), _trial(trials[0]), f"{len(complete)} / {len(trials) - len(complete)}"]
        yield f"| `{folder.name.removeprefix(f'{recipe}-')}` | {' | '.join(told)} |"


COMPARED = ("audit", "cleanlab", "aum", "small loss")
MEASURES = {
    "auroc": "AUROC",
    "average_precision": "average precision",
    "f1": "F1 of the flagged labels",
}


def comparison(name: str, link: str) -> Iterator[str]:
    """Return means over rows that all compared methods have, and the cost on clean data."""
    lines = [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]
    rows = [row for row in row_results(lines, design()) if set(COMPARED) <= set(row.lines)]
    noisy = [row for row in rows if all(row.values(method, "auroc") for method in COMPARED)]
    clean = [row for row in rows if row.row.noise == "none"]
    titles = ["discrimloss", *(TITLES[method] for method in COMPARED[1:])]
    yield f"| | {' | '.join(titles)} |"
    yield f"|---|{'---:|' * len(titles)}"
    for key, title in MEASURES.items():
        means = [fmean(row.mean(method, key) or 0.0 for row in noisy) for method in COMPARED]
        yield _compared(title, means, 2, max)
    flagged = [fmean(100 * (row.mean(m, "flagged") or 0.0) for row in clean) for m in COMPARED]
    yield _compared("flagged of clean labels, %", flagged, 1, min)
    best = {
        key: sum(
            all((row.mean("audit", key) or 0) >= (row.mean(m, key) or 0) for m in COMPARED)
            for row in noisy
        )
        for key in MEASURES
    }
    seeds = sorted({line["seed"] for line in lines})
    held_out = sum(not row.row.data_set.is_chosen_on for row in noisy)
    yield ""
    yield (
        f"Means over {len(noisy)} rows (a dataset with one kind of noise each): texts, tables, "
        "images and features with injected or real wrong labels, "
        f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}, every method at its "
        f"defaults. The last line of the table is the mean over {len(clean)} rows with clean "
        f"labels. "
        f"discrimloss has the best AUROC in {best['auroc']} rows, the best average precision in "
        f"{best['average_precision']} and the best F1 in {best['f1']}. {held_out} of the "
        f"{len(noisy)} rows come from datasets that played no part in choosing any default. "
        f"`python -m benchmarks.{name} run --data DIR --cifar DIR` makes "
        f"[every row]({link}/{name}.md), including those where discrimloss is behind."
    )


def _compared(title: str, values: list[float], digits: int, best: Callable[..., float]) -> str:
    texts = [f"{value:.{digits}f}" for value in values]
    first = f"{best(values):.{digits}f}"
    cells = [f"**{text}**" if text == first else text for text in texts]
    return f"| {title} | {' | '.join(cells)} |"


def _trial(trial: dict[str, str]) -> str:
    rate, kind = trial["optimizer.learning_rate"], trial["schedule.kind"]
    validation, test = (float(trial[f"{part}_accuracy"]) for part in ("validation", "test"))
    return f"{rate}, {kind}: {validation:.2f} (clean test {test:.2f})"


def _wanted(is_small: bool, only: str | None) -> bool:
    return only is None or only == ("small" if is_small else "full")


def behind_of_table(name: str) -> list[str]:
    """Return the files of a table that are missing or do not match the store."""
    sizes = _stored(name)
    behind = [
        file
        for file, text in pages(sizes).items()
        if not (RESULTS / file).is_file() or (RESULTS / file).read_bytes() != text.encode()
    ]
    return behind + [file for file in figures(sizes) if not (RESULTS / file).is_file()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    behind = []
    for name in TABLES:
        behind += behind_of_table(name)
        if not check:  # write all files, because the check cannot compare figures
            write(_stored(name), RESULTS)
    for path in PAGES:
        old = path.read_text(encoding="utf-8")
        new = filled(old, "../benchmarks/results" if path.parent != ROOT else "benchmarks/results")
        if new != old:
            behind.append(path.name)
            if not check:
                path.write_text(new, encoding="utf-8")
    if check and behind:
        names = ", ".join(behind)
        sys.exit(f"{names} do not show benchmarks/results: run python -m benchmarks.results_page")
    print(f"{'behind' if check else 'written'}: {', '.join(behind) or 'none'}")


if __name__ == "__main__":
    main()
