"""The study that workers share. The first worker creates it; workers with equal settings join."""

from __future__ import annotations

import datetime
import json
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.pruners import MedianPruner
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from discrimloss.errors import DiscrimLossError
from discrimloss.training.run_directory import changed_settings
from discrimloss.training.seeds import derived_seed
from discrimloss.tuning.request import TuneRequest
from discrimloss.tuning.search_space import combinations, own_values
from discrimloss.tuning.storage import (
    experimental_is_fine,
    open_storage,
    repeat_lost_trial,
    shown,
    storage_errors,
    trials_with_heartbeat,
)
from discrimloss.tuning.worker_processes import PROCESS, has_died

SETTINGS = "settings"
"""Name of the attribute for settings: of a study, those that all workers share; or of a trial."""
AS_IT_IS = "recipe as it is"
SURPLUS = "surplus"
WHY = "why"
TEST = "test"
"""Name of the attribute for the test metric of a trial, which only the oracle uses."""
SECONDS_TO_SETTLE = 10.0
"""Seconds to wait until the creator of a study has written its settings."""
WORKER = "worker"
SETTLED = (TrialState.COMPLETE, TrialState.PRUNED)
OPEN = (TrialState.RUNNING, TrialState.WAITING)
HIGHEST_SEED = 2**32
COUNTED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)


