"""Stored cells of the robustness benchmark, put together by row.

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
"""A row is harmed where the score is this far below that of cross-entropy."""
NEAR = 0.5
"""A method is near the best where its score is at most this far below."""

Line = dict[str, Any]


@dataclass(frozen=True)
class RowResult:
    """A row with the stored lines of each method, by seed."""

    row: Row
    lines: dict[str, dict[int, Line]]

    @cached_property
    def scores(self) -> dict[str, float]:
        """The score of each method, the mean over seeds."""
        return {name: statistics.mean(self.seed_scores(name).values()) for name in self.lines}

    def seed_scores(self, method: str) -> dict[int, float]:
        """The score of a method for each seed."""
        return {seed: score(line) for seed, line in self.lines[method].items()}

    def difference(self, method: str) -> float:
        """How far a method is above cross-entropy."""
        return self.scores[method] - self.scores[BASELINE]

    @property
    def best(self) -> str:
        """The best method with one network."""
        candidates = [name for name in SINGLE_NETWORK if name in self.scores]
        return max(candidates, key=lambda name: self.scores[name])

    def is_near_best(self, method: str) -> bool:
        """Whether a method is the best with one network, above it, or little below."""
        return self.scores[self.best] - self.scores[method] <= NEAR

    def values(self, method: str, key: str) -> list[float]:
        """A value of each seed."""
        return [line[key] for line in self.lines[method].values()]


def score(line: Line) -> float:
    """The mean of overall and balanced accuracy."""
    return (float(line["overall"]) + float(line["balanced"])) / 2


def row_results(lines: Iterable[Line], rows: Iterable[Row]) -> list[RowResult]:
    """The rows that cross-entropy was run on, in their order. Lines of other rows are left out."""
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
