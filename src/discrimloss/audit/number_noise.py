"""How likely is each number wrong, judged from what a model predicted?

A right number scatters around its prediction; how far depends on the prediction (ages of children
are told more exactly than those of the old) and has heavier tails than a normal distribution. A
wrong one has nothing to do with its prediction and is drawn from among all numbers. Both parts and
the share of the second are fitted by maximum likelihood.

The share of wrong numbers shows once more, in the predictions: of labels of which a share ``r`` is
drawn from all, a model learns ``(1 - r)`` times the deviation from the mean. So predictions are
stretched by ``1 / (1 - r)``. Without that tie every number far from its prediction looks wrong, and
a poor model sees noise everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from discrimloss.audit.noise_model import minimize

MOST_FITTED = 50_000
MOST_EXACT = math.log(1e-4)  # of the scale of errors: predictions that hit numbers exactly
GRID = 512  # places at which the density of all numbers is computed
FARTHEST = 0.02  # how much of it is spread over the whole range: no number is impossible
ABSURD = 10.0  # spreads from the middle: numbers farther out are absurd
HIGHEST_RATE = 0.8
RIGHT_BEFOREHAND = 20.0  # as if so many samples had been seen to be right
LARGEST_PULL = 2.0
BISECTIONS = 20
STARTS = (-3.0, -1.0, 0.5)  # log-odds of the share of wrong numbers


@dataclass(frozen=True)
class NumberJudgement:
    """What is thought of every number."""

    p_incorrect: Tensor
    """Shape (samples,), float32."""
    suggested: Tensor
    """Shape (samples,), float32: what the number would be, if it were wrong."""
    score: Tensor
    """Shape (samples,), float32: log-odds behind `p_incorrect`."""
    noise_rate: float


def judge_numbers(predicted: Tensor, given: Tensor, is_held_out: Tensor) -> NumberJudgement:
    """Judge the labels of a regression.

    Args:
        predicted: shape (samples,): mean predictions.
        given: shape (samples,).
        is_held_out: shape (samples,), bool: who was not learned from; all are taken for it where
            nobody was. What memorising has pulled the others' predictions towards their labels is
            taken back, as far as makes their share of wrong numbers the same.
    """
    if not is_held_out.any():
        is_held_out = torch.ones_like(is_held_out)
    scale = _Scale(given)
    prediction, number = scale(predicted), scale(given)
    wrong = _log_density(number)
    everything = _Likelihood(prediction, number, wrong)
    order = torch.randperm(len(number), generator=torch.Generator().manual_seed(0))
    held = order[is_held_out[order]][:MOST_FITTED]
    problem = everything.some(held)
    fitted = [minimize(problem.objective, problem.start(odds)) for odds in STARTS]
    parameters = min(fitted, key=lambda found: found[0])[1]
    learned = order[~is_held_out[order]][:MOST_FITTED]
    if len(learned):
        pull = _pull(everything.some(learned), parameters, problem.share_wrong(parameters))
        undone = number + (prediction - number) * (1.0 + pull)
        prediction = torch.where(is_held_out, prediction, undone)
        everything = _Likelihood(prediction, number, wrong)
    correct, incorrect = everything.log_parts(parameters)
    score = incorrect - correct
    suggested = everything.centre(parameters) * scale.spread + scale.middle
    suggested = suggested.clamp(float(given.min()), float(given.max()))  # nobody is minus two
    return NumberJudgement(
        p_incorrect=score.sigmoid().float(),
        suggested=suggested.float(),
        score=score.float(),
        noise_rate=float(score.sigmoid().mean()),
    )


def _pull(learned: _Likelihood, parameters: Tensor, rate: float) -> float:
    """How much farther from their labels predictions would be, had they not been learned from."""
    low, high = 0.0, LARGEST_PULL
    for _ in range(BISECTIONS):
        pull = (low + high) / 2
        low, high = (pull, high) if learned.pulled(pull, parameters) < rate else (low, pull)
    return (low + high) / 2


class _Scale:
    """Numbers around their mean, in units of their spread: starting values fit all units.

    Both leave absurd numbers out of account: those farther from the middle than ten spreads.
    """

    def __init__(self, numbers: Tensor) -> None:
        numbers = numbers.double()
        low, middle, high = np.quantile(numbers.numpy(), (0.25, 0.5, 0.75))
        width = ABSURD * float(high - low) / 1.349 or math.inf
        usual = numbers.clamp(float(middle) - width, float(middle) + width)
        self.middle = float(usual.mean())
        self.spread = float(usual.std(correction=0)) or 1.0

    def __call__(self, numbers: Tensor) -> Tensor:
        return (numbers.double() - self.middle) / self.spread


def _log_density(numbers: Tensor) -> Tensor:
    """Of all numbers, by a smoothed histogram; absurd ones count as far, and not as so far."""
    numbers = numbers.clamp(-ABSURD, ABSURD)
    spread = 0.9 * len(numbers) ** -0.2  # Silverman's rule; the numbers have a spread of 1
    # The grid reaches beyond the numbers: what is smoothed away over its ends would make equal
    # numbers infinitely dense.
    low, high = float(numbers.min()) - 4 * spread, float(numbers.max()) + 4 * spread
    width = (high - low) / GRID
    place = ((numbers - low) / width).long().clamp(0, GRID - 1)
    counts = torch.bincount(place, minlength=GRID).double()
    bandwidth = max(spread / width, 0.5)
    reach = min(math.ceil(4 * bandwidth), GRID - 1)
    kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / bandwidth).square()).double()
    smooth = torch.nn.functional.conv1d(
        counts[None, None], (kernel / kernel.sum())[None, None], padding=reach
    )[0, 0]
    density = smooth / smooth.sum() / width
    return torch.log((1 - FARTHEST) * density[place] + FARTHEST / (width * GRID))


class _Likelihood:
    """Log scale of the errors and how it changes with the prediction, tails, shift, noise odds."""

    def __init__(self, prediction: Tensor, number: Tensor, wrong: Tensor) -> None:
        self.prediction, self.number, self.wrong = prediction, number, wrong

    def some(self, rows: Tensor) -> _Likelihood:
        return _Likelihood(self.prediction[rows], self.number[rows], self.wrong[rows])

    def share_wrong(self, parameters: Tensor) -> float:
        correct, incorrect = self.log_parts(parameters)
        return float((incorrect - correct).sigmoid().mean())

    def pulled(self, pull: float, parameters: Tensor) -> float:
        """The share of wrong numbers, with predictions farther from their labels."""
        farther = self.number + (self.prediction - self.number) * (1.0 + pull)
        return _Likelihood(farther, self.number, self.wrong).share_wrong(parameters)

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
        rate = self.rate(parameters)
        return correct + torch.log1p(-rate), self.wrong + torch.log(rate)

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
