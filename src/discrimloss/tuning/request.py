"""A search request: a recipe, a search space, a storage, and the score of a trial.

Trials are compared by their score on a validation split with noisy labels. Only the oracle uses
clean labels: it shows afterwards how good the choice was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discrimloss.options import OptionError
from discrimloss.recipes.settings import parse_setting
from discrimloss.training.config import RunConfig
from discrimloss.training.evaluation import metric_name
from discrimloss.training.records import Row
from discrimloss.tuning.search_space import SearchSpace

DEFAULT_FRACTION = 0.2
"""Fraction of the training samples for validation, if the recipe sets none. It is large, so that
the sampling error of a score is small compared with the differences between trials."""
DEVICE_SETTINGS = ("device", "threads", "workers")
"""Settings that may differ between machines."""


def searchable(config: RunConfig, settings: Sequence[str] = ()) -> RunConfig:
    """Return the config with a noisy validation split: its own one, or the default one.

    Args:
        config: the recipe with its settings. It need not have such a split; `best.toml` has none.
        settings: ``key=value`` settings of the user, to see whether they set the fraction.

    Raises:
        OptionError: the user set ``noisy_validation=0``.
    """
    is_set = any("noisy_validation" in parse_setting(text) for text in settings)
    if is_set and config.noisy_validation == 0.0:
        raise OptionError(
            "noisy_validation = 0 leaves no validation samples to compare trials by: "
            f"give a fraction above 0, or leave it out for {DEFAULT_FRACTION}"
        )
    return replace(config, noisy_validation=config.noisy_validation or DEFAULT_FRACTION)


@dataclass(frozen=True)
class TuneRequest:
    """A search. Workers with equal requests share its trials."""

    config: RunConfig
    """The recipe, with `noisy_validation` above 0."""
    space: SearchSpace
    data: Path
    storage: str
    """URL of the database, in the form of SQLAlchemy."""
    study: str
    trials: int
    """Number of trials of all workers together, including those of earlier commands."""
    lost_after: int = 120
    """Seconds without a heartbeat after which a worker counts as dead and its trial is repeated."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that must be equal for all workers of a study."""
        config = self.config.as_dict()
        kept = {name: value for name, value in config.items() if name not in DEVICE_SETTINGS}
        return {
            **kept,
            "search": {key: str(searched) for key, searched in self.space.items()},
            "averaged_epochs": averaged_epochs(self.config.epochs),
        }


def averaged_epochs(epochs: int) -> int:
    """Return the number of epochs over which a score is averaged: the last tenth, at least one.

    A single epoch is often good by chance, especially with a high learning rate. More epochs could
    include some before the switch of stages.
    """
    return max(1, round(epochs / 10))


def epoch_score(row: Row, is_regression: bool) -> float:
    """Return the validation score of an epoch: accuracy, or minus the error. Higher is better."""
    value = float(row[f"validation_{metric_name(is_regression)}"])
    return -value if is_regression else value


def trial_score(history: Sequence[Row], is_regression: bool) -> float:
    """Return the objective: the mean score of the last epochs of a finished run."""
    last = history[-averaged_epochs(len(history)) :]
    return sum(epoch_score(row, is_regression) for row in last) / len(last)


def oracle_metric(row: Row, is_regression: bool) -> float | None:
    """Return the metric on the test data, only for comparison. None without test data."""
    value: Any = row.get(f"test_{metric_name(is_regression)}")
    return None if value is None else float(value)
