"""The rows and columns of a table as Markdown: ours at the last epoch, the paper's below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from discrimloss.reproduce.cells import Cell
from discrimloss.reproduce.claims import best_of_paper, format_figure
from discrimloss.reproduce.results import Group, Results
from discrimloss.reproduce.table_file import Column, PaperFigure, PaperTable, TableRow

SMALL_MARK = "†"
OurLine = Callable[[Group], str]
PaperFigures = Callable[[TableRow], Mapping[str, PaperFigure]]


def grids(results: Results) -> Iterator[str]:
    """All there is to be shown of a table: test figures; and those of training the paper tells.

    Where nothing has been run, these are the paper's.
    """
    rows = results.table.rows
    if results.groups or any(row.paper for row in rows):
        yield from full_grid(results)
        yield ""
    if any(row.paper_train for row in rows):
        yield (
            "Accuracy on the training labels as given, in %, at the last epoch; in italics the "
            "paper's, with its dataset where ours is another:"
        )
        yield ""
        yield from fit_grid(results)
        yield ""


def full_grid(results: Results) -> Iterator[str]:
    """Every row and column with a result or a figure of the paper, ours and theirs in a cell."""

    def ours(group: Group) -> str:
        last = _last_epoch(results, group)
        return last + (f" [{group.best.mean:.2f}]" if last and group.best is not None else "")

    yield from _grid(results, ours, lambda row: row.paper)


def fit_grid(results: Results) -> Iterator[str]:
    """Like `full_grid`, of the accuracy on the training labels as given."""

    def ours(group: Group) -> str:
        return "" if group.fit is None else format_figure(group.fit.mean, group.fit.deviation)

    yield from _grid(results, ours, lambda row: row.paper_train)


def brief_grid(results: Results, rows: Sequence[TableRow]) -> Iterator[str]:
    """Some rows at the last epoch, and the paper's best figure in each column below them.

    Bold is the best of all rows, of those that are left out as well.
    """
    columns, table = results.columns, results.table
    yield from _heading(columns)
    for row in rows:
        groups = [results.group(row.name, column.name) for column in columns]
        if not any(groups):
            continue
        told = [_last_epoch(results, group) if group else "" for group in groups]
        cells = [_marked(results, ours) or "–" for ours in told]
        yield f"| {' | '.join([row.title, *cells])} | {_seeds(results, row)} |"
    if not results.is_small:
        best = [best_of_paper(table, column) for column in columns]
        quoted = [format_figure(f.mean, f.spread) if f else "–" for f in best]
        yield f"| *the paper's DiscrimLoss* | {' | '.join(f'*{q}*' for q in quoted)} | |"


def _grid(results: Results, ours: OurLine, paper_of: PaperFigures) -> Iterator[str]:
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
        figures = paper_of(row)
        quoted = not results.is_small and any(column.name in figures for column in columns)
        if row.name not in present and not quoted:
            continue
        cells = []
        for column in columns:
            group, paper = results.group(row.name, column.name), figures.get(column.name)
            told = ours(group) if group is not None else ""
            lines = [_marked(results, told)] if told else []
            if paper is not None:
                lines.append(f"*{format_figure(paper.mean, paper.spread)}{others[column.name]}*")
            cells.append("<br>".join(lines) or "–")
        yield f"| {row.title} | {' | '.join(cells)} | {_seeds(results, row)} |"


def _marked(results: Results, told: str) -> str:
    """A figure of ours, with the mark of what ran at reduced size."""
    return told + SMALL_MARK if told and results.is_small else told


def _last_epoch(results: Results, group: Group) -> str:
    """Our figure, bold where no row is better; empty without one."""
    if group.last is None:
        return ""
    figure = format_figure(group.last.mean, group.last.deviation)
    return f"**{figure}**" if results.best_row(group.column.name) == group.row.name else figure


def _other_dataset(table: PaperTable, column: Column) -> str:
    """What the paper's figure is of, where runs of reduced size are of another dataset."""
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
