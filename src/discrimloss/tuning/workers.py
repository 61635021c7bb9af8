"""Who runs the trials: this process, several on this machine, or any number on many."""

from __future__ import annotations

import multiprocessing
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
from discrimloss.training.interruption import Interrupted, stop_on_signals
from discrimloss.training.run import load_data
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

POLL_SECONDS = 0.5
IMPORTED_ONCE = (
    "discrimloss.tuning.workers",
    "alembic.command",
    "pandas",
    "sklearn.datasets",
    "sqlalchemy.orm",
    "torch._dynamo",
)
"""What each worker would import for itself, seconds each, at its first trial. It is no mistake if
one of them is not there."""
Watch = Callable[[Standing], None]


class _SurplusError(DiscrimLossError):
    """Another worker has begun the last trial that was wanted."""


def work(
    request: TuneRequest, watch: Watch = lambda _: None, *, task: TaskData | None = None
) -> Study:
    """Run trials until the study has as many as are wanted, those of other workers among them.

    Args:
        request: the search.
        watch: is told how far the study is, before and after every trial.
        task: the data, where it is at hand.

    Raises:
        DiscrimLossError: the storage cannot be used, or the study there is another one.
        KeyboardInterrupt: someone stopped it. The study goes on with the same request.
    """
    with storage_errors(request.storage):
        study = open_study(request)
        task = load_data(request.config, request.data) if task is None else task
        while True:
            now = standing(study)
            watch(now)
            if now.settled >= request.trials or _is_orphan():
                return study
            if now.settled + now.running >= request.trials:
                time.sleep(POLL_SECONDS)  # others are at the rest, unless they died
                give_up_lost_trials(study)
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
        # This machine slept so long that others took it for dead; the trial is theirs now.
        if not was_given_away:
            raise


def _is_orphan() -> bool:
    """Whether this worker was started by a command that was killed."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


def work_together(request: TuneRequest, jobs: int, watch: Watch = lambda _: None) -> Study:
    """Run trials in several processes on this machine; returns when the study is done.

    Raises:
        DiscrimLossError: all workers ended, and trials are missing; or what the first of them said.
        Interrupted: someone stopped it, and the workers with it.
    """
    study = open_study(request)
    context = _process_context()
    complaints = context.SimpleQueue()
    shared = request
    if request.config.threads == 0:  # as many threads as there are cores, not times the workers
        threads = max(1, (os.cpu_count() or 1) // jobs)
        shared = replace(request, config=replace(request.config, threads=threads))
    processes = [context.Process(target=_worker, args=(shared, complaints)) for _ in range(jobs)]
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
                    process.terminate()  # stops after its step, and notes that the trial failed
            for process in processes:
                if process.pid is not None:
                    process.join()
    now = standing(study)
    watch(now)
    if now.settled < request.trials:
        if not complaints.empty():
            raise DiscrimLossError(complaints.get())
        raise DiscrimLossError(
            f"all workers were killed, {request.trials - now.settled} of {request.trials} trials "
            "are missing: the same command goes on"
        )
    return study


def _process_context() -> Any:
    """Processes that import everything once, and are safe beside the threads of torch."""
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(list(IMPORTED_ONCE))
    return context


def _worker(request: TuneRequest, complaints: Any) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        work(request)
    except DiscrimLossError as error:
        complaints.put(str(error))
        sys.exit(2)
    except (KeyboardInterrupt, Interrupted):
        sys.exit(130)
