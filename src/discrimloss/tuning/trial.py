"""A trial: a training run with drawn settings. It is pruned if other trials are better."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import replace
from pathlib import Path

import torch
from optuna import Trial, TrialPruned

from discrimloss.data.base import TaskData
from discrimloss.training.config import RunConfig
from discrimloss.training.interruption import Interrupted, stop_on_signals
from discrimloss.training.loop import NonFiniteLossError, TrainingLoop
from discrimloss.training.records import Row
from discrimloss.training.run import build_accelerator, prepare_run
from discrimloss.training.run_directory import NoDirectory
from discrimloss.tuning.request import TuneRequest, epoch_score, oracle_metric, trial_score
from discrimloss.tuning.search_space import with_values
from discrimloss.tuning.study import SETTINGS, TEST, WHY, WORKER


def run_trial(trial: Trial, request: TuneRequest, task: TaskData) -> float:
    """Train with the values that the trial suggests, and return its score.

    Raises:
        TrialPruned: other trials were better at this epoch, or the loss is not finite.
        KeyboardInterrupt: the user stopped the search; Optuna marks the trial as failed.
    """
    values = {key: searched.draw(trial, key) for key, searched in request.space.items()}
    trial.set_user_attr(SETTINGS, values)
    trial.set_user_attr(WORKER, f"{platform.node()}:{os.getpid()}")
    config = replace(with_values(request.config, values), tensorboard=False, traced_samples=0)
    watcher = _Watcher(trial, config.epochs, task.is_regression)
    try:
        history = _train(config, request.data, task, watcher)
    except NonFiniteLossError as error:
        trial.set_user_attr(WHY, str(error))
        raise TrialPruned(str(error)) from error
    except Interrupted as error:
        trial.set_user_attr(WHY, "interrupted")
        raise KeyboardInterrupt from error
    return trial_score(history, task.is_regression)


def _train(config: RunConfig, data: Path, task: TaskData, watcher: _Watcher) -> list[Row]:
    """Train all epochs of a run. Skip the verdicts, which take longer than a small run itself."""
    if config.threads > 0:
        torch.set_num_threads(config.threads)
    accelerator = build_accelerator(config)
    prepared = prepare_run(config, data, task=task)
    with stop_on_signals() as stop:
        loop = TrainingLoop(
            config, prepared.method, prepared.splits, accelerator, NoDirectory(), stop, watcher
        )
        return loop.run()


class _Watcher:
    """Reports every epoch to Optuna, and stops the run if Optuna prunes the trial."""

    def __init__(self, trial: Trial, epochs: int, is_regression: bool) -> None:
        self.trial = trial
        self.epochs = epochs
        self.is_regression = is_regression

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        """Do nothing: scores are reported once an epoch."""

    def on_epoch(self, row: Row) -> None:
        """Report the score on the noisy labels. The test metric is only stored."""
        score, epoch = epoch_score(row, self.is_regression), int(row["epoch"])
        if not math.isfinite(score):
            self.trial.set_user_attr(WHY, f"the validation score of epoch {epoch} is {score}")
            raise TrialPruned(f"epoch {epoch}")
        self.trial.report(score, epoch)
        is_last = epoch == self.epochs
        if is_last:
            test = oracle_metric(row, self.is_regression)
            if test is not None and math.isfinite(test):
                self.trial.set_user_attr(TEST, test)
        elif self.trial.should_prune():
            self.trial.set_user_attr(WHY, f"below the median of the trials at epoch {epoch}")
            raise TrialPruned(f"epoch {epoch}")
