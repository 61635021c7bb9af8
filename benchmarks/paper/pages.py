"""From the results store to pages: ``TABLE.md``, ``TABLE.csv`` and ``TABLE-*.png``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.paper.drawing import Draw, as_png
from benchmarks.paper.grids import SMALL_MARK, grids
from benchmarks.paper.results import Results, collect
from benchmarks.paper.sample_charts import (
    fluctuation_charts,
    generalization_charts,
    histogram_charts,
)
from benchmarks.paper.store import ResultsStore, StoredCell
from benchmarks.paper.table_charts import table_charts
from benchmarks.paper.table_file import PaperTable
from discrimloss.files.atomic_write import atomic_write
from discrimloss.training.records import as_csv

CHARTS: dict[str, Callable[[Results], dict[str, Draw]]] = {
    "table": table_charts,
    "ablation": table_charts,
    "generalization": generalization_charts,
    "histograms": histogram_charts,
    "fluctuation": fluctuation_charts,
}
"""What is drawn for each kind of table."""
NOT_IN_COMMAND = ("threads=", "tensorboard=")


def render(table: PaperTable, store: ResultsStore) -> list[Path]:
    """Write the pages of a table from everything in the store; returns the files."""
    return write(both_sizes(table, store), store.path)


def both_sizes(table: PaperTable, store: ResultsStore) -> list[Results]:
    """The results of a table, at full and at reduced size."""
    return [collect(table, store, is_small) for is_small in (False, True)]


def write(sizes: Sequence[Results], folder: Path) -> list[Path]:
    """Write pages and figures of a table; returns the files."""
    files = {name: as_png(draw) for name, draw in figures(sizes).items()}
    files |= {name: text.encode() for name, text in pages(sizes).items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        with atomic_write(folder / name) as unfinished:
            unfinished.write_bytes(content)
    return [folder / name for name in files]


def figures(sizes: Sequence[Results]) -> dict[str, Draw]:
    """The functions that draw each figure of a table, by the names of their files."""
    return {
        f"{results.table.name}-{name}{'-small' if results.is_small else ''}.png": draw
        for results in sizes
        if results.groups
        for name, draw in CHARTS[results.table.kind](results).items()
    }


def pages(sizes: Sequence[Results]) -> dict[str, str]:
    """The Markdown and the CSV of a table, by the names of their files."""
    table = sizes[0].table
    return {
        f"{table.name}.md": markdown(sizes, list(figures(sizes))),
        f"{table.name}.csv": csv(sizes),
    }


def markdown(sizes: Sequence[Results], figure_names: Sequence[str]) -> str:
    """The page of a table, from its results at full and at reduced size."""
    table = sizes[0].table
    lines = [f"# {table.title}", ""]
    if table.paper:
        lines += [f"In the paper: {table.paper}.", ""]
    lines += [" ".join(table.about.split()), ""] if table.about else []
    filled = [results for results in sizes if results.groups]
    if not filled:
        lines += _only_the_papers(sizes)
    for results in filled:
        if len(filled) > 1 or results.is_small:
            lines += [f"## {'Reduced' if results.is_small else 'Full'} size", ""]
        lines += [*_legend(results), "", *grids(results)]
    for name in figure_names:
        lines += [f"![{name}]({name})", ""]
    lines += list(_footer(table, sizes))
    return "\n".join(lines).rstrip() + "\n"


def _only_the_papers(sizes: Sequence[Results]) -> Iterator[str]:
    """The page of a table without results."""
    is_empty = not any(results.stale or results.unreadable for results in sizes)
    yield "No run yet." if is_empty else "No run counts: see below."
    yield ""
    table = sizes[0].table
    if any(row.paper for row in table.rows):
        yield f"The paper's values. {_metric(table)}"
        yield ""
    yield from grids(sizes[0])


def _metric(table: PaperTable) -> str:
    if table.lower_is_better:
        return "Mean absolute error, lower is better."
    return "Test accuracy in %, higher is better."


def _legend(results: Results) -> Iterator[str]:
    yield (
        f"{_metric(results.table)} First line of a cell: ours at the last epoch, mean ± standard "
        "deviation over the seeds, the best row in bold; in brackets the best epoch, which is "
        "chosen on test labels and shown for comparison only. Second line, in italics: the paper's "
        "value."
    )
    if results.is_small:
        yield f"{SMALL_MARK} ran at reduced size: not comparable with the paper's value."
    else:
        yield (
            "▲ better, ▼ worse than the paper's value by more than the standard error of both; a "
            "row of DiscrimLoss that the paper does not have is compared with the paper's best. "
            "One seed has no spread, and so no mark."
        )


def _footer(table: PaperTable, sizes: Sequence[Results]) -> Iterator[str]:
    cells = [cell for results in sizes for cell in results.cells]
    yield "---"
    yield ""
    command = f"python -m benchmarks.paper {table.name_for_command}"
    used = [f"{command}{' --small' if r.is_small else ''}" for r in sizes if r.groups]
    if used:
        commands = "` and `".join(used)
        yield f"Made by `{commands}`; each line of `{table.name}.jsonl` has the command of its run."
    else:
        yield f"`{command}` runs it, and `{command} --small` at reduced size."
        yield ""
    if cells:
        example = _command(cells[-1])
        seeds = " ".join(map(str, sorted({cell.cell.seed for cell in cells})))
        hours = sum(cell.content["summary"].get("seconds", 0.0) for cell in cells) / 3600
        yield f"One of them: `{example}`. Seeds: {seeds}."
        yield f"{len(cells)} runs, {hours:.1f} hours in all."
        yield ""
        yield from _distinct("Versions", [cell.content["versions"] for cell in cells])
        yield from _distinct("Machine", [cell.content["machine"] for cell in cells])
    for results in sizes:
        yield from _left_out(results)


def _command(stored: StoredCell) -> str:
    words = str(stored.content["command"]).split(" ")
    return " ".join(word for word in words if not word.startswith(NOT_IN_COMMAND))


def _distinct(title: str, entries: list[dict[str, object]]) -> Iterator[str]:
    for text in sorted({json.dumps(entry) for entry in entries}):
        facts = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in json.loads(text).items())
        yield f"{title}: {facts}."
        yield ""


def _left_out(results: Results) -> Iterator[str]:
    for stored in results.stale:
        yield f"Left out with outdated settings: {stored.cell.name} ({stored.differences[0]})."
        yield ""
    for sentence in results.unreadable:
        yield f"Left out: {sentence}."
        yield ""


def csv(sizes: Sequence[Results]) -> str:
    """A row for each cell and statistic, and for each value of the paper."""
    table = sizes[0].table
    rows = [entry for results in sizes for stored in results.cells for entry in _cell_rows(stored)]
    rows += _paper_rows(table)
    return as_csv(rows or [dict.fromkeys(_entry(table, "", "", "", "", "", 0.0))])


def _cell_rows(stored: StoredCell) -> Iterator[dict[str, Any]]:
    cell, summary = stored.cell, stored.content["summary"]
    metric, test = summary["metric"], summary.get("test", {})
    values = {
        f"test_{metric}_last": test.get("last"),
        f"test_{metric}_best": test.get("best"),
        "best_epoch": test.get("best_epoch"),
        f"validation_{metric}_last": summary.get("validation", {}).get("last"),
    }
    names = (f"train_{metric}_noisy", "noise_true", "noise_estimated", "auroc", "score_auroc")
    values |= {name: summary.get(name) for name in (*names, "precision", "recall", "seconds")}
    size = "small" if cell.is_small else "full"
    place = (cell.row.name, cell.column.name, size, str(cell.seed))
    for name, value in values.items():
        if value is not None:
            yield _entry(cell.table, *place, name, value)


def _paper_rows(table: PaperTable) -> Iterator[dict[str, Any]]:
    for row in table.rows:
        both = {f"paper_{table.metric}": row.paper, "paper_train_accuracy_noisy": row.paper_train}
        for statistic, values in both.items():
            for column, value in values.items():
                place = (row.name, column, "paper", "")
                yield _entry(table, *place, f"{statistic}_mean", value.mean)
                if value.spread is not None:
                    yield _entry(table, *place, f"{statistic}_spread", value.spread)


def _entry(
    table: PaperTable, row: str, column: str, size: str, seed: str, statistic: str, value: float
) -> dict[str, Any]:
    place = {"table": table.name, "row": row, "column": column, "size": size, "seed": seed}
    return {**place, "statistic": statistic, "value": value}
