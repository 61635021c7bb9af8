"""What holds and what does not, in sentences made from the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from discrimloss.reproduce.results import Group, Results, Spread
from discrimloss.reproduce.table_file import Column, PaperFigure, PaperTable, TableRow

AHEAD, BEHIND, EQUAL = "ahead", "behind", "within the spread"


def compare(
    ours: Spread, other: Spread | PaperFigure, lower_is_better: bool
) -> tuple[str, float, bool]:
    """Which of two is better: the word, by how much, and whether a spread is known.

    A difference below the standard error of both, ``sqrt(e1^2 + e2^2)``, says nothing. The paper
    does not say over how many runs its spreads are: they are taken for the error as they are.
    Without a spread of ours nothing can be said of chance: the difference is told as it is.
    """
    gain = other.mean - ours.mean if lower_is_better else ours.mean - other.mean
    other_error = other.standard_error if isinstance(other, Spread) else other.spread
    known = [error for error in (ours.standard_error, other_error) if error is not None]
    is_known = ours.standard_error is not None
    if gain == 0.0 or (is_known and abs(gain) < math.hypot(*known)):
        return EQUAL, gain, is_known
    return (AHEAD if gain > 0 else BEHIND), gain, is_known


def table_claims(results: Results) -> Iterator[str]:
    """Where the main row is ahead of the paper and of every other row; then column by column."""
    main = results.table.row(results.table.main)
    assert main is not None  # the file was checked
    yield from _counts(results, main)
    for name in results.table.also:
        other = results.table.row(name)
        assert other is not None
        for sentence in _counts(results, other):
            yield f"{other.title}. {sentence}"
    yield from _not_compared(results)
    if results.cells and max(len(group.cells) for group in results.groups) == 1:
        yield "All of it with one seed: a row that is ahead may be so by chance."
    if results.is_small and results.cells:
        yield "At reduced size the figures are not comparable with the paper's."
    for column in results.columns:
        group = results.group(main.name, column.name)
        if group is not None and group.last is not None:
            yield " ".join(_of_column(results, group, group.last))


def _counts(results: Results, row: TableRow) -> Iterator[str]:
    """In which columns a row is ahead."""
    table = results.table
    ahead_of_paper, ahead_of_all = [], []
    for column in results.columns:
        group = results.group(row.name, column.name)
        if group is None or group.last is None:
            continue
        paper = best_of_paper(table, column)
        if paper is not None and not results.is_small:
            word = compare(group.last, paper, table.lower_is_better)[0]
            ahead_of_paper.append((column, word == AHEAD))
        told = [
            compare(group.last, last, table.lower_is_better)[0]
            for rival, last in _rivals(results, group)
            if rival.method != row.method
        ]
        if told:
            ahead_of_all.append((column, all(word == AHEAD for word in told)))
    if ahead_of_paper:
        yield _count("ahead of the paper's figure", ahead_of_paper)
    if ahead_of_all:
        yield _count("ahead of every other method of ours", ahead_of_all)


def _not_compared(results: Results) -> Iterator[str]:
    """Which rows "every other method" leaves out, and where: they have no run there."""
    table = results.table
    told_of = [row for row in table.rows if row.name in (table.main, *table.also)]
    columns = [c for c in results.columns if any(results.group(r.name, c.name) for r in told_of)]
    rivals = [
        row
        for row in table.rows
        if row.method is not None
        and any(row.method != other.method for other in told_of)
        and (row.by_default or row in results.rows)
    ]
    rows_by_place: dict[str, list[str]] = {}
    for row in rivals:
        without = [c.title for c in columns if results.group(row.name, c.name) is None]
        if without:
            place = "any column" if len(without) == len(columns) else ", ".join(without)
            rows_by_place.setdefault(place, []).append(row.title)
    if rows_by_place:
        parts = [f"of {', '.join(rows)} in {place}" for place, rows in rows_by_place.items()]
        yield f"There is no run, so no comparison, {'; '.join(parts)}."


def _of_column(results: Results, group: Group, last: Spread) -> Iterator[str]:
    """A row in one column: against the paper's figure and against every other row."""
    table = results.table
    yield f"**{group.column.title}**: {group.row.title} ends at {_figure(last)}."
    paper = best_of_paper(table, group.column)
    if paper is not None and not results.is_small:
        word, gain, _ = compare(last, paper, table.lower_is_better)
        yield _against_paper(word, gain, paper)
    rivals = _rivals(results, group)
    if rivals:
        yield _against_rivals(last, rivals, table.lower_is_better)
    if last.count == 1:
        yield "One seed: no spread is known."


def best_of_paper(table: PaperTable, column: Column) -> PaperFigure | None:
    """The paper's figure for the main row; else its best one for the same method."""
    main = table.row(table.main)
    assert main is not None
    if column.name in main.paper:
        return main.paper[column.name]
    kin = [row for row in table.rows if row.method == main.method and column.name in row.paper]
    same = [row.paper[column.name] for row in kin]
    choose = min if table.lower_is_better else max
    return choose(same, key=lambda figure: figure.mean) if same else None


def _rivals(results: Results, group: Group) -> list[tuple[TableRow, Spread]]:
    return [
        (other.row, other.last)
        for other in results.groups
        if other.column == group.column and other.row != group.row and other.last is not None
    ]


def _against_paper(word: str, gain: float, paper: PaperFigure) -> str:
    figure = _paper_figure(paper)
    if word == EQUAL:
        return f"Within the spread of the paper's {figure} ({gain:+.2f})."
    return f"{word.capitalize()} of the paper's {figure} by {abs(gain):.2f}.".replace(
        "Behind of", "Behind"
    )


def _against_rivals(
    ours: Spread, rivals: list[tuple[TableRow, Spread]], lower_is_better: bool
) -> str:
    told: dict[str, list[str]] = {AHEAD: [], EQUAL: [], BEHIND: []}
    for row, last in rivals:
        word, gain, _ = compare(ours, last, lower_is_better)
        amount = f"{gain:+.2f}" if word == EQUAL else f"by {abs(gain):.2f}"
        told[word].append(f"{row.title} ({amount})")
    parts = [
        f"{start} {', '.join(names)}"
        for start, names in (
            ("ahead of", told[AHEAD]),
            ("within the spread of", told[EQUAL]),
            ("behind", told[BEHIND]),
        )
        if names
    ]
    sentence = "; ".join(parts) + "."
    return sentence[:1].upper() + sentence[1:]


def _count(what: str, columns: list[tuple[Column, bool]]) -> str:
    start = verdict([holds for _, holds in columns])
    holding = [column.title for column, holds in columns if holds]
    failing = [column.title for column, holds in columns if not holds]
    if len(columns) == 1:
        return f"{start} {what} in the only column ({columns[0][0].title})."
    if not failing:
        return f"{start} {what} in all {len(columns)} columns."
    if not holding:
        return f"{start} {what} in any of {len(columns)} columns."
    return (
        f"{start} {what} in {len(holding)} of {len(columns)} columns "
        f"({', '.join(holding)}); not in {', '.join(failing)}."
    )


def verdict(holds: Sequence[bool]) -> str:
    """Of a claim about several things: whether it holds for all of them."""
    if all(holds):
        return "**Holds:**"
    return "**Holds in part:**" if any(holds) else "**Does not hold:**"


def _figure(spread: Spread) -> str:
    return format_figure(spread.mean, spread.deviation)


def _paper_figure(figure: PaperFigure) -> str:
    return format_figure(figure.mean, figure.spread)


def format_figure(mean: float, spread: float | None) -> str:
    """``98.64 ± 0.01``."""
    return f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}"
