"""The study that workers share: made once, joined by all who search the same, counted exactly."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.pruners import MedianPruner
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from discrimloss.errors import DiscrimLossError
from discrimloss.training.run_directory import flat
from discrimloss.tuning.request import TuneRequest
from discrimloss.tuning.sampler import NumberedDraws
from discrimloss.tuning.search_space import combinations, own_values
from discrimloss.tuning.storage import experimental_is_fine, open_storage, shown, storage_errors

SETTINGS = "settings"
"""Of a study: what its workers agree on. Of a trial: what was set in it."""
AS_IT_IS = "recipe as it is"
SURPLUS = "surplus"
WHY = "why"
TEST = "test"
"""The oracle's figure of a trial."""
SECONDS_TO_SETTLE = 10.0
"""For the one who made a study to write down its settings."""
WORKER = "worker"
SETTLED = (TrialState.COMPLETE, TrialState.PRUNED)
OPEN = (TrialState.RUNNING, TrialState.WAITING)


def open_study(request: TuneRequest) -> Study:
    """Make a study, or join one that searches the same.

    Its first trial is the recipe as it is: whatever is found can be compared with it.

    Raises:
        DiscrimLossError: the storage cannot be used, or the study there is another one.
    """
    storage = open_storage(request.storage, request.lost_after)
    epochs = request.config.epochs
    options: dict[str, Any] = {
        "study_name": request.study,
        "storage": storage,
        "sampler": NumberedDraws(request.config.seed, combinations(request.space)),
        # The first half of a run says little about DiscrimLoss, which changes its mind in it.
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
            study.set_user_attr(SETTINGS, request.settings())  # last: now others may join
    return study


def _require_same_settings(study: Study, request: TuneRequest) -> None:
    wanted = json.loads(json.dumps(request.settings()))
    deadline = time.monotonic() + SECONDS_TO_SETTLE
    while (saved := study.user_attrs.get(SETTINGS)) is None:
        if time.monotonic() > deadline:
            raise DiscrimLossError(
                f"study {request.study!r} in {shown(request.storage)} is not one of "
                "`discrimloss tune`, or was killed as it began: name another with --study"
            )
        time.sleep(0.1)
    before, now = dict(flat(saved)), dict(flat(wanted))
    changed = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    if changed:
        told = ", ".join(f"{k} was {before.get(k)!r}, now {now.get(k)!r}" for k in changed[:3])
        raise DiscrimLossError(
            f"study {request.study!r} in {shown(request.storage)} searches something else "
            f"({told}): give the same settings, or name another with --study"
        )


@dataclass(frozen=True)
class Standing:
    """How far a study is."""

    complete: int
    pruned: int
    failed: int
    """Interrupted, or of workers that died. Each is made up for by another trial."""
    running: int
    best: FrozenTrial | None

    @property
    def settled(self) -> int:
        """Trials that came to an end, which are the ones that count."""
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
    """The trial with the highest score; of several, the first."""
    return max(complete, key=lambda t: (t.value, -t.number), default=None)


def is_surplus(study: Study, number: int, trials: int) -> bool:
    """Whether a trial that has just begun is one too many.

    Several workers may see room for one more trial at once. Numbers are given one by one, so the
    lower ones have it.
    """
    others = study.get_trials(deepcopy=False, states=(*SETTLED, *OPEN))
    return sum(other.number < number for other in others) >= trials


def give_up_lost_trials(study: Study) -> None:
    """Count the trials of dead workers as failed, and put them up to be begun again."""
    with experimental_is_fine():
        optuna.storages.fail_stale_trials(study)


def begin_again(study: Study, number: int) -> None:
    """Put the values of a trial that was interrupted up to be tried again."""
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