def open_study(request: TuneRequest) -> Study:
    """Create a study, or join one with equal settings.

    Its first trial is the unchanged recipe, for comparison.

    Raises:
        DiscrimLossError: the storage cannot be used, or its study has other settings.
    """
    storage = open_storage(request.storage, request.lost_after)
    epochs = request.config.epochs
    options: dict[str, Any] = {
        "study_name": request.study,
        "storage": storage,
        "sampler": NumberedDraws(request.config.seed, combinations(request.space)),
        # DiscrimLoss switches stages in the first half of a run, so no trial is pruned in it.
        "pruner": MedianPruner(n_startup_trials=5, n_warmup_steps=max(1, epochs // 2)),
    }
    with storage_errors(request.storage):
        try:
            study = optuna.create_study(direction="maximize", **options)
        except optuna.exceptions.DuplicatedStudyError:
            study = optuna.load_study(**options)
            _require_same_settings(study, request)
        else:
            own = own_values(request.config, request.space)
            study.enqueue_trial(own, user_attrs={AS_IT_IS: len(own) == len(request.space)})
            study.set_user_attr(SETTINGS, request.settings())  # last: after this, others may join
    return study


def _require_same_settings(study: Study, request: TuneRequest) -> None:
    wanted = json.loads(json.dumps(request.settings()))
    deadline = time.monotonic() + SECONDS_TO_SETTLE
    while (saved := study.user_attrs.get(SETTINGS)) is None:
        if time.monotonic() > deadline:
            raise DiscrimLossError(
                f"study {request.study!r} in {shown(request.storage)} is not one of "
                "`discrimloss tune`, or was killed as it began: choose another with --study"
            )
        time.sleep(0.1)
    if differences := changed_settings(saved, wanted):
        raise DiscrimLossError(
            f"study {request.study!r} in {shown(request.storage)} searches something else "
            f"({differences}): give the same settings, or choose another with --study"
        )


@dataclass(frozen=True)
class Standing:
    """The numbers of trials of a study, and the best trial."""

    complete: int
    pruned: int
    failed: int
    """Number of trials that were interrupted or whose worker died. Another trial replaces each."""
    running: int
    best: FrozenTrial | None

    @property
    def settled(self) -> int:
        """Number of complete and pruned trials, which count towards the requested number."""
        return self.complete + self.pruned


def standing(study: Study) -> Standing:
    """Count the trials of all workers."""
    trials = [t for t in study.get_trials(deepcopy=False) if SURPLUS not in t.user_attrs]
    complete = [t for t in trials if t.state == TrialState.COMPLETE]
    states = [t.state for t in trials]
    return Standing(
        len(complete),
        states.count(TrialState.PRUNED),
        states.count(TrialState.FAIL),
        states.count(TrialState.RUNNING),
        best_of(complete),
    )


def best_of(complete: list[FrozenTrial]) -> FrozenTrial | None:
    """Return the trial with the highest score. Of trials with equal scores, return the first."""
    return max(complete, key=lambda t: (t.value, -t.number), default=None)


def is_surplus(study: Study, number: int, trials: int) -> bool:
    """Return whether a trial that has just started exceeds the requested number.

    Several workers may start a last trial at once. The trial with the lowest number counts.
    """
    others = study.get_trials(deepcopy=False, states=(*SETTLED, *OPEN))
    return sum(other.number < number for other in others) >= trials


def give_up_lost_trials(study: Study, lost_after: int) -> None:
    """Mark the trials of dead workers as failed, and enqueue them again.

    A worker counts as dead in three cases: its process on this machine has ended; its last
    heartbeat is older than `lost_after` seconds; or its trial began that long ago and never had a
    heartbeat. The third case is for workers that were killed before their first heartbeat. Optuna
    alone would wait for them forever.
    """
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    dead = [t for t in running if has_died(_process(t))]
    silent = [t for t in running if _process(t) is None and _age(t) > lost_after]
    if silent:
        beating = trials_with_heartbeat(study)
        dead += [t for t in silent if t._trial_id not in beating]
    for trial in dead:
        try:
            study.tell(trial.number, state=TrialState.FAIL)
        except (ValueError, RuntimeError):  # another worker was faster
            continue
        repeat_lost_trial(study, trial)
    with experimental_is_fine():
        optuna.storages.fail_stale_trials(study)


def _process(trial: FrozenTrial) -> list[str | int] | None:
    """Return the process that runs a trial, or None if unknown."""
    number, *process = trial.user_attrs.get(PROCESS) or (None,)
    # A repeated trial starts with a copy of the original's process.
    return process if number == trial.number else None


def _age(trial: FrozenTrial) -> float:
    """Return the seconds since a trial started."""
    began = trial.datetime_start
    return 0.0 if began is None else (datetime.datetime.now() - began).total_seconds()


def begin_again(study: Study, number: int) -> None:
    """Enqueue the values of an interrupted trial, to repeat it."""
    trial = next(t for t in study.get_trials(deepcopy=False) if t.number == number)
    study.add_trial(
        optuna.create_trial(
            state=TrialState.WAITING,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs={AS_IT_IS: trial.user_attrs.get(AS_IT_IS, False)},
            system_attrs=trial.system_attrs,
        )
    )


class NumberedDraws(BaseSampler):
    """Optuna's TPE sampler, with a random seed that depends on the number of the trial.

    With a single seed, workers that start together would all draw the same values, and a continued
    search would draw its first values again. With a seed per trial, a search by one worker draws
    the same values whether it is interrupted or not.

    In a finite space, no combination is repeated before all combinations have been tried.

    Args:
        seed: seed of the search.
        combinations: all combinations of a finite space. Empty for any other space.
    """

    def __init__(self, seed: int, combinations: Sequence[dict[str, Any]] = ()) -> None:
        self.seed = seed
        self.combinations = combinations
        self._number: int | None = None
        self._current: TPESampler | None = None

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that are drawn together: those that all finished trials share."""
        if self.combinations:
            return {
                key: CategoricalDistribution(_distinct(one[key] for one in self.combinations))
                for key in self.combinations[0]
            }
        return self._for(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draw the values of several parameters together."""
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
        """Draw the value of one parameter."""
        return self._for(trial).sample_independent(study, trial, param_name, param_distribution)

    def _for(self, trial: FrozenTrial) -> TPESampler:
        if self._current is None or self._number != trial.number:
            seed = self._seed_of(trial)
            with experimental_is_fine():
                # The constant liar keeps simultaneous workers from drawing similar values.
                self._current = TPESampler(seed=seed, multivariate=True, constant_liar=True)
            self._number = trial.number
        return self._current

    def _seed_of(self, trial: FrozenTrial) -> int:
        return derived_seed(self.seed, "trial", trial.number) % HIGHEST_SEED


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))
