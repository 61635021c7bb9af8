"""Results as Markdown tables: ours at the last epoch, the paper's value below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.paper.cells import Cell
from benchmarks.paper.results import Group, Results, mark, spread_of
from benchmarks.paper.table_file import Column, PaperTable, PaperValue, TableRow

SMALL_MARK = "†"
NOTHING = "–"
OurLine = Callable[[Group], str]
PaperValues = Callable[[TableRow], Mapping[str, PaperValue]]


def grids(results: Results) -> Iterator[str]:
    """Every Markdown table of a table's results, with a sentence on what is in each.

    Without results, the paper's values.
    """
    rows = results.table.rows
    if results.groups or any(row.paper for row in rows):
        yield from full_grid(results)
        yield ""
    if any(row.paper_train for row in rows):
        yield (
            "Accuracy in % on the training labels as given, at the last epoch; in italics the "
            "paper's, with the name of its dataset where ours is another. A network that has "
            "memorised no wrong label is near the fraction of right labels:"
        )
        yield ""
        yield from fit_grid(results)
        yield ""
    for kind, sentence, grid in MORE_GRIDS:
        lines = list(grid(results)) if results.table.kind == kind else []
        if lines:
            yield from (sentence, "", *lines, "")


def full_grid(results: Results) -> Iterator[str]:
    """The test metric: every row and column with a result or a value of the paper."""

    def ours(group: Group) -> str:
        paper = None if results.is_small else results.table.paper_value(group.row, group.column)
        words = [_last_epoch(results, group)]
        if group.last is not None and paper is not None:
            words.append(mark(group.last, paper, results.table.lower_is_better))
        if group.last is not None and group.best is not None:
            words.append(f"[{group.best.mean:.2f}]")
        return " ".join(word for word in words if word)

    yield from _grid(results, ours, lambda row: row.paper)


def fit_grid(results: Results) -> Iterator[str]:
    """The accuracy on the training labels as given, and the fraction of right ones."""

    def ours(group: Group) -> str:
        return "" if group.fit is None else format_value(group.fit.mean, group.fit.deviation)

    yield from _grid(results, ours, lambda row: row.paper_train)
    rates = [
        [rate for g in results.groups if g.column == column for rate in g.values("noise_true")]
        for column in results.columns
    ]
    if any(rates):
        right = [f"{100 * (1 - mean(found)):.2f}" if found else NOTHING for found in rates]
        yield f"| *right labels* | {' | '.join(right)} | |"


def brief_grid(results: Results, rows: Sequence[TableRow]) -> Iterator[str]:
    """Some rows at the last epoch, and the paper's DiscrimLoss below them.

    The best of all rows is bold, also if it is not among those shown: then no row is bold.
    """
    columns, table = results.columns, results.table
    yield from _heading(columns)
    for row in rows:
        groups = [results.group(row.name, column.name) for column in columns]
        if not any(groups):
            continue
        values = [_last_epoch(results, group) if group else "" for group in groups]
        cells = [_with_small_mark(results, value) or NOTHING for value in values]
        yield f"| {' | '.join([row.title, *cells])} | {_seeds(results, row)} |"
    main = table.row(table.main)
    if main is not None and not results.is_small:
        quoted = [table.paper_value(main, column) for column in columns]
        cells = [f"*{format_value(v.mean, v.spread)}*" if v else NOTHING for v in quoted]
        yield f"| *the paper's DiscrimLoss* | {' | '.join(cells)} | |"


def change_grid(results: Results) -> Iterator[str]:
    """An ablation: what each change adds to the main row's metric."""
    table, columns = results.table, results.columns
    yield f"| | {' | '.join(column.title for column in columns)} | cost in the paper |"
    yield "|---" * (len(columns) + 2) + "|"
    for row in results.rows:
        cells = []
        for column in columns:
            base, group = (
                results.group(table.main, column.name),
                results.group(row.name, column.name),
            )
            if row.name == table.main or not base or not group or not base.last or not group.last:
                cells.append(NOTHING)
                continue
            sign = mark(group.last, base.last, table.lower_is_better)
            cells.append(f"{group.last.mean - base.last.mean:+.2f} {sign}".rstrip())
        if any(cell != NOTHING for cell in cells):
            yield f"| {row.title} | {' | '.join(cells)} | {row.paper_cost or NOTHING} |"


