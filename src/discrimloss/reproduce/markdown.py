"""A table as Markdown: the paper's figures, ours, and what follows from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from discrimloss.reproduce.grids import SMALL_MARK, grids
from discrimloss.reproduce.results import Results
from discrimloss.reproduce.store import StoredCell
from discrimloss.reproduce.table_file import PaperTable

Claims = Callable[[Results], Iterable[str]]
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
        lines += _only_the_papers(sizes)
    for results in filled:
        if len(filled) > 1 or results.is_small:
            lines += [f"## {'Reduced' if results.is_small else 'Full'} size", ""]
        lines += [*_legend(results), "", *grids(results)]
        sentences = list(claims(results))
        if sentences:
            lines += ["### What holds and what does not", ""]
            lines += [*(f"- {sentence}" for sentence in sentences), ""]
    for figure in figures:
        lines += [f"![{figure}]({figure})", ""]
    lines += list(_footer(table, sizes))
    return "\n".join(lines).rstrip() + "\n"


def _only_the_papers(sizes: Sequence[Results]) -> Iterator[str]:
    """What the page of a table has before its first run."""
    is_empty = not any(results.stale or results.unreadable for results in sizes)
    yield "Nothing has been run here yet." if is_empty else "No run counts here, as told below."
    yield ""
    table = sizes[0].table
    if any(row.paper for row in table.rows):
        yield f"The paper's figures. {_metric(table)}"
        yield ""
    yield from grids(sizes[0])


def _metric(table: PaperTable) -> str:
    if table.lower_is_better:
        return "Mean absolute error, lower is better."
    return "Test accuracy in %, higher is better."


def _legend(results: Results) -> Iterator[str]:
    yield (
        f"{_metric(results.table)} First line of a cell: ours at the last epoch, mean ± "
        "standard deviation over the seeds, the best row in bold; in brackets the best epoch, "
        "which is chosen on test labels and stands here for comparison only. Second line, in "
        "italics: the paper's figure."
    )
    if results.is_small:
        yield f"{SMALL_MARK} ran at reduced size: not comparable with the paper's figure."


def _footer(table: PaperTable, sizes: Sequence[Results]) -> Iterator[str]:
    cells = [cell for results in sizes for cell in results.cells]
    yield "---"
    yield ""
    command = f"discrimloss reproduce {table.name_for_command}"
    made = [f"{command}{' --small' if r.is_small else ''}" for r in sizes if r.groups]
    if made:
        commands = "` and `".join(made)
        yield f"Made by `{commands}`; each file in `{table.name}/` has the command of its run."
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
