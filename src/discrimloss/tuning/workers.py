"""Workers that run the trials of a study: in this process, in several, or on many machines."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from optuna import Trial
from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import Study

from discrimloss.data.base import TaskData
from discrimloss.errors import DiscrimLossError
from discrimloss.training.grid import process_context, stop_with_parent
from discrimloss.training.interruption import Interrupted, stop_on_signals
from discrimloss.training.local_data import load_data
from discrimloss.tuning.request import TuneRequest
from discrimloss.tuning.storage import storage_errors
from discrimloss.tuning.study import (
    SURPLUS,
    Standing,
    begin_again,
    give_up_lost_trials,
    is_surplus,
    open_study,
    standing,
)
from discrimloss.tuning.trial import run_trial
from discrimloss.tuning.worker_processes import PROCESS, own_process

POLL_SECONDS = 0.5
IMPORTED_ONCE = (
    "discrimloss.tuning.workers",
    "alembic.command",
    "pandas",
    "sklearn.datasets",
    "sqlalchemy.orm",
    "torch._dynamo",
)
"""Modules that all workers need and that are slow to import. Missing ones are left out."""
Watch = Callable[[Standing], None]


class _SurplusError(DiscrimLossError):
    """Another worker has begun the last trial of the study."""


def work(
    request: TuneRequest, watch: Watch = lambda _: None, *, task: TaskData | None = None
) -> Study:
    """Run trials until the study, including the trials of other workers, has the requested number.

    Args:
        request: the search.
        watch: called before and after every trial, with the `Standing` of the study.
        task: the data. The default is the dataset of the recipe.

    Raises:
        DiscrimLossError: the storage cannot be used, or its study has other settings.
        KeyboardInterrupt: the user stopped the search. The same request continues the study.
    """
    with storage_errors(request.storage):
        study = open_study(request)
        task = load_data(request.config, request.data) if task is None else task
        give_up_lost_trials(study, request.lost_after)
        while True:
            now = standing(study)
            watch(now)
            if now.settled >= request.trials:
                return study
            if now.settled + now.running >= request.trials:
                time.sleep(POLL_SECONDS)  # other workers run the remaining trials, unless they died
                give_up_lost_trials(study, request.lost_after)
                continue
            _run_one(study, request, task)


def _run_one(study: Study, request: TuneRequest, task: TaskData) -> None:
    was_given_away = False
    begun: list[int] = []

    def objective(trial: Trial) -> float:
        nonlocal was_given_away
        if is_surplus(study, trial.number, request.trials):
            trial.set_user_attr(SURPLUS, True)
            raise _SurplusError
        trial.set_user_attr(PROCESS, [trial.number, *own_process()])
        begun.append(trial.number)
        try:
            return run_trial(trial, request, task)
        except UpdateFinishedTrialError:
            was_given_away = True
            raise

    try:
        study.optimize(objective, n_trials=1, catch=(_SurplusError,))
    except KeyboardInterrupt:
        for number in begun:
            begin_again(study, number)
        raise
    except ValueError:
        # This machine was suspended for so long that other workers took over the trial.
        if not was_given_away:
            raise


def work_together(request: TuneRequest, jobs: int, watch: Watch = lambda _: None) -> Study:
    """Run trials in several processes on this machine. Return when the study is finished.

    Raises:
        DiscrimLossError: trials are missing, because a worker failed or all workers were killed.
        Interrupted: the user stopped the search. The workers have stopped too.
    """
    study = open_study(request)
    context = process_context(IMPORTED_ONCE)
    errors = context.SimpleQueue()
    shared = request
    if request.config.threads == 0:  # one thread per core, divided among the workers
        threads = max(1, (os.cpu_count() or 1) // jobs)
        shared = replace(request, config=replace(request.config, threads=threads))
    processes = [context.Process(target=_worker, args=(shared, errors)) for _ in range(jobs)]
    with stop_on_signals():
        try:
            for process in processes:
                process.start()
            while any(process.is_alive() for process in processes):
                with storage_errors(request.storage):
                    watch(standing(study))
                time.sleep(POLL_SECONDS)
        finally:
            for process in processes:
                if process.is_alive():
                    process.terminate()  # it ends after this step, and its trial is repeated
            for process in processes:
                if process.pid is not None:
                    process.join()
    now = standing(study)
    watch(now)
    if now.settled < request.trials:
        if not errors.empty():
            raise DiscrimLossError(errors.get())
        raise DiscrimLossError(
            f"all workers were killed, {request.trials - now.settled} of {request.trials} trials "
            "are missing: the same command continues"
        )
    return study


def _worker(request: TuneRequest, errors: Any) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stop_with_parent()
    try:
        work(request)
    except DiscrimLossError as error:
        errors.put(str(error))
        sys.exit(2)
    except (KeyboardInterrupt, Interrupted):
        sys.exit(130)
