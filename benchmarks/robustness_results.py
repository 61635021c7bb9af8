"""Stored cells of the robustness benchmark, grouped by row.

The score of a cell is the mean of overall and balanced accuracy, because a method can improve
either one at the cost of the other.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from benchmarks.robustness_design import Row
from benchmarks.robustness_losses import BASELINE, METHODS, SINGLE_NETWORK

HARM = -1.0
"""A method harms a row if its score minus that of cross-entropy is below this."""
NEAR = 0.5
"""A method is near the best if its score is at most this far below the best score."""

Line = dict[str, Any]


@dataclass(frozen=True)
class RowResult:
    """A row with the stored lines of each method, by seed."""

    row: Row
    lines: dict[str, dict[int, Line]]

    @cached_property
    def scores(self) -> dict[str, float]:
        """Return the score of each method, averaged over seeds."""
        return {name: statistics.mean(self.seed_scores(name).values()) for name in self.lines}

    def seed_scores(self, method: str) -> dict[int, float]:
        """Return the score of a method for each seed."""
        return {seed: score(line) for seed, line in self.lines[method].items()}

    def difference(self, method: str) -> float:
        """Return the score of a method minus that of cross-entropy."""
        return self.scores[method] - self.scores[BASELINE]

    @property
    def best(self) -> str:
        """Return the best method with one network."""
        candidates = [name for name in SINGLE_NETWORK if name in self.scores]
        return max(candidates, key=lambda name: self.scores[name])

    def is_near_best(self, method: str) -> bool:
        """Return whether a method is at most `NEAR` below the best method with one network."""
        return self.scores[self.best] - self.scores[method] <= NEAR

    def values(self, method: str, key: str) -> list[float]:
        """Return a value of each seed."""
        return [line[key] for line in self.lines[method].values()]


def score(line: Line) -> float:
    """Return the mean of overall and balanced accuracy."""
    return (float(line["overall"]) + float(line["balanced"])) / 2


def row_results(lines: Iterable[Line], rows: Iterable[Row]) -> list[RowResult]:
    """Return the rows that cross-entropy was run on, in their order. Ignore other lines."""
    found: dict[Row, dict[str, dict[int, Line]]] = {row: {} for row in rows}
    for line in lines:
        row = Row.from_dict(line)
        if row in found and line["method"] in METHODS:
            found[row].setdefault(line["method"], {})[line["seed"]] = line
    return [
        RowResult(row, {name: by_method[name] for name in METHODS if name in by_method})
        for row, by_method in found.items()
        if BASELINE in by_method
    ]
