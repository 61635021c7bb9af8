"""Which values to try next: Optuna's TPE, whose draws follow from the number of the trial."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from discrimloss.training.seeds import derived_seed
from discrimloss.tuning.storage import experimental_is_fine

HIGHEST_SEED = 2**32
COUNTED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)


class NumberedDraws(BaseSampler):
    """TPE with a generator of its own for each trial.

    Workers that start together, or a search that is stopped and goes on, would otherwise draw the
    same values again. A search by one worker is the same with and without interruptions.

    Where there are only so many combinations, none is tried twice as long as there is another.

    Args:
        seed: of the search.
        combinations: all there are; none if a value is drawn from a range.
    """

    def __init__(self, seed: int, combinations: Sequence[dict[str, Any]] = ()) -> None:
        self.seed = seed
        self.combinations = combinations
        self._number: int | None = None
        self._current: TPESampler | None = None

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """What is drawn together: all that every finished trial has."""
        if self.combinations:
            return {
                key: CategoricalDistribution(_distinct(one[key] for one in self.combinations))
                for key in self.combinations[0]
            }
        return self._for(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draw these values together."""
        tried = [t.params for t in study.get_trials(deepcopy=False, states=COUNTED)]
        untried = [one for one in self.combinations if one not in tried]
        if untried:
            return random.Random(self._seed_of(trial)).choice(untried)
        return self._for(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw one value."""
        return self._for(trial).sample_independent(study, trial, param_name, param_distribution)

    def _for(self, trial: FrozenTrial) -> TPESampler:
        if self._current is None or self._number != trial.number:
            seed = self._seed_of(trial)
            with experimental_is_fine():
                # Workers do not see each other's results, but that they are at work.
                self._current = TPESampler(seed=seed, multivariate=True, constant_liar=True)
            self._number = trial.number
        return self._current

    def _seed_of(self, trial: FrozenTrial) -> int:
        return derived_seed(self.seed, "trial", trial.number) % HIGHEST_SEED


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))
