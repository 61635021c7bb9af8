"""Fits regression targets by a mixture of correct and wrong ones, with a noise interval."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian
from torch.nn.functional import softplus

from discrimloss.judging.noise_interval import INTERVAL_DEVIATIONS, noise_interval
from discrimloss.judging.noise_likelihood import INTERVAL_SAMPLES, ITERATIONS, TOLERANCE
from discrimloss.judging.optimization import bisect_root, minimize

SMALLEST_LOG_SCALE = math.log(1e-4)
"""The smallest scale of the errors, if predictions equal their targets."""
HIGHEST_RATE = 0.8
SMALLEST_RATE = 1e-6
NEAR_ZERO_RATE = 0.01
"""Up to this rate, the uncertainty of the noise rate does not follow from that of its log-odds."""
CORRECT_BEFOREHAND = 20.0
"""Weight of the prior on the noise rate: it counts as this many correct targets."""


class TargetMixture(ABC):
    """The likelihood of targets as a function of parameters. The last one sets the noise rate."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of targets."""

    @abstractmethod
    def subset(self, rows: Tensor) -> TargetMixture:
        """Return the likelihood of some of the samples."""

    @abstractmethod
    def starts(self) -> Sequence[Tensor]:
        """Return the starting parameters of the fit."""

    @abstractmethod
    def log_densities(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density of each target if it is correct, and if it is incorrect."""

    @abstractmethod
    def log_prior(self, parameters: Tensor) -> Tensor:
        """Return the log prior of all parameters except the noise rate's, worth a few samples."""

    def solve(self) -> Tensor:
        """Return the best parameters, from several starting points."""
        solutions = [
            minimize(self.objective, start, ITERATIONS, TOLERANCE) for start in self.starts()
        ]
        return min(solutions, key=lambda solution: solution[0])[1]

    def log_components(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density of correct and of incorrect targets, each times its fraction."""
        correct, incorrect = self.log_densities(parameters)
        rate = noise_rate(parameters)
        return correct + torch.log1p(-rate), incorrect + torch.log(rate)

    def objective(self, parameters: Tensor) -> Tensor:
        """Return the negative log posterior per sample."""
        correct, incorrect = self.log_components(parameters)
        # Uninformative predictions fit any noise rate. The prior then selects 0.
        prior = self.log_prior(parameters)
        prior = prior + CORRECT_BEFOREHAND * torch.log1p(-noise_rate(parameters))
        return -(prior + torch.logaddexp(correct, incorrect).sum()) / len(self)

    def p_incorrect(self, parameters: Tensor) -> Tensor:
        """Return the probability that each target is wrong, shape (samples,)."""
        correct, incorrect = self.log_components(parameters)
        return (incorrect - correct).sigmoid()

    def noise_rate(self, parameters: Tensor) -> float:
        """Return the mean probability that a target is wrong."""
        return float(self.p_incorrect(parameters).mean())

    def noise_interval(self, parameters: Tensor, p_incorrect: Tensor) -> tuple[float, float] | None:
        """Return an interval that contains the fraction of wrong targets with 90 % probability.

        Args:
            parameters: the result of `solve`.
            p_incorrect: shape (samples,): probabilities of all targets. The fit may have used only
                some of them.
        """
        return noise_interval(
            p_incorrect, self._rate_variance(parameters), self._highest_plausible_rate(parameters)
        )

    def _rate_variance(self, parameters: Tensor) -> float:
        """Return the variance of the noise rate, from the uncertainty of the parameters."""
        with torch.enable_grad():
            of_rate: Tensor = jacobian(  # type: ignore[no-untyped-call]
                lambda place: self.p_incorrect(place).mean(), parameters
            )
            information: Tensor = hessian(  # type: ignore[no-untyped-call]
                lambda place: len(self) * self.objective(place), parameters
            )
        # Directions with a flat or irregular likelihood must not give a negative variance.
        values, vectors = torch.linalg.eigh(information)
        return float(((of_rate @ vectors).square() / values.clamp(min=1e-3)).sum())

    def _highest_plausible_rate(self, parameters: Tensor) -> float:
        """Return the highest plausible noise rate if the fitted rate is near 0, and otherwise 0.

        At a noise rate near 0, its log-odds are unbounded, and `_rate_variance` has no meaning.
        """
        if float(noise_rate(parameters)) > NEAR_ZERO_RATE:
            return 0.0
        some = self.subset(torch.arange(min(len(self), INTERVAL_SAMPLES)))

        def misfit(rate: float) -> float:
            """Return the negative log-likelihood of the best fit with this noise rate."""
            log_odds = parameters.new_tensor([math.log(rate / (HIGHEST_RATE - rate))])
            best, _ = minimize(
                lambda others: some.objective(torch.cat([others, log_odds])),
                parameters[:-1],
                ITERATIONS,
                TOLERANCE,
            )
            return best * len(some) + CORRECT_BEFOREHAND * math.log1p(-rate)

        lowest = misfit(SMALLEST_RATE)
        plausible = INTERVAL_DEVIATIONS**2 / 2  # as in a normal distribution
        return bisect_root(plausible, lambda rate: misfit(rate) - lowest, HIGHEST_RATE)


def noise_rate(parameters: Tensor) -> Tensor:
    """Return the noise rate, between 0 and `HIGHEST_RATE`, for the last parameter."""
    return HIGHEST_RATE * torch.sigmoid(parameters[-1])


def log_student(error: Tensor, log_scale: Tensor, tails: Tensor) -> Tensor:
    """Return the log density of Student's t distribution around 0.

    Args:
        error: the points.
        log_scale: log of the scale, at least `SMALLEST_LOG_SCALE`.
        tails: any number. Larger ones give lighter tails. There are at least 1.5 degrees of
            freedom.
    """
    log_scale = torch.logaddexp(log_scale, log_scale.new_tensor(SMALLEST_LOG_SCALE))
    freedom = 1.5 + softplus(tails)
    error = error / log_scale.exp()
    log_density = torch.lgamma((freedom + 1) / 2) - torch.lgamma(freedom / 2)
    log_density = log_density - 0.5 * torch.log(freedom * math.pi) - log_scale
    return log_density - (freedom + 1) / 2 * torch.log1p(error.square() / freedom)
