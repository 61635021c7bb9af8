"""What the paper says of changes to its method, against ours, in sentences made from the numbers.

The paper's figure has no numbers: it says that some changes hardly matter and that others cost
considerable accuracy. The line between the two is drawn here at a tenth of the main row's error: a
point of accuracy is little where a fifth of all answers is wrong, and much where it is a fiftieth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from discrimloss.reproduce.claims import AHEAD, BEHIND, EQUAL, compare, format_figure, verdict
from discrimloss.reproduce.results import Group, Results, Spread
from discrimloss.reproduce.table_file import COSTS, TableRow

CONSIDERABLE = 0.1
"""Of the main row's error: what a change must cost at least to count as considerable."""
CLAIMS: dict[COSTS, str] = {
    "little": "what hardly matters in the paper changes the error by less than a tenth",
    "considerable": "what costs considerable accuracy in the paper adds a tenth to the error",
}


class Change(NamedTuple):
    """A row against the main one."""

    row: TableRow
    word: str
    """Where the main row stands."""
    cost: float
    share: float
    """The cost as a share of the main row's error."""

    @property
    def matters(self) -> bool:
        """Whether it makes a considerable difference, for better or worse."""
        return self.word != EQUAL and abs(self.share) >= CONSIDERABLE


def ablation_claims(results: Results) -> Iterator[str]:
    """Whether changes matter where the paper says so; and what each costs against the main row."""
    for column in results.columns:
        main = results.group(results.table.main, column.name)
        if main is None or main.last is None:
            continue
        figure = format_figure(main.last.mean, main.last.deviation)
        yield f"**{column.title}**: {main.row.title} ends at {figure}."
        changes = list(_changes(results, main, main.last))
        one_seed = main.last.count == 1
        for kind in CLAIMS:
            told = [change for change in changes if change.row.paper_cost == kind]
            if told:
                yield _claim(kind, told, column.title, one_seed)
        for change in changes:
            cost = {AHEAD: f"costs {change.cost:.2f}", BEHIND: f"gains {-change.cost:.2f}"}
            same = f"makes no difference beyond the spread ({-change.cost:+.2f})"
            one = " (one seed)" if one_seed else ""
            yield f"{column.title}, {change.row.title}: {cost.get(change.word, same)}{one}."


def _changes(results: Results, main: Group, last: Spread) -> Iterator[Change]:
    lower_is_better = results.table.lower_is_better
    error = last.mean if lower_is_better else 100.0 - last.mean
    for group in results.groups:
        if group.column != main.column or group.row == main.row or group.last is None:
            continue
        word, cost, _ = compare(last, group.last, lower_is_better)
        share = cost / error if error > 0.0 else 0.0
        yield Change(group.row, word, cost, share)


def _claim(kind: COSTS, changes: Sequence[Change], column: str, one_seed: bool) -> str:
    holds = [_is_as_told(kind, change) for change in changes]
    pairs = list(zip(changes, holds, strict=True))
    so, not_so = ([c for c, is_so in pairs if is_so == wanted] for wanted in (True, False))
    parts = [
        f"{start}: {', '.join(f'{c.row.title} ({100 * c.share:+.1f} %)' for c in some)}"
        for start, some in (("so it is with", so), ("not with", not_so))
        if some
    ]
    listed = "; ".join(parts)
    end = " One seed: no spread is known, and small differences may be chance." if one_seed else ""
    return f"{verdict(holds)} {column}: {CLAIMS[kind]}. {listed[:1].upper()}{listed[1:]}.{end}"


def _is_as_told(kind: COSTS, change: Change) -> bool:
    if kind == "little":
        return not change.matters
    return change.matters and change.cost > 0.0
