"""A table as Markdown: the paper's figures, ours, and what follows from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from discrimloss.reproduce.claims import best_of_paper, format_figure
from discrimloss.reproduce.results import Results
from discrimloss.reproduce.store import StoredCell
from discrimloss.reproduce.table_file import Column, PaperTable, TableRow

Claims = Callable[[Results], Iterable[str]]
SMALL_MARK = "†"
NOT_IN_COMMAND = ("threads=", "tensorboard=")


def as_markdown(
    table: PaperTable, sizes: Sequence[Results], figures: Sequence[str], claims: Claims
) -> str:
    """The page of a table. `sizes` are its results at full and at reduced size."""
    lines = [f"# {table.title}", ""]
    if table.paper:
        lines += [f"In the paper: {table.paper}.", ""]
    lines += [" ".join(table.about.split()), ""] if table.about else []
    filled = [results for results in sizes if results.groups]
    if not filled:
        lines += ["Nothing has been run yet.", ""]
    for results in filled:
        if len(filled) > 1 or results.is_small:
            lines += [f"## {'Reduced' if results.is_small else 'Full'} size", ""]
        lines += [*_legend(results), "", *full_grid(results), ""]
        sentences = list(claims(results))
        if sentences:
            lines += ["### What holds and what does not", ""]
            lines += [*(f"- {sentence}" for sentence in sentences), ""]
    for figure in figures:
        lines += [f"![{figure}]({figure})", ""]
    lines += list(_footer(table, sizes))
    return "\n".join(lines).rstrip() + "\n"


def _legend(results: Results) -> Iterator[str]:
    metric = "Mean absolute error" if results.table.lower_is_better else "Test accuracy in %"
    better = "lower" if results.table.lower_is_better else "higher"
    yield (
        f"{metric}, {better} is better. First line of a cell: ours at the last epoch, mean ± "
        "standard deviation over the seeds, the best row in bold; in brackets the best epoch, "
        "which is chosen on test labels and stands here for comparison only. Second line, in "
        "italics: the paper's figure."
    )
    if results.is_small:
        yield f"{SMALL_MARK} ran at reduced size: not comparable with the paper's figure."


def full_grid(results: Results) -> Iterator[str]:
    """Every row and column with a result or a figure of the paper, ours and theirs in a cell."""
    columns = results.columns
    yield from _heading(columns)
    present = {row.name for row in results.rows}
    for row in results.table.rows:
        quoted = not results.is_small and any(column.name in row.paper for column in columns)
        if row.name not in present and not quoted:
            continue
        cells = [_cell(results, row, column.name) for column in columns]
        yield f"| {row.title} | {' | '.join(cells)} | {_seeds(results, row)} |"


def brief_grid(results: Results, rows: Sequence[TableRow]) -> Iterator[str]:
    """Some rows at the last epoch, and the paper's best figure in each column below them."""
    columns, table = results.columns, results.table
    yield from _heading(columns)
    for row in rows:
        groups = [results.group(row.name, column.name) for column in columns]
        if not any(groups):
            continue
        cells = [
            format_figure(group.last.mean, group.last.deviation) if group and group.last else "–"
            for group in groups
        ]
        bold = "**" if row.name == table.main else ""
        cells = [f"{bold}{cell}{bold}" for cell in (row.title, *cells)]
        yield f"| {' | '.join(cells)} | {_seeds(results, row)} |"
    if not results.is_small:
        best = [best_of_paper(table, column) for column in columns]
        quoted = [format_figure(f.mean, f.spread) if f else "–" for f in best]
        yield f"| *the paper's DiscrimLoss* | {' | '.join(f'*{q}*' for q in quoted)} | |"


def _heading(columns: Sequence[Column]) -> Iterator[str]:
    yield f"| | {' | '.join(column.title for column in columns)} | seeds |"
    yield "|---" * (len(columns) + 2) + "|"


def _cell(results: Results, row: TableRow, column: str) -> str:
    group, paper = results.group(row.name, column), row.paper.get(column)
    lines = []
    if group is not None and group.last is not None:
        ours = format_figure(group.last.mean, group.last.deviation)
        ours = f"**{ours}**" if results.best_row(column) == row.name else ours
        best = f" [{group.best.mean:.2f}]" if group.best is not None else ""
        lines.append(f"{ours}{best}{SMALL_MARK if results.is_small else ''}")
    if paper is not None:
        lines.append(f"*{format_figure(paper.mean, paper.spread)}*")
    return "<br>".join(lines) or "–"


def _seeds(results: Results, row: TableRow) -> str:
    counts = {len(group.cells) for group in results.groups if group.row == row}
    if not counts:
        return "paper only"
    return str(counts.pop()) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def _footer(table: PaperTable, sizes: Sequence[Results]) -> Iterator[str]:
    cells = [cell for results in sizes for cell in results.cells]
    yield "---"
    yield ""
    command = f"discrimloss reproduce {table.name}"
    made = [f"{command}{' --small' if r.is_small else ''}" for r in sizes if r.groups] or [command]
    commands = "` and `".join(made)
    yield f"Made by `{commands}`; each file in `{table.name}/` has the command of its run."
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
        told = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in json.loads(text).items())
        yield f"{title}: {told}."
        yield ""


def _left_out(results: Results) -> Iterator[str]:
    for stored in results.stale:
        yield f"Left out as made with other settings: {stored.cell.name} ({stored.differences[0]})."
        yield ""
    for sentence in results.unreadable:
        yield f"Left out: {sentence}."
        yield ""
