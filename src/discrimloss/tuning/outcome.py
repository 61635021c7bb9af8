"""The result of a search, compared with an oracle that uses clean labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from discrimloss.errors import DiscrimLossError
from discrimloss.training.evaluation import metric_name
from discrimloss.tuning.study import AS_IT_IS, SETTINGS, SURPLUS, TEST, WHY, best_of


@dataclass(frozen=True)
class Outcome:
    """The trials of a study, the best trial, and two trials to compare it with."""

    is_regression: bool
    trials: tuple[FrozenTrial, ...]
    """All trials that were started, in order."""
    best: FrozenTrial
    """The trial with the best score on the noisy validation labels."""
    as_it_is: FrozenTrial | None
    """The trial of the unchanged recipe; None if it is not complete."""
    oracle: FrozenTrial | None
    """The trial with the best test metric, only for comparison. None without test data."""
    rank_correlation: float | None
    """Spearman's rank correlation of noisy validation and test metrics over complete trials."""

    @property
    def metric(self) -> str:
        """Name of the metric: ``accuracy`` or ``mae``."""
        return metric_name(self.is_regression)

    @property
    def complete(self) -> list[FrozenTrial]:
        """The complete trials."""
        return [t for t in self.trials if t.state == TrialState.COMPLETE]

    def validation(self, score: float | None) -> float:
        """Return the metric of a score. In regression, the score is minus the error."""
        assert score is not None
        return -score if self.is_regression else score

    def best_settings(self) -> dict[str, Any]:
        """The settings of the best trial."""
        found: dict[str, Any] = self.best.user_attrs[SETTINGS]
        return found


def outcome_of(study: Study, is_regression: bool) -> Outcome:
    """Return the outcome of a study.

    Raises:
        DiscrimLossError: no trial is complete.
    """
    trials = [t for t in study.get_trials() if SURPLUS not in t.user_attrs]
    complete = [t for t in trials if t.state == TrialState.COMPLETE]
    best = best_of(complete)
    if best is None:
        reasons = [str(t.user_attrs[WHY]) for t in trials if WHY in t.user_attrs]
        raise DiscrimLossError(
            f"none of {len(trials)} trials finished"
            f"{f' (the last: {reasons[-1]})' if reasons else ''}: search another range"
        )
    tested = [t for t in complete if TEST in t.user_attrs]
    sign = -1.0 if is_regression else 1.0
    oracle = max(tested, key=lambda t: (sign * t.user_attrs[TEST], -t.number), default=None)
    return Outcome(
        is_regression,
        tuple(trials),
        best,
        next((t for t in complete if t.user_attrs.get(AS_IT_IS)), None),
        oracle,
        rank_correlation(
            [float(t.value or 0.0) for t in tested], [sign * t.user_attrs[TEST] for t in tested]
        ),
    )


def rank_correlation(first: list[float], second: list[float]) -> float | None:
    """Return Spearman's rank correlation, or None if one of the two does not vary.

    >>> rank_correlation([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    0.5
    """
    from scipy.stats import rankdata

    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(round(np.corrcoef(rankdata(first), rankdata(second))[0, 1], 6))
