"""How likely is each label wrong, and what would be right, judged from what a model predicted?

A loss alone cannot tell a hard sample from a wrong label; the whole prediction can. Where the model
is unsure, a label that it did not expect says little. Where it is sure, such a label is a mistake
of one of the two, and how often that happens among sure samples is the noise rate. So two things
are fitted to the labels as given, by maximum likelihood: how predictions translate into
probabilities of the true class (a temperature and a bias per class), and how true classes turn into
given ones (a transition matrix, drawn towards uniform noise). Both together give each sample the
probabilities of its true class, given its prediction *and* its label.

Predictions of training samples know their labels: a model memorises. Two facts undo that. In the
first epochs a sample has been seen a few times only and hardly anything is memorised: there the
transition matrix is read off. From the later, better predictions the memorised part is taken away
again: as much from the logit of each given label as makes the share of wrong labels come out as it
was before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid

MOST_CLASSES_WITH_OWN_NOISE = 100  # beyond, noise is uniform: there are too few samples per pair
EARLY_PRIOR = 20.0  # how firmly the transition matrix is drawn towards uniform noise, early
LATE_PRIOR = 2.0  # and late, when a model's own confusions are fewer
RARE_NOISE = -3.0  # log-odds that the noise rate is weakly drawn to
STARTS = ((0.0, -2.0), (1.0, -1.0))  # log of the temperature's inverse, log-odds of the noise rate
LARGEST_LEAK = 3.0  # in standard deviations of the logits
BISECTIONS = 8
ITERATIONS = 60
CHUNK = 1 << 22  # entries judged at once


@dataclass(frozen=True)
class NoiseModel:
    """What was fitted: from a mean prediction and a given label to the probable true class."""

    sharpness: float
    """The logits are multiplied by it."""
    bias: Tensor
    """Shape (classes,), added to the logits."""
    log_transition: Tensor
    """Shape (classes, classes): log probability of a given label, for each true one."""
    leak: float = 0.0
    """What memorising a label has added to its logit."""

    def log_joint(self, logits: Tensor, given: Tensor) -> Tensor:
        """Shape (samples, classes): log probability of true class and given label together."""
        logits = _centred(logits)
        if self.leak:
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


@dataclass(frozen=True)
class ClassJudgement:
    """What is thought of every label."""

    p_incorrect: Tensor
    """Shape (samples,), float32."""
    suggested: Tensor
    """Shape (samples,), int64: the most probable class."""
    score: Tensor
    """Shape (samples,), float32: log-odds behind `p_incorrect`, which rounds to 1 and ranks no
    more."""
    noise_rate: float


def judge_classes(
    early: Sequence[Tensor], chosen: Tensor, late: Tensor, given: Tensor
) -> ClassJudgement:
    """Judge the labels of a classification.

    Args:
        early: logits of some samples, each of shape (chosen, classes), from successive epochs early
            in training; from the epoch on in which the model has a first idea of the task.
        chosen: which samples these are: a random part is enough.
        late: shape (samples, classes): mean logits of all samples later in training.
        given: shape (samples,), int64.
    """
    own, sample = given[chosen], late[chosen].double()
    model = _without_leak(_early_noise_rate(early, own), sample, own)
    return _judge_all(model, late, given)


def _early_noise_rate(early: Sequence[Tensor], given: Tensor) -> float:
    """That of the epochs in which most labels look wrong: memorising only hides them.

    The second largest: an epoch in which the model still knew little must not decide alone.
    """
    rates, start = [0.0, 0.0], None
    for first, second in itertools.pairwise(early):
        logits = (first.double() + second.double()) / 2
        start = _fit(logits, given, EARLY_PRIOR, start=start)
        rates.append(float(start.p_incorrect(logits, given).mean()))
    return sorted(rates)[-2]


def _fit(
    logits: Tensor,
    given: Tensor,
    prior: float,
    leak: float = 0.0,
    start: NoiseModel | None = None,
) -> NoiseModel:
    """Everything but the leak, from several starting points or from one that is nearly right."""
    problem = _Likelihood(logits, given, prior, leak)
    if start is not None:
        return problem.solve(problem.parameters_of(start))[1]
    fitted = [problem.solve(problem.start(*point)) for point in STARTS]
    return min(fitted, key=lambda found: found[0])[1]


def _without_leak(rate: float, logits: Tensor, given: Tensor) -> NoiseModel:
    """The model for later predictions, with the leak that makes the noise rate come out."""
    best = _fit(logits, given, LATE_PRIOR)
    if float(best.p_incorrect(logits, given).mean()) >= rate:
        return best
    low, high = 0.0, LARGEST_LEAK * float(_centred(logits).std())
    for _ in range(BISECTIONS):
        leak = (low + high) / 2
        model = _fit(logits, given, LATE_PRIOR, leak, best)
        if float(model.p_incorrect(logits, given).mean()) < rate:
            low, best = leak, model
        else:
            high = leak
    return best


class _Likelihood:
    """Sharpness, bias, noise rate, each class's own, and which classes are taken for which."""

    def __init__(self, logits: Tensor, given: Tensor, prior: float, leak: float) -> None:
        self.logits, self.given = logits, given
        self.prior, self.leak = prior, leak
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

    def parameters_of(self, model: NoiseModel) -> Tensor:
        """Near enough to start from: those that make this model."""
        correct = model.log_transition.diagonal().exp().clamp(1e-6, 1 - 1e-6)
        odds = torch.log1p(-correct) - correct.log()
        parameters = self.start(math.log(model.sharpness), float(odds.mean()))
        parameters[2 : 2 + self.classes] = model.bias
        if self.has_own_noise:
            rest = parameters[2 + self.classes :]
            rest[: self.classes] = odds - odds.mean()
            taken = model.log_transition.masked_fill(self.diagonal, 0.0)
            taken = taken - taken.sum(1, keepdim=True) / max(self.classes - 1, 1)
            rest[self.classes :] = taken.masked_fill(self.diagonal, 0.0).flatten()
        return parameters

    def model(self, parameters: Tensor) -> NoiseModel:
        bias = parameters[2 : 2 + self.classes]
        odds, taken_for = self._noise(parameters)
        others = log_softmax(taken_for.masked_fill(self.diagonal, -torch.inf), 1)
        wrong = logsigmoid(odds)[:, None] + others
        transition = torch.where(self.diagonal, logsigmoid(-odds)[:, None], wrong)
        return NoiseModel(parameters[0].exp(), bias, transition, self.leak)  # type: ignore[arg-type]

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
        value, parameters = minimize(self.objective, start)
        return value, _settled(self.model(parameters))


