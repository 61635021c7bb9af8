"""Regression targets as a mixture of right and wrong ones: the fit, and its noise interval."""

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
"""The smallest scale of the errors, where predictions equal their targets."""
HIGHEST_RATE = 0.8
SMALLEST_RATE = 1e-6
NEAR_ZERO_RATE = 0.01
"""Up to here the uncertainty of the noise rate cannot follow from that of its log-odds."""
CORRECT_BEFOREHAND = 20.0
"""The prior on the noise rate is worth so many correct targets."""


class TargetMixture(ABC):
    """The likelihood of targets as a function of parameters; the last is that of the noise rate."""

    @abstractmethod
    def __len__(self) -> int:
        """How many targets there are."""

    @abstractmethod
    def subset(self, rows: Tensor) -> TargetMixture:
        """The same for some samples."""

    @abstractmethod
    def starts(self) -> Sequence[Tensor]:
        """Parameters to start the fit from."""

    @abstractmethod
    def log_densities(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Log density of each target if it is correct, and if it is incorrect."""

    @abstractmethod
    def log_prior(self, parameters: Tensor) -> Tensor:
        """Log prior of all parameters except the noise rate; it weighs as much as a few samples."""

    def solve(self) -> Tensor:
        """The best parameters, from several starting points."""
        solutions = [
            minimize(self.objective, start, ITERATIONS, TOLERANCE) for start in self.starts()
        ]
        return min(solutions, key=lambda solution: solution[0])[1]

    def log_parts(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Log density of correct and of incorrect targets, each times its fraction."""
        correct, incorrect = self.log_densities(parameters)
        rate = noise_rate(parameters)
        return correct + torch.log1p(-rate), incorrect + torch.log(rate)

    def objective(self, parameters: Tensor) -> Tensor:
        """Negative log posterior per sample."""
        correct, incorrect = self.log_parts(parameters)
        # Predictions that say nothing fit any noise rate: the prior then chooses none.
        prior = self.log_prior(parameters)
        prior = prior + CORRECT_BEFOREHAND * torch.log1p(-noise_rate(parameters))
        return -(prior + torch.logaddexp(correct, incorrect).sum()) / len(self)

    def p_incorrect(self, parameters: Tensor) -> Tensor:
        """Shape (samples,): probability that each target is wrong."""
        correct, incorrect = self.log_parts(parameters)
        return (incorrect - correct).sigmoid()

    def noise_rate(self, parameters: Tensor) -> float:
        """Mean probability that a target is wrong."""
        return float(self.p_incorrect(parameters).mean())

    def noise_interval(self, parameters: Tensor, p_incorrect: Tensor) -> tuple[float, float] | None:
        """An interval that holds the fraction of wrong targets with a probability of about 90 %.

        Args:
            parameters: as `solve` returns them.
            p_incorrect: shape (samples,): of all targets; the fit may have used some of them.
        """
        return noise_interval(
            p_incorrect, self._rate_variance(parameters), self._highest_plausible_rate(parameters)
        )

    def _rate_variance(self, parameters: Tensor) -> float:
        """Variance of the noise rate, from the uncertainty of the parameters."""
        with torch.enable_grad():
            of_rate: Tensor = jacobian(  # type: ignore[no-untyped-call]
                lambda place: self.p_incorrect(place).mean(), parameters
            )
            information: Tensor = hessian(  # type: ignore[no-untyped-call]
                lambda place: len(self) * self.objective(place), parameters
            )
        # Directions in which the likelihood is flat or wavy must not give a negative variance.
        values, vectors = torch.linalg.eigh(information)
        return float(((of_rate @ vectors).square() / values.clamp(min=1e-3)).sum())

    def _highest_plausible_rate(self, parameters: Tensor) -> float:
        """The highest noise rate that fits the targets almost as well; 0 where it is not needed.

        At a noise rate near 0 its log-odds have no limit, and `_rate_variance` says nothing.
        """
        if float(noise_rate(parameters)) > NEAR_ZERO_RATE:
            return 0.0
        some = self.subset(torch.arange(min(len(self), INTERVAL_SAMPLES)))

        def misfit(rate: float) -> float:
            """Negative log-likelihood of the best fit with this noise rate."""
            log_odds = parameters.new_tensor([math.log(rate / (HIGHEST_RATE - rate))])
            best, _ = minimize(
                lambda others: some.objective(torch.cat([others, log_odds])),
                parameters[:-1],
                ITERATIONS,
                TOLERANCE,
            )
            return best * len(some) + CORRECT_BEFOREHAND * math.log1p(-rate)

        lowest = misfit(SMALLEST_RATE)
        plausible = INTERVAL_DEVIATIONS**2 / 2  # as far as a normal distribution falls there
        return bisect_root(plausible, lambda rate: misfit(rate) - lowest, HIGHEST_RATE)


def noise_rate(parameters: Tensor) -> Tensor:
    """The noise rate whose log-odds, between 0 and `HIGHEST_RATE`, are the last parameter."""
    return HIGHEST_RATE * torch.sigmoid(parameters[-1])


def log_student(error: Tensor, log_scale: Tensor, tails: Tensor) -> Tensor:
    """Log density of Student's distribution around 0.

    Args:
        error: where.
        log_scale: log of the scale; no smaller than `SMALLEST_LOG_SCALE`.
        tails: any number; a larger one has lighter tails, at least 1.5 degrees of freedom.
    """
    log_scale = torch.logaddexp(log_scale, log_scale.new_tensor(SMALLEST_LOG_SCALE))
    freedom = 1.5 + softplus(tails)
    error = error / log_scale.exp()
    log_density = torch.lgamma((freedom + 1) / 2) - torch.lgamma(freedom / 2)
    log_density = log_density - 0.5 * torch.log(freedom * math.pi) - log_scale
    return log_density - (freedom + 1) / 2 * torch.log1p(error.square() / freedom)
