"""Verdicts on the regression targets of a task with features, without a network."""

from __future__ import annotations

import numpy as np
import torch

from discrimloss.auditing.out_of_fold.own_estimator import OwnEstimator
from discrimloss.auditing.out_of_fold.regression import out_of_fold_regression
from discrimloss.data.base import TaskData
from discrimloss.judging.find_label_errors import EASY_ERRORS, FEWEST_SAMPLES, verdict_codes
from discrimloss.judging.judgeable import with_mean_probability
from discrimloss.judging.label_errors import note_on_given_rate
from discrimloss.judging.target_density import never_wrong
from discrimloss.judging.verdicts import Verdicts

NOT_PREDICTED = "These inputs do not predict the target well enough: no target is called incorrect."


def is_regression_on_features(task: TaskData) -> bool:
    """Return whether a task has regression targets, and features as inputs."""
    return task.is_regression and len(task.input_shape) == 1


def regression_verdicts(
    task: TaskData,
    seed: int,
    own: OwnEstimator | None = None,
    noise_rate: float | None = None,
) -> tuple[Verdicts, str]:
    """Return verdicts on all targets, with out-of-fold predictions as suggestions, and the models.

    If all targets are whole numbers, so are the suggestions. A target is easy if it is within twice
    the median absolute error of its prediction.

    Args:
        task: the task. `is_regression_on_features` is true for it, or there is an `own` regressor.
        seed: seed of the folds and the models.
        own: the user's regressor, to predict the targets.
        noise_rate: the fraction of wrong targets, if it is known. By default it is estimated.
    """
    given = task.train.target.double().numpy()
    features = np.zeros((len(given), 1))
    if is_regression_on_features(task):
        features = task.train.inputs.rows(torch.arange(len(given))).double().numpy()
    found = out_of_fold_regression(features, given, seed, own)
    error = np.abs(given - found.prediction)
    suggested, score, notes = (
        found.prediction,
        found.score,
        [f"targets are predicted out of fold by {found.models}"],
    )
    if (given == np.round(given)).all():
        suggested = np.round(suggested)
    can_judge = found.can_judge
    if noise_rate is not None:
        estimate = float(torch.from_numpy(score).sigmoid().mean()) if can_judge else None
        notes.append(note_on_given_rate(noise_rate, estimate))
        score = with_mean_probability(torch.from_numpy(score), noise_rate).double().numpy()
        can_judge = True
    score = np.where(suggested == given, np.minimum(score, 0.0), score)
    if len(given) < FEWEST_SAMPLES:
        can_judge, score = False, never_wrong(score)
        notes.append(f"{len(given)} targets are too few for an audit: {FEWEST_SAMPLES} are needed.")
    elif not can_judge:
        notes.append(NOT_PREDICTED)
    log_odds = score.astype(np.float32)
    p_incorrect = torch.from_numpy(log_odds).sigmoid().numpy()
    agrees = torch.from_numpy(error <= EASY_ERRORS * np.median(error))
    verdicts = Verdicts(
        code=verdict_codes(agrees, p_incorrect, can_judge),
        p_incorrect=p_incorrect,
        score=log_odds,
        average_loss=error.astype(np.float32),
        suggested_label=suggested,
        noise_interval=found.noise_interval if can_judge and noise_rate is None else None,
        notes=tuple(notes),
        can_tell_noise=can_judge,
    )
    return verdicts, f"{found.models}; cross-validation"