def overlap_grid(results: Results) -> Iterator[str]:
    """The medians of clean and wrong samples' losses at each drawn epoch, and the overlap."""
    rows = []
    for group in results.groups:
        runs = _samples(group, "histograms")
        ends = [run[-1]["overlap"] for run in runs if run[-1]["overlap"] is not None]
        if not ends:
            continue
        medians = [
            f"{step['medians']['clean']:.3f} / {step['medians']['wrong']:.3f} ({step['epoch']})"
            for step in runs[0]
            if None not in step["medians"].values()
        ]
        found = spread_of([100.0 * end for end in ends])
        assert found is not None
        value = format_value(found.mean, found.deviation)
        rows.append(f"| {group.row.title} | {', '.join(medians)} | {value} | {len(ends)} |")
    if rows:
        yield "| | medians, clean / wrong (epoch) | overlap at the end, % | seeds |"
        yield "|---|---|---|---|"
        yield from rows


def jump_grid(results: Results) -> Iterator[str]:
    """Jumps of a sample's importance, and jumps back, for clean and wrong samples."""
    rows = []
    for group in results.groups:
        runs = [run for run in _samples(group, "fluctuation") if {"clean", "wrong"} <= set(run)]
        if runs:
            cells = [
                f"{mean(run[kind][count] for run in runs):.2f}"
                for count in ("mean", "turns")
                for kind in ("clean", "wrong")
            ]
            rows.append(f"| {group.row.title} | {' | '.join(cells)} | {len(runs)} |")
    if rows:
        yield "| | jumps, clean | jumps, wrong | back, clean | back, wrong | seeds |"
        yield "|---" * 6 + "|"
        yield from rows


MORE_GRIDS: tuple[tuple[str, str, Callable[[Results], Iterator[str]]], ...] = (
    (
        "ablation",
        "Difference from the main row. ▲ better, ▼ worse by more than the standard error of both:",
        change_grid,
    ),
    (
        "histograms",
        "Normalised losses of clean and wrong samples, and the overlap of their distributions:",
        overlap_grid,
    ),
    (
        "fluctuation",
        "Jumps of a sample, as the paper counts them, and jumps back, a measure of our own:",
        jump_grid,
    ),
)
"""What a kind of table shows beside the test metric."""


def _samples(group: Group, key: str) -> list[Any]:
    found = [(cell.content.get("samples") or {}).get(key) for cell in group.cells]
    return [entry for entry in found if entry]


def _grid(results: Results, ours: OurLine, paper_of: PaperValues) -> Iterator[str]:
    rows = results.table.rows
    columns = results.columns or [
        column
        for column in results.table.columns
        if any(column.name in paper_of(row) for row in rows)
    ]
    yield from _heading(columns)
    others = {c.name: _other_dataset(results.table, c) if results.is_small else "" for c in columns}
    present = {row.name for row in results.rows}
    for row in rows:
        values = paper_of(row)
        quoted = not results.is_small and any(column.name in values for column in columns)
        if row.name not in present and not quoted:
            continue
        cells = []
        for column in columns:
            group, paper = results.group(row.name, column.name), values.get(column.name)
            value = ours(group) if group is not None else ""
            lines = [_with_small_mark(results, value)] if value else []
            if paper is not None:
                lines.append(f"*{format_value(paper.mean, paper.spread)}{others[column.name]}*")
            cells.append("<br>".join(lines) or NOTHING)
        yield f"| {row.title} | {' | '.join(cells)} | {_seeds(results, row)} |"


def _with_small_mark(results: Results, value: str) -> str:
    return value + SMALL_MARK if value and results.is_small else value


def _last_epoch(results: Results, group: Group) -> str:
    """Our value, bold where no row is better."""
    if group.last is None:
        return ""
    value = format_value(group.last.mean, group.last.deviation)
    return f"**{value}**" if results.best_row(group.column.name) == group.row.name else value


def _other_dataset(table: PaperTable, column: Column) -> str:
    """The dataset of the paper's value, where runs of reduced size use another one."""
    main = table.row(table.main)
    assert main is not None  # the file was checked
    full, small = (
        Cell(table, main, column, 1, is_small).config.data.name for is_small in (False, True)
    )
    return "" if full == small else f" ({full})"


def _heading(columns: Sequence[Column]) -> Iterator[str]:
    yield f"| | {' | '.join(column.title for column in columns)} | seeds |"
    yield "|---" * (len(columns) + 2) + "|"


def _seeds(results: Results, row: TableRow) -> str:
    counts = {len(group.cells) for group in results.groups if group.row == row}
    if not counts:
        return "paper only"
    return str(counts.pop()) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def format_value(mean: float, spread: float | None) -> str:
    """``98.64 ± 0.01``."""
    return f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}"
