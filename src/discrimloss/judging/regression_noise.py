"""Estimates the probabilities that regression targets are wrong from a model's predictions.

A correct target scatters around its prediction. The scatter depends on the prediction (for example,
the ages of children are predicted more precisely than those of old people), and has heavier tails
than a normal distribution. A wrong target is independent of its prediction: it is drawn from the
distribution of all targets. Both distributions and the fraction of wrong targets are fitted by
maximum likelihood. Targets are replaced by normal scores of their ranks. So only their order
matters, not their unit, their distribution or the size of extreme values.

Wrong targets affect the predictions too. If a fraction ``r`` of the targets is drawn from all
targets, a model learns ``1 - r`` times the deviation from the mean. So predictions are stretched by
``1 / (1 - r)``. Without this constraint, every target far from its prediction looks wrong, and a
poor model finds noise everywhere.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from discrimloss.judging.label_errors import LabelErrors
from discrimloss.judging.optimization import bisect_root
from discrimloss.judging.target_mixture import TargetMixture, log_student, noise_rate

MOST_FITTED = 50_000
"""Samples in a fit."""
LEAST_CORRELATION = 0.2
"""Minimum correlation of predictions and targets. With less, wrong targets are not detectable."""
NEVER = 20.0
"""Minus the log-odds of a target that is never called wrong."""
LARGEST_PULL = 2.0
STARTS = (-3.0, -1.0, 0.5)
"""Starting points: log-odds of the noise rate."""


def estimate_target_errors(predicted: Tensor, given: Tensor, is_held_out: Tensor) -> LabelErrors:
    """Estimate which regression targets are wrong.

    The model assumes that a wrong target is drawn from the distribution of all targets. If wrong
    targets are far outside of that distribution instead, only some of them are found.

    Args:
        predicted: shape (samples,): mean predictions.
        given: shape (samples,).
        is_held_out: shape (samples,), bool: samples that the model was not trained on. If there are
            none, all count as held out. Memorisation pulls the predictions of training samples
            towards their targets. This is undone so that both groups have the same noise rate.

    Returns:
        The estimates. If predictions and targets hardly correlate, all scores are far below zero
        and there is no noise interval. There is also none if it would be wider than 0.5.
    """
    if not is_held_out.any():
        is_held_out = torch.ones_like(is_held_out)
    scores = NormalScores(given)
    prediction, target = scores(predicted), scores(given)
    everything = _Likelihood(prediction, target)
    order = torch.randperm(len(target), generator=torch.Generator().manual_seed(0))
    problem = everything.subset(order[is_held_out[order]][:MOST_FITTED])
    parameters = problem.solve()
    trained = order[~is_held_out[order]][:MOST_FITTED]
    if len(trained):
        pull = everything.subset(trained).pull_for(problem.noise_rate(parameters), parameters)
        undone = everything.pulled_back(pull).prediction
        everything = _Likelihood(torch.where(is_held_out, prediction, undone), target)
    correct, incorrect = everything.log_components(parameters)
    score = incorrect - correct
    suggested = scores.inverse(everything.centre(parameters)).to(given.dtype)
    # At an end of the range of targets, no closer target can be suggested.
    score = torch.where(suggested == given, score.clamp(max=0.0), score)
    interval = None
    if _correlation(problem.prediction, problem.target) < LEAST_CORRELATION:
        score = score - score.max() - NEVER  # same order, and no target is called wrong
    else:
        interval = problem.noise_interval(parameters, score.sigmoid())
    return LabelErrors(score.float(), suggested, interval)


class NormalScores:
    """Maps targets to normal scores, by their rank among the given targets."""

    def __init__(self, given: Tensor) -> None:
        self.targets, counts = np.unique(given.double().numpy(), return_counts=True)
        middle = (np.cumsum(counts) - counts / 2) / counts.sum()
        self.scores = torch.special.ndtri(torch.from_numpy(middle)).numpy()

    def __call__(self, targets: Tensor) -> Tensor:
        """Return the scores of targets, within the range of the given ones."""
        return torch.from_numpy(np.interp(targets.double().numpy(), self.targets, self.scores))

    def inverse(self, scores: Tensor) -> Tensor:
        """Return the targets with these scores, within the range of the given ones."""
        return torch.from_numpy(np.interp(scores.numpy(), self.scores, self.targets))


def _correlation(first: Tensor, second: Tensor) -> float:
    if len(first) < 2:
        return 0.0
    first, second = first - first.mean(), second - second.mean()
    size = float(first.norm() * second.norm())
    return float(first @ second) / size if size else 0.0


class _Likelihood(TargetMixture):
    """The likelihood of targets as a function of six parameters.

    The parameters are: the log scale of the errors, its linear and quadratic change with the
    prediction, the weight of the tails, a shift of the predictions, and the log-odds of the noise
    rate.

    Args:
        prediction: shape (samples,), float64, as normal scores.
        target: shape (samples,), float64, as normal scores.
    """

    def __init__(self, prediction: Tensor, target: Tensor) -> None:
        self.prediction, self.target = prediction, target

    def __len__(self) -> int:
        return len(self.target)

    def subset(self, rows: Tensor) -> _Likelihood:
        """Return the likelihood of some of the samples."""
        return _Likelihood(self.prediction[rows], self.target[rows])

    def starts(self) -> list[Tensor]:
        """Return the starting parameters of the fit."""
        return [torch.tensor([-1.0, 0, 0, 1.0, 0, odds], dtype=torch.float64) for odds in STARTS]

    def pulled_back(self, pull: float) -> _Likelihood:
        """Return the likelihood with the errors of predictions enlarged by this fraction."""
        farther = self.target + (self.prediction - self.target) * (1.0 + pull)
        return _Likelihood(farther, self.target)

    def pull_for(self, rate: float, parameters: Tensor) -> float:
        """Return the fraction by which errors must be enlarged to yield this noise rate.

        Memorisation makes the errors of training samples too small. See `pulled_back`.
        """

        def rate_with(pull: float) -> float:
            return self.pulled_back(pull).noise_rate(parameters)

        return bisect_root(rate, rate_with, LARGEST_PULL)

    def centre(self, parameters: Tensor) -> Tensor:
        """Return the expected values of correct targets."""
        return parameters[4] + self.prediction / (1.0 - noise_rate(parameters))

    def log_densities(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density of each target if it is correct, and if it is incorrect."""
        place = self.prediction.clamp(-3.0, 3.0)  # the growth of errors is unknown further out
        log_scale = parameters[0] + parameters[1] * place + parameters[2] * place.square()
        correct = log_student(self.target - self.centre(parameters), log_scale, parameters[3])
        return correct, -0.5 * (self.target.square() + math.log(2 * math.pi))

    def log_prior(self, parameters: Tensor) -> Tensor:
        """Return the log prior: errors of a third of the standard deviation, with light tails."""
        prior = 0.5 * ((parameters[0] + 1.0).square() + parameters[1].square())
        prior = prior + 2.0 * parameters[2].square()
        return -prior - 0.25 * (parameters[3] - 2.0).square()
