"""What a search maximises, and what it must not look at.

Trials are compared by their score on the labels of the noisy validation split. Clean labels are the
oracle's: they tell afterwards how good the choice was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discrimloss.training.evaluation import metric_name
from discrimloss.training.records import Row

DEFAULT_SHARE = 0.2
"""Of the training samples, for validation, where the recipe does not say: enough that the score's
own chance is small beside the differences between trials."""


def averaged_epochs(epochs: int) -> int:
    """Over how many of the last epochs the score is averaged: a tenth of them.

    One epoch alone would often win by luck, above all where the learning rate stays high; many
    would count what the network knew before the switch of stages.
    """
    return max(1, round(epochs / 10))


def epoch_score(row: Row, is_regression: bool) -> float:
    """How good an epoch was, higher is better: the accuracy, or minus the error."""
    value = float(row[f"validation_{metric_name(is_regression)}"])
    return -value if is_regression else value


def trial_score(history: Sequence[Row], is_regression: bool) -> float:
    """What is maximised: the mean score of the last epochs of a finished run."""
    last = history[-averaged_epochs(len(history)) :]
    return sum(epoch_score(row, is_regression) for row in last) / len(last)


def oracle_figure(row: Row, is_regression: bool) -> float | None:
    """The metric on the test data, for comparison only; None if there is no test data."""
    value: Any = row.get(f"test_{metric_name(is_regression)}")
    return None if value is None else float(value)
