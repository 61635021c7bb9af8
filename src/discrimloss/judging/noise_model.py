"""Probabilities that class labels are wrong, estimated from a model's predictions.

A loss alone cannot tell a hard sample from a wrong label; the whole prediction can. Where the model
is unsure, a label that it did not expect says little. Where it is sure, either the model or the
label is wrong, and the rate of such conflicts among sure predictions is the noise rate. So two
things are fitted to the given labels by maximum likelihood:

- how predictions translate into probabilities of the true class: a sharpness and a bias per class;
- how true classes turn into given labels: a transition matrix, drawn towards uniform noise.

Together they give each sample the probabilities of its true class, from its prediction and its
given label.

Where predictions are unsure, many noise rates explain the labels equally well: classes that overlap
look like noise. So the likelihood of all noise rates is computed, and the rate that is used lies in
the upper part of the plausible ones, see `PLAUSIBLE_QUANTILE`. Where the labels determine the rate,
this is the rate of the best fit; where they do not, its errors are balanced.

A model memorises the labels that it is trained on, so both are fitted to samples that were held out
of training. From the predictions for the training samples the memorised part is removed: so much
from the logit of each given label that both groups have the same noise rate. Where hardly any wrong
label was memorised, the training samples, fitted by themselves, show at least the noise of the
held-out ones; then their own fit is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid, one_hot, softmax

from discrimloss.judging.optimization import bisect_root, minimize

MOST_CLASSES_WITH_OWN_NOISE = 30
"""With more classes noise is uniform: there are too few samples for each pair of classes."""
PRIORS = (20.0, 2.0)
"""How firmly the transition matrix is drawn towards uniform noise."""
MOST_COMPARED = 4000
"""Samples that decide between the two priors."""
MOST_FITTED = 20_000
"""Samples in a fit; more do not make it more certain."""
MOST_FITTED_ENTRIES = 4_000_000
"""The same for samples times classes."""
RARE_NOISE = -3.0
"""Log-odds that the noise rate is weakly drawn to."""
NOISE_PRIOR = 0.02
"""How firmly the noise rate is drawn there."""
STARTS = ((0.0, -2.0), (1.0, -1.0))
"""Starting points: log of the sharpness, log-odds of the noise rate."""
NOISE_RATES = (0.002, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.3, 0.4, 0.5, 0.65, 0.8)
"""Common noise rates whose likelihood is computed."""
PLAUSIBLE_QUANTILE = 0.8
"""Which quantile of the plausible noise rates is used. Chosen on texts and tables with clean and
with known wrong labels: higher ones call too many clean labels incorrect, lower ones find too few
wrong labels where classes overlap."""
IMPLAUSIBLE = 8.0
"""Rates whose log likelihood is below the best by more are not tried."""
PROFILE_ITERATIONS, PROFILE_TOLERANCE = 25, 1e-5
LARGEST_LEAK = 3.0
"""The largest effect of memorising on a logit, in standard deviations of the logits."""
ITERATIONS, TOLERANCE = 60, 1e-6
CHUNK = 1 << 22
"""Entries processed at once."""
INTERVAL_DEVIATIONS = 1.645
"""Standard deviations of a normal distribution to each side that hold 90 %."""
RELATIVE_MISFIT, ABSOLUTE_MISFIT = 0.2, 0.005
"""How far the noise rate is off because real predictions differ from the model, as a standard
deviation: a fraction of the rate, and a constant. Chosen from trials with cross-validated logistic
regressions, forests and nearest neighbours on small tables."""
INTERVAL_SAMPLES = 5000
"""Samples that the uncertainty of a fit is computed from."""
WIDEST_INTERVAL = 0.5
"""A wider interval for the noise rate says nothing about the labels."""
INTERVAL_CLASSES = 20
"""With more classes the transition matrix is taken as known for the interval."""


@dataclass(frozen=True)
class LabelErrors:
    """Estimates for every label; tensors of shape (samples,)."""

    score: Tensor
    """Float32: log-odds that the label is wrong. They rank labels whose probability rounds to 1."""
    suggested: Tensor
    """What the label probably should be: int64 classes or float32 regression targets. It differs
    from the given label wherever the score is above 0."""
    noise_interval: tuple[float, float] | None = None
    """Where the fraction of wrong labels lies with 90 % probability; None where the predictions
    say too little about it."""
    other: Tensor | None = None
    """Int64: the likeliest class besides the given one; None for regression targets."""

    @property
    def p_incorrect(self) -> Tensor:
        """Float32: probability that the label is wrong."""
        return self.score.double().sigmoid().float()

    @property
    def noise_rate(self) -> float:
        """The estimated fraction of wrong labels: the mean of their probabilities."""
        return float(self.score.double().sigmoid().mean())


@dataclass(frozen=True)
class NoiseModel:
    """A fitted map from a prediction and a given label to probabilities of the true class."""

    sharpness: float | Tensor
    """Factor of the logits."""
    bias: Tensor
    """Shape (classes,), added to the logits."""
    log_transition: Tensor
    """Shape (classes, classes): log probability of each given label (columns) for each true class
    (rows)."""
    leak: float | Tensor = 0.0
    """The amount that memorising has added to the logit of the given label."""

    def log_joint(self, logits: Tensor, given: Tensor) -> Tensor:
        """Shape (samples, classes): log probability of the true class and the given label."""
        logits = _centred(logits)
        logits[torch.arange(len(given)), given] -= self.leak
        true = log_softmax(logits * self.sharpness + self.bias, 1)
        return true + self.log_transition[:, given].T

    def posterior(self, logits: Tensor, given: Tensor) -> Tensor:
        """Shape (samples, classes): probabilities of the true class."""
        return self.log_joint(logits, given).softmax(1)

    def p_incorrect(self, logits: Tensor, given: Tensor) -> Tensor:
        """Shape (samples,): probability that the true class is not the given one."""
        posterior = self.posterior(logits, given)
        return 1.0 - posterior[torch.arange(len(given)), given]


def estimate_class_errors(logits: Tensor, given: Tensor, is_held_out: Tensor) -> LabelErrors:
    """Estimate which labels of a classification are wrong.

    Args:
        logits: shape (samples, classes): mean predictions for all samples.
        given: shape (samples,), int64.
        is_held_out: shape (samples,), bool: which samples the model was not trained on. If none
            was held out, all count as held out, and memorised noise goes unnoticed.
    """
    if not is_held_out.any():
        is_held_out = torch.ones_like(is_held_out)
    held, trained = (_random_rows(rows, logits) for rows in (is_held_out, ~is_held_out))
    problem, parameters = _fit(logits[held].double(), given[held])
    variance = problem.rate_variance(parameters)
    parameters, plausible = _plausible(problem, parameters)
    model = problem.model(parameters)
    score, other = torch.empty(len(given)), torch.empty_like(given)
    suggested = torch.empty_like(given)
    _fill_in(model, logits, given, is_held_out, score, suggested, other)
    if len(trained):
        rate = float(model.p_incorrect(logits[held].double(), given[held]).mean())
        of_trained = _model_of_trained(model, rate, logits[trained].double(), given[trained])
        _fill_in(of_trained, logits, given, ~is_held_out, score, suggested, other)
    interval = noise_interval(score.double().sigmoid(), variance, plausible=plausible)
    return LabelErrors(score, suggested, interval, other)


def noise_interval(
    p_incorrect: Tensor,
    variance: float,
    highest_plausible: float = 0.0,
    plausible: tuple[float, float] | None = None,
) -> tuple[float, float] | None:
    """An interval that holds the fraction of wrong labels with a probability of about 90 %.

    Args:
        p_incorrect: shape (samples,), float64.
        variance: of the noise rate, from the uncertainty of the fitted parameters.
        highest_plausible: the interval reaches at least up to this noise rate.
        plausible: the interval holds at least these noise rates.

    Returns:
        The interval, or None where it is wider than `WIDEST_INTERVAL`.
    """
    rate = float(p_incorrect.mean())
    # Even with known parameters, each label is wrong or not at random.
    by_chance = float((p_incorrect * (1.0 - p_incorrect)).sum()) / len(p_incorrect) ** 2
    misfit = (RELATIVE_MISFIT * rate) ** 2 + ABSOLUTE_MISFIT**2
    deviation = math.sqrt(max(variance, 0.0) + by_chance + misfit)
    # The arcsine of the root has the same variance near 0 as elsewhere. At a rate of 0 its slope is
    # infinite: the smallest spread makes the interval end at the plain margin there.
    plain_margin = INTERVAL_DEVIATIONS * deviation
    margin = plain_margin / (2.0 * math.sqrt(max(rate * (1.0 - rate), plain_margin / 4.0)))
    angle = math.asin(math.sqrt(rate))
    low = math.sin(max(angle - margin, 0.0)) ** 2
    high = max(math.sin(min(angle + margin, math.pi / 2)) ** 2, highest_plausible)
    if plausible is not None:
        low, high = min(low, plausible[0]), max(high, plausible[1])
    return (low, high) if high - low <= WIDEST_INTERVAL else None


def _random_rows(chosen: Tensor, logits: Tensor) -> Tensor:
    """A random subset of the chosen samples, large enough to fit a model to."""
    rows = chosen.nonzero()[:, 0]
    most = min(MOST_FITTED, max(MOST_FITTED_ENTRIES // logits.shape[1], 1))
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]]


def _model_of_trained(model: NoiseModel, rate: float, logits: Tensor, given: Tensor) -> NoiseModel:
    """The model of training samples.

    Args:
        model: fitted to the held-out samples.
        rate: their noise rate. The result finds no less.
        logits: of training samples.
        given: their labels.
    """
    problem, parameters = _fit(logits, given)
    own = problem.model(parameters)
    if float(own.p_incorrect(logits, given).mean()) >= rate:
        return own
    return _with_leak(model, rate, logits, given)


def _fit(logits: Tensor, given: Tensor) -> tuple[_Likelihood, Tensor]:
    """Fit all but the leak, with the prior under which held-out labels are likeliest."""
    prior = PRIORS[0]
    if logits.shape[1] <= MOST_CLASSES_WITH_OWN_NOISE and len(given) >= 4:
        compared = logits[:MOST_COMPARED], given[:MOST_COMPARED]
        prior = max(PRIORS, key=lambda prior: _held_out_log_likelihood(prior, *compared))
    problem = _Likelihood(logits, given, prior)
    return problem, problem.solve()


def _plausible(problem: _Likelihood, best: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """Parameters with a noise rate in the upper part of the plausible ones.

    Args:
        problem: the labels.
        best: the likeliest parameters.

    Returns:
        The parameters, and the range of the fraction of wrong labels that holds 90 % of the
        plausible noise rates.
    """
    tried: dict[int, tuple[float, Tensor]] = {}
    odds = [math.log(rate / (1.0 - rate)) for rate in NOISE_RATES]
    nearest = min(range(len(odds)), key=lambda place: abs(odds[place] - float(best[1])))
    for places in (range(nearest, len(odds)), range(nearest - 1, -1, -1)):
        start = best if nearest not in tried else tried[nearest][1]
        for place in places:
            tried[place] = problem.solve_with(odds[place], start)
            start = tried[place][1]
            if tried[place][0] - min(value for value, _ in tried.values()) > IMPLAUSIBLE:
                break
    lowest = min(value for value, _ in tried.values())
    rates = torch.tensor([NOISE_RATES[place] for place in sorted(tried)], dtype=torch.float64)
    loss = torch.tensor([tried[place][0] - lowest for place in sorted(tried)], dtype=torch.float64)
    fine = torch.linspace(0.0, float(rates[-1]), 2001, dtype=torch.float64)[1:]
    # High rates are rarer in practice than the likelihood alone would have it.
    density = (2.0 * torch.log1p(-fine) - _interpolated(fine, rates, loss)).exp()
    below = density.cumsum(0) / density.sum()

    def at_quantile(quantile: float) -> Tensor:
        rate = float(fine[int((below < quantile).sum().clamp(max=len(fine) - 1))])
        place = min(tried, key=lambda place: abs(NOISE_RATES[place] - rate))
        return problem.solve_with(math.log(rate / (1.0 - rate)), tried[place][1])[1]

    def wrong(parameters: Tensor) -> float:
        model = problem.model(parameters)
        return float(model.p_incorrect(problem.logits, problem.given).mean())

    low, high = wrong(at_quantile(0.05)), wrong(at_quantile(0.95))
    return at_quantile(PLAUSIBLE_QUANTILE), (low, high)


def _interpolated(at: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Linear between the places, constant outside."""
    right = torch.searchsorted(places, at).clamp(1, len(places) - 1)
    left = right - 1
    part = ((at - places[left]) / (places[right] - places[left])).clamp(0.0, 1.0)
    return torch.lerp(values[left], values[right], part)


