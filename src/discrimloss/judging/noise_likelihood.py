"""The likelihood of given labels under a model of predictions and noise, and its maximum."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid, one_hot, softmax

from discrimloss.judging.optimization import minimize_with_gradient

MOST_CLASSES_WITH_OWN_NOISE = 30
"""With more classes, the transition matrix is not fitted, because pairs of classes have too few
samples. Noise is then uniform, or follows `mistaken_classes`."""
PRIORS = (20.0, 2.0, 0.2)
"""Strengths of the prior that draws the transition matrix towards uniform noise. The weakest is for
labels whose errors mostly go to one other class."""
UNIFORM_FRACTION = 0.1
"""Uniform fraction of `mistaken_classes`, so that no pair of classes has probability 0."""
RARE_NOISE = -3.0
"""Mean of the weak prior on the log-odds of the noise rate."""
NOISE_PRIOR = 0.02
"""Strength of that prior."""
RATE_PRIOR = 8.0
"""Minimum strength of the prior that draws the noise rates of classes together. Otherwise, classes
that the inputs do not distinguish would look like classes with many wrong labels."""
STARTS = ((0.0, -2.0), (1.0, -1.0))
"""Starting points: log of the sharpness, log-odds of the noise rate."""
UNEVEN_START = (1.0, -1.4)
"""Starting point for wrong labels that are distributed as in `mistaken_classes`."""
ITERATIONS, TOLERANCE = 60, 1e-6
PROFILE_ITERATIONS, PROFILE_TOLERANCE = 25, 1e-5
INTERVAL_SAMPLES = 5000
"""Number of samples from which the uncertainty of a fit is computed."""
INTERVAL_CLASSES = 20
"""With more classes, the interval treats the transition matrix as known."""


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
    """The amount that memorisation has added to the logit of the given label."""

    def log_joint(self, logits: Tensor, given: Tensor) -> Tensor:
        """Return the log probability of true class and given label, (samples, classes)."""
        logits = centred(logits)
        logits[torch.arange(len(given)), given] -= self.leak
        true = log_softmax(logits * self.sharpness + self.bias.to(logits), 1)
        return true + self.log_transition.T.contiguous().to(logits)[given]

    def posterior(self, logits: Tensor, given: Tensor) -> Tensor:
        """Return the probabilities of the true class, shape (samples, classes)."""
        return self.log_joint(logits, given).softmax(1)

    def p_incorrect(self, logits: Tensor, given: Tensor) -> Tensor:
        """Return the probability that the true class is not the given one, shape (samples,)."""
        posterior = self.posterior(logits, given)
        return 1.0 - posterior[torch.arange(len(given)), given]


class LabelLikelihood:
    """The likelihood of labels as a function of the noise model's parameters.

    The parameters are, in this order: log of the sharpness; log-odds of the noise rate; bias of
    each class; difference of each class's log-odds from the common ones; log weights of the labels
    of each true class, row by row. With many classes, the last two are missing.

    Args:
        logits: shape (samples, classes), float64.
        given: shape (samples,), int64.
        prior: strength of the prior towards uniform noise, see `PRIORS`.
        spread: shape (classes, classes), for many classes: distribution of the wrong labels of each
            true class (row). By default uniform.
    """

    def __init__(
        self, logits: Tensor, given: Tensor, prior: float, spread: Tensor | None = None
    ) -> None:
        self.logits, self.given, self.prior = logits, given, prior
        self.spread = spread
        self.classes = logits.shape[1]
        self.has_own_noise = self.classes <= MOST_CLASSES_WITH_OWN_NOISE
        self.diagonal = torch.eye(self.classes, dtype=torch.bool)
        self._by_class = centred(logits).T.contiguous()

    def solve(self, start: Tensor | None = None) -> Tensor:
        """Return the best parameters, from a nearby start or several starting points."""
        starts = [self._start(*point) for point in STARTS] if start is None else [start]
        if self.has_own_noise and self.prior < PRIORS[0]:
            # The optimum for learned noise cannot be reached from uniform noise.
            starts.append(self._uneven_start())
        solutions = [
            minimize_with_gradient(self.objective, place, ITERATIONS, TOLERANCE) for place in starts
        ]
        return min(solutions, key=lambda solution: solution[0])[1]

    def solve_with(self, noise_odds: float, start: Tensor) -> tuple[float, Tensor]:
        """Return the best parameters with these common log-odds of noise.

        Returns:
            The negative log likelihood of all labels, with the priors of the other parameters, and
            the parameters.
        """
        fixed = torch.tensor([noise_odds], dtype=torch.float64)

        def whole(others: Tensor) -> Tensor:
            return torch.cat([others[:1], fixed, others[1:]])

        def without_rate(parameters: Tensor) -> Tensor:
            return torch.cat([parameters[:1], parameters[2:]])

        def objective(others: Tensor) -> tuple[Tensor, Tensor]:
            value, gradient = self.objective(whole(others))
            return value, without_rate(gradient)

        value, others = minimize_with_gradient(
            objective, without_rate(start), PROFILE_ITERATIONS, PROFILE_TOLERANCE
        )
        of_rate = NOISE_PRIOR * (noise_odds - RARE_NOISE) ** 2
        return value * len(self.given) - of_rate, whole(others)

    def model(self, parameters: Tensor) -> NoiseModel:
        """Return the noise model with these parameters."""
        odds, taken_for = self._noise(parameters)
        wrong = logsigmoid(odds)[:, None] + log_softmax(taken_for, 1)
        transition = torch.where(self.diagonal, logsigmoid(-odds)[:, None], wrong)
        return NoiseModel(parameters[0].exp(), parameters[2 : 2 + self.classes], transition)

    def objective(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log posterior per sample, and its gradient, shape (parameters,).

        The priors have the weight of a few samples. The gradient is computed explicitly, which is
        much faster than automatic differentiation.
        """
        mass = self._by_class * parameters[0].exp() + parameters[2 : 2 + self.classes, None]
        mass = (mass - mass.amax(0)).exp_()
        total = mass.sum(0)
        if self.has_own_noise:
            likelihood, gradient = self._by_own_noise(parameters, mass, total)
        elif self.spread is not None:
            likelihood, gradient = self._by_spread_noise(parameters, mass, total, self.spread)
        else:
            likelihood, gradient = self._by_even_noise(parameters, mass, total)
        centre = torch.zeros_like(parameters)
        centre[1] = RARE_NOISE
        pull = self._prior_precision() * (parameters - centre)
        prior = 0.5 * (pull * (parameters - centre)).sum()
        number = len(self.given)
        return (prior - likelihood) / number, (pull - gradient) / number

    def _by_own_noise(
        self, parameters: Tensor, mass: Tensor, total: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the log likelihood and its gradient, if each class has its own noise.

        Args:
            parameters: the parameters.
            mass: shape (classes, samples): probabilities of the true class times `total`.
            total: shape (samples,).
        """
        transition = self.model(parameters).log_transition.exp()
        of_label = (transition.T @ mass).gather(0, self.given[None])[0]
        log_likelihood = (of_label / total).log().sum()
        # `pairs` has the expected number of samples of each true class (row) and label (column).
        per_label = torch.zeros(len(self.given), self.classes, dtype=mass.dtype)
        per_label.scatter_(1, self.given[:, None], (1.0 / of_label)[:, None])
        weighted = mass * self._by_class
        pairs = transition * (mass @ per_label)
        of_scale = (transition * (weighted @ per_label)).sum() - (weighted.sum(0) / total).sum()
        of_bias = pairs.sum(1) - mass @ (1.0 / total)
        odds, taken_for = self._noise(parameters)
        right = pairs.diagonal().clone()
        wrong = pairs.sum(1) - right
        of_odds = wrong * (-odds).sigmoid() - right * odds.sigmoid()
        of_taken_for = pairs.masked_fill(self.diagonal, 0.0) - wrong[:, None] * softmax(
            taken_for, 1
        )
        own = [of_odds, of_taken_for.flatten()]
        common = [(of_scale * parameters[0].exp())[None], of_odds.sum()[None], of_bias]
        return log_likelihood, torch.cat(common + own)

    def _by_even_noise(
        self, parameters: Tensor, mass: Tensor, total: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Like `_by_own_noise`, for uniform wrong labels."""
        rate = parameters[1].sigmoid()
        even = rate / (self.classes - 1)
        of_given = mass.gather(0, self.given[None])[0]
        of_label = even * total + (1.0 - rate - even) * of_given
        log_likelihood = (of_label / total).log().sum()
        extra = (1.0 - rate - even) * of_given / of_label
        remainder = even / of_label - 1.0 / total
        of_bias = (mass @ remainder).index_add_(0, self.given, extra)
        logits_of_given = self._by_class.gather(0, self.given[None])[0]
        of_scale = ((mass * self._by_class).sum(0) * remainder + extra * logits_of_given).sum()
        of_even = ((total - of_given) / of_label).sum() / (self.classes - 1)
        of_rate = of_even - (of_given / of_label).sum()
        of_odds = of_rate * rate * (1.0 - rate)
        return log_likelihood, torch.cat(
            [(of_scale * parameters[0].exp())[None], of_odds[None], of_bias]
        )

    def _by_spread_noise(
        self, parameters: Tensor, mass: Tensor, total: Tensor, spread: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Like `_by_own_noise`, for a known distribution of wrong labels."""
        rate = parameters[1].sigmoid()
        to_given = spread[:, self.given]
        of_given = mass.gather(0, self.given[None])[0]
        of_others = (mass * to_given).sum(0)
        of_label = rate * of_others + (1.0 - rate) * of_given
        log_likelihood = (of_label / total).log().sum()
        extra = (1.0 - rate) * of_given / of_label
        surprise = mass * (rate * to_given / of_label - 1.0 / total)
        of_bias = surprise.sum(1).index_add_(0, self.given, extra)
        logits_of_given = self._by_class.gather(0, self.given[None])[0]
        of_scale = (surprise * self._by_class).sum() + (extra * logits_of_given).sum()
        of_odds = ((of_others - of_given) / of_label).sum() * rate * (1.0 - rate)
        return log_likelihood, torch.cat(
            [(of_scale * parameters[0].exp())[None], of_odds[None], of_bias]
        )

    def rate_variance(self, parameters: Tensor) -> float:
        """Return the variance of the noise rate, from the uncertainty of the parameters.

        The covariance of the parameters is the inverse of the information in the labels (the outer
        product of their gradients) and the priors. The variance follows from it and the gradient of
        the rate.

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

    def _uneven_start(self) -> Tensor:
        parameters = self._start(*UNEVEN_START)
        taken_for = mistaken_classes(self.logits, self.given).log().masked_fill(self.diagonal, 0.0)
        mean = taken_for.sum(1, keepdim=True) / (self.classes - 1)
        parameters[2 + 2 * self.classes :] = (taken_for - mean).flatten()
        return parameters

    def _noise(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-odds of noise for each class, and log weights of its labels."""
        odds = parameters[1].expand(self.classes)
        taken_for = torch.zeros(self.classes, self.classes, dtype=torch.float64)
        if self.has_own_noise:
            own = parameters[2 + self.classes :]
            odds = odds + own[: self.classes]
            taken_for = own[self.classes :].view(self.classes, self.classes)
        elif self.spread is not None:
            taken_for = self.spread.log()
        return odds, taken_for.masked_fill(self.diagonal, -torch.inf)

    def _prior_precision(self) -> Tensor:
        precisions = [
            torch.tensor([0.0, 2.0 * NOISE_PRIOR], dtype=torch.float64),
            torch.ones(self.classes, dtype=torch.float64),
        ]
        if self.has_own_noise:
            of_rates = max(4.0 * self.prior, RATE_PRIOR)
            precisions.append(torch.full((self.classes,), of_rates, dtype=torch.float64))
            precisions.append(torch.full((self.classes**2,), self.prior, dtype=torch.float64))
        return torch.cat(precisions)

    def _gradients(
        self, parameters: Tensor, logits: Tensor, given_only: Tensor, weights: Tensor
    ) -> Tensor:
        """Return gradients of a weighted mean of the log joint, shape (samples, parameters).

        Args:
            parameters: the parameters.
            logits: logits of samples.
            given_only: shape (samples, classes): 1 for the given label.
            weights: shape (samples, classes): weights of the true classes. With the posterior as
                weights, the result is the gradient of the log likelihood.
        """
        model = self.model(parameters)
        scaled = centred(logits) * model.sharpness
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


def mistaken_classes(logits: Tensor, given: Tensor) -> Tensor:
    """Return the distribution of wrong labels under the assumption that predictions are correct.

    Args:
        logits: shape (samples, classes), float64.
        given: shape (samples,), int64.

    Returns:
        Shape (classes, classes): for each true class (row), probabilities of the wrong labels. The
        diagonal is 0.
    """
    classes = logits.shape[1]
    true = softmax(logits, 1).scatter(1, given[:, None], 0.0)
    taken_for = torch.zeros(classes, classes, dtype=logits.dtype)
    taken_for.index_add_(1, given, true.T.contiguous())
    taken_for /= taken_for.sum(1, keepdim=True).clamp(min=torch.finfo(logits.dtype).tiny)
    even = (1.0 - torch.eye(classes, dtype=logits.dtype)) / (classes - 1)
    mixed = torch.lerp(taken_for, even, UNIFORM_FRACTION)
    return mixed / mixed.sum(1, keepdim=True)


def centred(logits: Tensor) -> Tensor:
    """Return logits with a mean of 0 in each row."""
    return logits - logits.mean(1, keepdim=True)
