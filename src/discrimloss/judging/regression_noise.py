"""How likely is each number wrong, judged from what a model predicted?

A right number scatters around its prediction; how far depends on the prediction (ages of children
are told more exactly than those of the old) and has heavier tails than a normal distribution. A
wrong one has nothing to do with its prediction and is drawn from among all numbers. Both parts and
the share of the second are fitted by maximum likelihood. Numbers count by their rank, as normal
scores: so nothing depends on their unit or their distribution, and absurd ones are just the last.

The share of wrong numbers shows once more, in the predictions: of labels of which a share ``r`` is
drawn from all, a model learns ``(1 - r)`` times the deviation from the mean. So predictions are
stretched by ``1 / (1 - r)``. Without that tie every number far from its prediction looks wrong, and
a poor model sees noise everywhere.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from discrimloss.judging.label_judgement import LabelJudgement
from discrimloss.judging.minimizing import minimize, where_it_reaches
from discrimloss.judging.noise_model import ITERATIONS, TOLERANCE

MOST_FITTED = 50_000
MOST_EXACT = math.log(1e-4)  # of the scale of errors: predictions that hit numbers exactly
HIGHEST_RATE = 0.8
RIGHT_BEFOREHAND = 20.0  # as if so many samples had been seen to be right
FEWEST_KNOWN = 0.2  # correlation of predictions and numbers below which nothing is known
NEVER = 20.0  # log-odds of a label that is not wrong
LARGEST_PULL = 2.0
STARTS = (-3.0, -1.0, 0.5)  # log-odds of the share of wrong numbers


def judge_numbers(
    predicted: Tensor, given: Tensor, is_held_out: Tensor, least_noise: float = 0.0
) -> LabelJudgement:
    """Judge the labels of a regression.

    Args:
        predicted: shape (samples,): mean predictions.
        given: shape (samples,).
        is_held_out: shape (samples,), bool: who was not learned from; all are taken for it where
            nobody was. What memorising has pulled the others' predictions towards their labels is
            taken back, as far as makes their share of wrong numbers the same.
        least_noise: the share of wrong numbers that was seen before; if fewer are seen now, the
            others have been memorised, and that is taken back as well.
    """
    if not is_held_out.any():
        is_held_out = torch.ones_like(is_held_out)
    scores = _NormalScores(given)
    prediction, number = scores(predicted), scores(given)
    everything = _Likelihood(prediction, number)
    order = torch.randperm(len(number), generator=torch.Generator().manual_seed(0))
    held = order[is_held_out[order]][:MOST_FITTED]
    problem = everything.some(held)
    fitted = [
        minimize(problem.objective, problem.start(odds), ITERATIONS, TOLERANCE) for odds in STARTS
    ]
    parameters = min(fitted, key=lambda found: found[0])[1]
    learned = order[~is_held_out[order]][:MOST_FITTED]
    if len(learned):
        pull = everything.some(learned).pull_for(problem.share_wrong(parameters), parameters)
        undone = everything.pulled_back(pull).prediction
        everything = _Likelihood(torch.where(is_held_out, prediction, undone), number)
    if problem.share_wrong(parameters) < least_noise:
        everything = everything.pulled_back(problem.pull_for(least_noise, parameters))
    correct, incorrect = everything.log_parts(parameters)
    score = incorrect - correct
    if _correlation(problem.prediction, problem.number) < FEWEST_KNOWN:
        score = score - score.max() - NEVER  # the order is a guess, and nobody is accused by it
    suggested = scores.back(everything.centre(parameters))
    return LabelJudgement(score.float(), suggested.float())


class _NormalScores:
    """Numbers by their rank among the given ones: where they would be in a normal distribution."""

    def __init__(self, given: Tensor) -> None:
        self.numbers, counts = np.unique(given.double().numpy(), return_counts=True)
        middle = (np.cumsum(counts) - counts / 2) / counts.sum()
        self.scores = torch.special.ndtri(torch.from_numpy(middle)).numpy()

    def __call__(self, numbers: Tensor) -> Tensor:
        return torch.from_numpy(np.interp(numbers.double().numpy(), self.numbers, self.scores))

    def back(self, scores: Tensor) -> Tensor:
        """Numbers with these scores, within the range of the given ones."""
        return torch.from_numpy(np.interp(scores.numpy(), self.scores, self.numbers))


def _correlation(first: Tensor, second: Tensor) -> float:
    if len(first) < 2:
        return 0.0
    first, second = first - first.mean(), second - second.mean()
    size = float(first.norm() * second.norm())
    return float(first @ second) / size if size else 0.0


class _Likelihood:
    """Log scale of the errors and how it changes with the prediction, tails, shift, noise odds."""

    def __init__(self, prediction: Tensor, number: Tensor) -> None:
        self.prediction, self.number = prediction, number

    def some(self, rows: Tensor) -> _Likelihood:
        return _Likelihood(self.prediction[rows], self.number[rows])

    def share_wrong(self, parameters: Tensor) -> float:
        correct, incorrect = self.log_parts(parameters)
        return float((incorrect - correct).sigmoid().mean())

    def pulled_back(self, pull: float) -> _Likelihood:
        """With predictions that are farther from their labels, by this share of the distance."""
        farther = self.number + (self.prediction - self.number) * (1.0 + pull)
        return _Likelihood(farther, self.number)

    def pull_for(self, share: float, parameters: Tensor) -> float:
        """How far predictions must be pulled back for this share of wrong numbers."""

        def share_with(pull: float) -> float:
            return self.pulled_back(pull).share_wrong(parameters)

        return where_it_reaches(share, share_with, LARGEST_PULL)

    def start(self, odds: float) -> Tensor:
        return torch.tensor([-1.0, 0.0, 0.0, 1.0, 0.0, odds], dtype=torch.float64)

    def rate(self, parameters: Tensor) -> Tensor:
        return HIGHEST_RATE * torch.sigmoid(parameters[5])

    def centre(self, parameters: Tensor) -> Tensor:
        return parameters[4] + self.prediction / (1.0 - self.rate(parameters))

    def log_parts(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Log density of correct and of incorrect numbers, each with its share."""
        place = self.prediction.clamp(-3.0, 3.0)  # how errors grow is not known farther out
        log_scale = parameters[0] + parameters[1] * place + parameters[2] * place.square()
        log_scale = torch.logaddexp(log_scale, self.number.new_tensor(MOST_EXACT))
        tails = 1.5 + softplus(parameters[3])  # degrees of freedom of Student's distribution
        error = (self.number - self.centre(parameters)) / log_scale.exp()
        correct = torch.lgamma((tails + 1) / 2) - torch.lgamma(tails / 2)
        correct = correct - 0.5 * torch.log(tails * math.pi) - log_scale
        correct = correct - (tails + 1) / 2 * torch.log1p(error.square() / tails)
        wrong = -0.5 * (self.number.square() + math.log(2 * math.pi))
        rate = self.rate(parameters)
        return correct + torch.log1p(-rate), wrong + torch.log(rate)

    def objective(self, parameters: Tensor) -> Tensor:
        """Negative log posterior per sample; the priors weigh as much as a few samples."""
        correct, incorrect = self.log_parts(parameters)
        prior = 0.5 * ((parameters[0] + 1.0).square() + parameters[1].square())
        prior = prior + 2.0 * parameters[2].square()
        prior = prior + 0.25 * (parameters[3] - 2.0).square()
        # Where predictions say nothing, any share of wrong numbers would do: then it is none.
        prior = prior - RIGHT_BEFOREHAND * torch.log1p(-self.rate(parameters))
        likelihood = torch.logaddexp(correct, incorrect).sum()
        return (prior - likelihood) / len(self.number)