def _judge_all(model: NoiseModel, late: Tensor, given: Tensor) -> ClassJudgement:
    pieces = []
    rows = max(CHUNK // late.shape[1], 1)
    for logits, labels in zip(torch.split(late, rows), torch.split(given, rows), strict=True):
        joint = model.log_joint(logits.double(), labels)
        row = torch.arange(len(labels))
        correct = joint[row, labels]
        suggested = joint.argmax(1)
        joint[row, labels] = -torch.inf
        pieces.append((joint.logsumexp(1) - correct, suggested))
    score = torch.cat([piece[0] for piece in pieces])
    p_incorrect = score.sigmoid()
    return ClassJudgement(
        p_incorrect=p_incorrect.float(),
        suggested=torch.cat([piece[1] for piece in pieces]),
        score=score.float(),
        noise_rate=float(p_incorrect.mean()),
    )


def _centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(1, keepdim=True)


def _settled(model: NoiseModel) -> NoiseModel:
    """Without a trace of the optimisation."""
    return NoiseModel(
        float(model.sharpness), model.bias.detach(), model.log_transition.detach(), model.leak
    )


def minimize(objective: Callable[[Tensor], Tensor], start: Tensor) -> tuple[float, Tensor]:
    """The smallest value near a starting point, and where it is."""
    parameters = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [parameters],
        max_iter=ITERATIONS,
        tolerance_grad=1e-6,
        tolerance_change=1e-9,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = objective(parameters)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        value = float(objective(parameters))
    return (value if math.isfinite(value) else math.inf), parameters.detach()
