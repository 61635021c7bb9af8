"""Searches that tests make, and workers that meet, die or are pressed Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from discrimloss.recipes import load_recipe
from discrimloss.training.records import Row
from discrimloss.tuning import trial as trials
from discrimloss.tuning import workers
from discrimloss.tuning.parse_search import parse_search
from discrimloss.tuning.request import TuneRequest, searchable

SMALL = ("train_size=200", "epochs=2", "threads=1", "batch_size=32")


def request_for(
    directory: Path,
    *settings: str,
    search: tuple[str, ...] = (),
    trials: int = 3,
    lost_after: int = 60,
) -> TuneRequest:
    """A search on a few digits, kept in a directory."""
    config = searchable(load_recipe("digits", [*SMALL, *settings]))
    space = parse_search(config, search, settings)
    url = f"sqlite:///{directory / 'tune.db'}"
    return TuneRequest(config, space, Path(), url, "digits", trials, lost_after)


def ended(study: Study, *states: TrialState) -> list[FrozenTrial]:
    """The trials that ended so."""
    return study.get_trials(states=states or (TrialState.COMPLETE, TrialState.PRUNED))


def before_every_epoch(act: Callable[[int, int], None]) -> Any:
    """An `on_epoch` that first calls ``act(trial's number, epoch)``."""
    original = trials._Watcher.on_epoch

    def on_epoch(self: Any, row: Row) -> None:
        act(self.trial.number, int(row["epoch"]))
        original(self, row)

    return on_epoch


def send_in(number: int, which: signal.Signals) -> Callable[[int, int], None]:
    """Sends this process a signal in the first epoch of a trial."""

    def act(trial: int, epoch: int) -> None:
        if (trial, epoch) == (number, 1):
            os.kill(os.getpid(), which)

    return act


def work_until_killed(request: TuneRequest, number: int) -> None:
    """A worker that dies, as by `kill -9`, in the first epoch of a trial."""
    trials._Watcher.on_epoch = before_every_epoch(send_in(number, signal.SIGKILL))  # type: ignore[method-assign]
    workers.work(request)


def work_side_by_side(request: TuneRequest, barrier: Any) -> None:
    """A worker that waits in its first trial until all others are in one, too."""
    met: list[int] = []

    def act(trial: int, epoch: int) -> None:
        if not met:
            met.append(trial)
            barrier.wait(timeout=120)

    trials._Watcher.on_epoch = before_every_epoch(act)  # type: ignore[method-assign]
    workers.work(request)