def _held_out_log_likelihood(prior: float, logits: Tensor, given: Tensor) -> float:
    """Log likelihood of each half of the samples under a model of the other half."""
    halves = [(logits[start::2], given[start::2]) for start in (0, 1)]
    total = 0.0
    for own, other in (halves, halves[::-1]):
        problem = _Likelihood(*own, prior)
        joint = problem.model(problem.solve()).log_joint(*other)
        total += float(joint.logsumexp(1).sum())
    return total


def _with_leak(model: NoiseModel, rate: float, logits: Tensor, given: Tensor) -> NoiseModel:
    """The same model, with the leak under which it finds this noise rate."""

    def rate_with(leak: float) -> float:
        return float(replace(model, leak=leak).p_incorrect(logits, given).mean())

    highest = LARGEST_LEAK * float(_centred(logits).std())
    return replace(model, leak=bisect_root(rate, rate_with, highest))


class _Likelihood:
    """The labels of some samples as a function of the noise model's parameters.

    The parameters are, in this order: log of the sharpness; log-odds of the noise rate; bias of
    each class; how far each class's own log-odds are above the common ones; log weights of the
    classes that a true class is taken for, row by row. With many classes the last two are missing.

    Args:
        logits: shape (samples, classes), float64.
        given: shape (samples,), int64.
        prior: how firmly noise is drawn towards uniform, see `PRIORS`.
    """

    def __init__(self, logits: Tensor, given: Tensor, prior: float) -> None:
        self.logits, self.given, self.prior = logits, given, prior
        self.classes = logits.shape[1]
        self.has_own_noise = self.classes <= MOST_CLASSES_WITH_OWN_NOISE
        self.diagonal = torch.eye(self.classes, dtype=torch.bool)

    def solve(self) -> Tensor:
        """The best parameters, from several starting points."""
        solutions = [
            minimize(self.objective, self._start(*point), ITERATIONS, TOLERANCE) for point in STARTS
        ]
        return min(solutions, key=lambda solution: solution[0])[1]

    def solve_with(self, noise_odds: float, start: Tensor) -> tuple[float, Tensor]:
        """The best parameters with these common log-odds of noise.

        Returns:
            The negative log likelihood of all labels, with the priors of the other parameters, and
            the parameters.
        """
        fixed = torch.tensor([noise_odds], dtype=torch.float64)

        def whole(others: Tensor) -> Tensor:
            return torch.cat([others[:1], fixed, others[1:]])

        others = torch.cat([start[:1], start[2:]])
        value, others = minimize(
            lambda others: self.objective(whole(others)),
            others,
            PROFILE_ITERATIONS,
            PROFILE_TOLERANCE,
        )
        of_rate = NOISE_PRIOR * (noise_odds - RARE_NOISE) ** 2
        return value * len(self.given) - of_rate, whole(others)

    def model(self, parameters: Tensor) -> NoiseModel:
        odds, taken_for = self._noise(parameters)
        wrong = logsigmoid(odds)[:, None] + log_softmax(taken_for, 1)
        transition = torch.where(self.diagonal, logsigmoid(-odds)[:, None], wrong)
        return NoiseModel(parameters[0].exp(), parameters[2 : 2 + self.classes], transition)

    def objective(self, parameters: Tensor) -> Tensor:
        """Negative log posterior per sample; the priors weigh as much as a few samples."""
        likelihood = self.model(parameters).log_joint(self.logits, self.given).logsumexp(1).sum()
        centre = torch.zeros_like(parameters)
        centre[1] = RARE_NOISE
        prior = 0.5 * (self._prior_precision() * (parameters - centre).square()).sum()
        return (prior - likelihood) / len(self.given)

    def rate_variance(self, parameters: Tensor) -> float:
        """Variance of the noise rate, from the uncertainty of the parameters.

        The inverse of the information in the labels (the outer product of their gradients) and in
        the priors is the covariance of the parameters; the gradient of the rate turns it into a
        variance.

        Args:
            parameters: the fitted ones.
        """
        rows = slice(INTERVAL_SAMPLES)
        logits, given = self.logits[rows], self.given[rows]
        model = self.model(parameters)
        posterior = model.posterior(logits, given)
        given_only = one_hot(given, self.classes).double()
        gradients = self._gradients(parameters, logits, given_only, posterior)
        of_correct = self._gradients(parameters, logits, given_only, given_only)
        p_correct = (posterior * given_only).sum(1, keepdim=True)
        of_rate = (p_correct * (gradients - of_correct)).mean(0)
        precision = self._prior_precision()[: len(of_rate)]
        precision[0] = 1e-6  # the sharpness has no prior
        information = gradients.T @ gradients * (len(self.given) / len(given))
        information = information + torch.diag(precision)
        return float(of_rate @ torch.linalg.solve(information, of_rate))

    def _start(self, log_sharpness: float, noise_odds: float) -> Tensor:
        number = 2 + self.classes
        if self.has_own_noise:
            number += self.classes + self.classes**2
        parameters = torch.zeros(number, dtype=torch.float64)
        parameters[0], parameters[1] = log_sharpness, noise_odds
        return parameters

    def _noise(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Log-odds of noise for each class, and log weights of the classes it is taken for."""
        odds = parameters[1].expand(self.classes)
        taken_for = torch.zeros(self.classes, self.classes, dtype=torch.float64)
        if self.has_own_noise:
            own = parameters[2 + self.classes :]
            odds = odds + own[: self.classes]
            taken_for = own[self.classes :].view(self.classes, self.classes)
        return odds, taken_for.masked_fill(self.diagonal, -torch.inf)

    def _prior_precision(self) -> Tensor:
        precisions = [
            torch.tensor([0.0, 2.0 * NOISE_PRIOR], dtype=torch.float64),
            torch.ones(self.classes, dtype=torch.float64),
        ]
        if self.has_own_noise:
            precisions.append(torch.full((self.classes,), 4.0 * self.prior, dtype=torch.float64))
            precisions.append(torch.full((self.classes**2,), self.prior, dtype=torch.float64))
        return torch.cat(precisions)

    def _gradients(
        self, parameters: Tensor, logits: Tensor, given_only: Tensor, weights: Tensor
    ) -> Tensor:
        """Shape (samples, parameters): gradients of a weighted mean of the log joint.

        Args:
            parameters: where.
            logits: of some samples.
            given_only: shape (samples, classes): 1 for the given label.
            weights: shape (samples, classes): of the true classes. With those of the posterior
                these are the gradients of the log likelihood.
        """
        model = self.model(parameters)
        scaled = _centred(logits) * model.sharpness
        of_bias = weights - softmax(scaled + model.bias, 1)
        odds, taken_for = self._noise(parameters)
        is_wrong = 1.0 - given_only
        of_odds = weights * (is_wrong - odds.sigmoid())
        gradients = [
            (of_bias * scaled).sum(1, keepdim=True),
            of_odds.sum(1, keepdim=True),
            of_bias,
        ]
        if self.has_own_noise:
            gradients.append(of_odds)
        if self.classes <= INTERVAL_CLASSES:
            surprise = given_only[:, None, :] - softmax(taken_for, 1)
            gradients.append(((weights * is_wrong)[:, :, None] * surprise).flatten(1))
        return torch.cat(gradients, 1)


def _fill_in(
    model: NoiseModel,
    logits: Tensor,
    given: Tensor,
    chosen: Tensor,
    score: Tensor,
    suggested: Tensor,
    other: Tensor,
) -> None:
    """Write log-odds, suggestions and likeliest other classes of the chosen samples."""
    rows_at_once = max(CHUNK // logits.shape[1], 1)
    for rows in torch.split(chosen.nonzero()[:, 0], rows_at_once):
        labels, place = given[rows], torch.arange(len(rows))
        joint = model.log_joint(logits[rows].double(), labels)
        likeliest = joint.argmax(1)
        correct = joint[place, labels]
        joint[place, labels] = -torch.inf
        score[rows] = (joint.logsumexp(1) - correct).float()
        # A label can be likelier than any other class, and still more likely wrong than right.
        other[rows] = joint.argmax(1)
        suggested[rows] = torch.where(score[rows] > 0, other[rows], likeliest)


def _centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(1, keepdim=True)
