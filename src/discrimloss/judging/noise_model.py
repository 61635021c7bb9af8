"""How likely is each label wrong, and what would be right, judged from what a model predicted?

A loss alone cannot tell a hard sample from a wrong label; the whole prediction can. Where the model
is unsure, a label that it did not expect says little. Where it is sure, such a label is a mistake
of one of the two, and how often that happens among sure samples is the noise rate. So two things
are fitted to the labels as given, by maximum likelihood: how predictions translate into
probabilities of the true class (a sharpness and a bias per class), and how true classes turn into
given ones (a transition matrix, drawn towards uniform noise). Both together give each sample the
probabilities of its true class, given its prediction *and* its label.

Predictions of samples that a model learned from know their labels: it memorises. So all of that is
fitted to samples that were held out of the training. From the predictions of the others the
memorised part is taken away again: as much from the logit of each given label as makes their share
of wrong labels the same.

Where hardly anything wrong was memorised, to have learned a sample is a good sign: hard ones can be
learned, and wrong ones not. Then the others, fitted by themselves, show more wrong labels than
those held out do, and are judged by that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid

from discrimloss.judging.label_judgement import LabelJudgement
from discrimloss.judging.minimizing import minimize, where_it_reaches

MOST_CLASSES_WITH_OWN_NOISE = 100  # beyond, noise is uniform: there are too few samples per pair
PRIORS = (20.0, 2.0)  # how firmly the transition matrix is drawn towards uniform noise
MOST_COMPARED = 4000  # samples that tell which of the two it is
MOST_FITTED = 20_000  # samples: more make nothing more certain
MOST_FITTED_ENTRIES = 4_000_000  # samples times classes
RARE_NOISE = -3.0  # log-odds that the noise rate is weakly drawn to
STARTS = ((0.0, -2.0), (1.0, -1.0))  # log of the temperature's inverse, log-odds of the noise rate
LARGEST_LEAK = 3.0  # in standard deviations of the logits
ITERATIONS, TOLERANCE = 60, 1e-6
CHUNK = 1 << 22  # entries judged at once


@dataclass(frozen=True)
class NoiseModel:
    """What was fitted: from a mean prediction and a given label to the probable true class."""

    sharpness: float | Tensor
    """The logits are multiplied by it."""
    bias: Tensor
    """Shape (classes,), added to the logits."""
    log_transition: Tensor
    """Shape (classes, classes): log probability of a given label, for each true one."""
    leak: float | Tensor = 0.0
    """What memorising a label has added to its logit."""

    def log_joint(self, logits: Tensor, given: Tensor) -> Tensor:
        """Shape (samples, classes): log probability of true class and given label together."""
        logits = _centred(logits)
        logits[torch.arange(len(given)), given] -= self.leak
        true = log_softmax(logits * self.sharpness + self.bias, 1)
        return true + self.log_transition[:, given].T

    def posterior(self, logits: Tensor, given: Tensor) -> Tensor:
        """Shape (samples, classes): probabilities of the true class."""
        return self.log_joint(logits, given).softmax(1)

    def p_incorrect(self, logits: Tensor, given: Tensor) -> Tensor:
        """Shape (samples,): probability that the true class is another than the given one."""
        posterior = self.posterior(logits, given)
        return 1.0 - posterior[torch.arange(len(given)), given]


def judge_classes(logits: Tensor, given: Tensor, is_held_out: Tensor) -> LabelJudgement:
    """Judge the labels of a classification.

    Args:
        logits: shape (samples, classes): mean predictions of all samples.
        given: shape (samples,), int64.
        is_held_out: shape (samples,), bool: who was not learned from. Where nobody was held out,
            all are taken for it, and noise that was memorised goes unnoticed.
    """
    if not is_held_out.any():
        is_held_out = torch.ones_like(is_held_out)
    held, learned = (_some(rows, logits) for rows in (is_held_out, ~is_held_out))
    fitted = _fit(logits[held].double(), given[held])
    score, suggested = torch.empty(len(given)), torch.empty_like(given)
    _judge(fitted, logits, given, is_held_out, score, suggested)
    if len(learned):
        rate = float(fitted.p_incorrect(logits[held].double(), given[held]).mean())
        others = _of_learned(fitted, rate, logits[learned].double(), given[learned])
        _judge(others, logits, given, ~is_held_out, score, suggested)
    return LabelJudgement(score, suggested)


def fit_noise_model(logits: Tensor, given: Tensor, least_noise: float = 0.0) -> NoiseModel:
    """A quick fit: noise that is drawn firmly towards uniform.

    Args:
        logits: shape (samples, classes), float64.
        given: shape (samples,), int64.
        least_noise: the share of wrong labels that was seen before; if fewer are seen now, the
            others have been memorised.
    """
    with torch.enable_grad():
        model = _fit_with(PRIORS[0], logits, given)
    if float(model.p_incorrect(logits, given).mean()) < least_noise:
        return _without_leak(model, least_noise, logits, given)
    return model


def _some(chosen: Tensor, logits: Tensor) -> Tensor:
    """A random part of the chosen samples, large enough to fit a model to."""
    rows = chosen.nonzero()[:, 0]
    most = min(MOST_FITTED, max(MOST_FITTED_ENTRIES // logits.shape[1], 1))
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]]


def _of_learned(held: NoiseModel, rate: float, logits: Tensor, given: Tensor) -> NoiseModel:
    """The model for samples that were learned from, which hides no noise that `held` has seen."""
    own = _fit(logits, given)
    if float(own.p_incorrect(logits, given).mean()) >= rate:
        return own
    return _without_leak(held, rate, logits, given)


def _fit(logits: Tensor, given: Tensor) -> NoiseModel:
    """Everything but the leak, with the prior that other samples speak for."""
    if logits.shape[1] > MOST_CLASSES_WITH_OWN_NOISE or len(given) < 4:
        return _fit_with(PRIORS[0], logits, given)
    compared = slice(MOST_COMPARED)
    likelihoods = [_foretold(prior, logits[compared], given[compared]) for prior in PRIORS]
    return _fit_with(PRIORS[likelihoods.index(max(likelihoods))], logits, given)


def _foretold(prior: float, logits: Tensor, given: Tensor) -> float:
    """Log likelihood of each half of some samples, in random order, by a model of the other."""
    halves = [(logits[start::2], given[start::2]) for start in (0, 1)]
    total = 0.0
    for own, other in (halves, halves[::-1]):
        joint = _fit_with(prior, *own).log_joint(*other)
        total += float(joint.logsumexp(1).sum())
    return total


def _fit_with(prior: float, logits: Tensor, given: Tensor) -> NoiseModel:
    """From several starting points."""
    problem = _Likelihood(logits, given, prior)
    fitted = [problem.solve(problem.start(*point)) for point in STARTS]
    return min(fitted, key=lambda found: found[0])[1]


def _without_leak(model: NoiseModel, rate: float, logits: Tensor, given: Tensor) -> NoiseModel:
    """The same model, with the leak that makes the noise rate come out."""

    def rate_with(leak: float) -> float:
        return float(replace(model, leak=leak).p_incorrect(logits, given).mean())

    highest = LARGEST_LEAK * float(_centred(logits).std())
    return replace(model, leak=where_it_reaches(rate, rate_with, highest))


class _Likelihood:
    """Sharpness, bias, noise rate, each class's own, and which classes are taken for which."""

    def __init__(self, logits: Tensor, given: Tensor, prior: float) -> None:
        self.logits, self.given, self.prior = logits, given, prior
        self.classes = logits.shape[1]
        self.has_own_noise = self.classes <= MOST_CLASSES_WITH_OWN_NOISE
        self.diagonal = torch.eye(self.classes, dtype=torch.bool)

    def start(self, log_sharpness: float, noise_odds: float) -> Tensor:
        number = 2 + self.classes
        if self.has_own_noise:
            number += self.classes + self.classes**2
        parameters = torch.zeros(number, dtype=torch.float64)
        parameters[0], parameters[1] = log_sharpness, noise_odds
        return parameters

    def model(self, parameters: Tensor) -> NoiseModel:
        bias = parameters[2 : 2 + self.classes]
        odds, taken_for = self._noise(parameters)
        others = log_softmax(taken_for.masked_fill(self.diagonal, -torch.inf), 1)
        wrong = logsigmoid(odds)[:, None] + others
        transition = torch.where(self.diagonal, logsigmoid(-odds)[:, None], wrong)
        return NoiseModel(parameters[0].exp(), bias, transition)

    def _noise(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        odds = parameters[1].expand(self.classes)
        if not self.has_own_noise:
            return odds, torch.zeros(self.classes, self.classes, dtype=torch.float64)
        rest = parameters[2 + self.classes :]
        return odds + rest[: self.classes], rest[self.classes :].view(self.classes, self.classes)

    def objective(self, parameters: Tensor) -> Tensor:
        """Negative log posterior per sample; the priors weigh as much as a few samples."""
        likelihood = self.model(parameters).log_joint(self.logits, self.given).logsumexp(1).sum()
        prior = 0.02 * (parameters[1] - RARE_NOISE).square()
        prior = prior + 0.5 * parameters[2 : 2 + self.classes].square().sum()
        if self.has_own_noise:
            rest = parameters[2 + self.classes :]
            prior = prior + 2.0 * self.prior * rest[: self.classes].square().sum()
            prior = prior + 0.5 * self.prior * rest[self.classes :].square().sum()
        return (prior - likelihood) / len(self.given)

    def solve(self, start: Tensor) -> tuple[float, NoiseModel]:
        value, parameters = minimize(self.objective, start, ITERATIONS, TOLERANCE)
        return value, _settled(self.model(parameters))


def _judge(
    model: NoiseModel,
    logits: Tensor,
    given: Tensor,
    chosen: Tensor,
    score: Tensor,
    suggested: Tensor,
) -> None:
    """Fill in log-odds and suggestions of the chosen samples."""
    rows_at_once = max(CHUNK // logits.shape[1], 1)
    for rows in torch.split(chosen.nonzero()[:, 0], rows_at_once):
        labels, place = given[rows], torch.arange(len(rows))
        joint = model.log_joint(logits[rows].double(), labels)
        likeliest = joint.argmax(1)
        correct = joint[place, labels]
        joint[place, labels] = -torch.inf
        score[rows] = (joint.logsumexp(1) - correct).float()
        # A label can be likelier than any other single one, and still more likely wrong than not.
        suggested[rows] = torch.where(score[rows] > 0, joint.argmax(1), likeliest)


def _centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(1, keepdim=True)


def _settled(model: NoiseModel) -> NoiseModel:
    """Without a trace of the optimisation."""
    return NoiseModel(
        float(model.sharpness), model.bias.detach(), model.log_transition.detach(), model.leak
    )
