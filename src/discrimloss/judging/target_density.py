"""Estimates wrong regression targets from out-of-fold predictions and predicted error sizes.

A correct target scatters around its out-of-fold prediction with the predicted scale, and with
heavier tails than a normal distribution. A wrong target is drawn from the distribution of all
targets. There are two differences from `regression_noise`. The scale of the errors is predicted for
each sample. The predictions are from models that were trained on trusted targets, so they are not
stretched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.judging.regression_noise import NEVER, NormalScores
from discrimloss.judging.target_mixture import TargetMixture, log_student

Array = npt.NDArray[np.float64]

FARTHEST = 10.0
"""Targets are clipped at this many scales from the median."""
MOST_FITTED = 20_000
"""Samples in a fit."""
STARTS = (-3.0, -1.0)
"""Starting points: log-odds of the noise rate."""
REFERENCE_RATE = 0.1
"""Fraction of wrong targets in the simulation that shows if targets can be judged."""
LEAST_FOUND = 0.15
"""Minimum fraction of simulated wrong targets that must be found."""
EXCHANGES = 20_000
"""Number of sample pairs with exchanged targets in the simulation."""
KERNEL_ROWS = 2_000
"""Maximum number of targets for the density estimate."""
NARROWEST, WIDEST = 0.2, 10.0
"""Bandwidth of a kernel at the highest and lowest density, relative to the usual bandwidth."""


class ScaledTargets:
    """The scale of targets for training, and the density of all targets on that scale.

    Args:
        given: shape (samples,), float64.
        by_rank: whether targets become normal scores, which suits skewed targets. Otherwise they
            are centred at their median and divided by their spread.
    """

    def __init__(self, given: Array, by_rank: bool) -> None:
        self.by_rank = by_rank
        if by_rank:
            self._scores = NormalScores(torch.from_numpy(given))
            self.target: Array = self._scores(torch.from_numpy(given)).numpy()
            self.log_density: Array = -0.5 * (self.target**2 + math.log(2 * math.pi))
            return
        low, self._middle, high = np.quantile(given, (0.25, 0.5, 0.75))
        self._spread = float(high - low) / 1.349 or float(given.std()) or 1.0
        self.target = self.of(given)
        self.log_density = _log_density(self.target)

    def of(self, values: Array) -> Array:
        """Convert values from the unit of the targets to this scale."""
        if self.by_rank:
            return np.asarray(self._scores(torch.from_numpy(values)).numpy())
        scaled = (values - self._middle) / self._spread
        return np.asarray(np.clip(scaled, -FARTHEST, FARTHEST))

    def back(self, values: Array) -> Array:
        """Convert values from this scale to the unit of the targets."""
        if self.by_rank:
            return np.asarray(self._scores.inverse(torch.from_numpy(values)).numpy())
        return np.asarray(values * self._spread + self._middle)


@dataclass(frozen=True)
class TargetNoise:
    """The result of a fit, arrays of shape (samples,)."""

    score: Array
    """Log-odds that each target is wrong."""
    scale: Array
    """Scale of the errors of correct targets."""
    gain: float
    """Mean log-likelihood of a target beyond that of the distribution of all targets."""
    mixture: _ScaledMixture
    parameters: Tensor

    @property
    def p_incorrect(self) -> Array:
        """Probability that each target is wrong."""
        return np.asarray(torch.from_numpy(self.score).sigmoid().numpy())

    def noise_interval(self) -> tuple[float, float] | None:
        """Interval that contains the fraction of wrong targets with about 90 % probability."""
        return self.mixture.noise_interval(self.parameters, torch.from_numpy(self.p_incorrect))

    def fraction_found(self) -> float:
        """Fraction of exchanged targets that are found if a tenth are exchanged."""
        return self.mixture.fraction_found(self.parameters)


def fit_target_noise(
    scale: ScaledTargets, prediction: Array, log_scale: Array | None = None
) -> TargetNoise:
    """Estimate which targets are wrong.

    Args:
        scale: scale of the targets.
        prediction: shape (samples,): out-of-fold predictions on that scale.
        log_scale: shape (samples,): log of the expected size of the errors, up to a constant. By
            default the same for all samples.
    """
    log_scale = np.zeros(len(prediction)) if log_scale is None else log_scale
    everything = _ScaledMixture(
        torch.from_numpy(prediction),
        torch.from_numpy(scale.target),
        torch.from_numpy(log_scale),
        torch.from_numpy(scale.log_density),
    )
    order = torch.randperm(len(everything), generator=torch.Generator().manual_seed(0))
    mixture = everything.subset(order[:MOST_FITTED])
    with torch.enable_grad():
        parameters = mixture.solve()
    correct, incorrect = everything.log_components(parameters)
    gain = torch.logaddexp(correct, incorrect) - everything.log_density
    return TargetNoise(
        score=(incorrect - correct).numpy(),
        scale=everything.log_scales(parameters).exp().numpy(),
        gain=float(gain.mean()),
        mixture=mixture,
        parameters=parameters,
    )


def never_wrong(score: Array) -> Array:
    """Return scores in the same order by which no target is called wrong."""
    return np.asarray(score - score.max() - NEVER)


class _ScaledMixture(TargetMixture):
    """The likelihood of targets as a function of four parameters.

    The parameters are: the log scale of the errors, the influence of the predicted scale, the
    weight of the tails, and the log-odds of the noise rate.

    Args:
        prediction: shape (samples,), float64.
        target: shape (samples,).
        log_scale: shape (samples,): predicted log scale, up to a constant.
        log_density: shape (samples,): log density of all targets at each target.
        middle_scale: subtracted from the predicted log scale. By default its mean.
    """

    def __init__(
        self,
        prediction: Tensor,
        target: Tensor,
        log_scale: Tensor,
        log_density: Tensor,
        middle_scale: float | None = None,
    ) -> None:
        self.prediction, self.target = prediction, target
        self.log_scale, self.log_density = log_scale, log_density
        self.middle_scale = float(log_scale.mean()) if middle_scale is None else middle_scale
        error = float((target - prediction).abs().median()) * 1.48
        self.usual_log_scale = math.log(max(error, 1e-4))

    def __len__(self) -> int:
        return len(self.target)

    def subset(self, rows: Tensor) -> _ScaledMixture:
        """Return the likelihood of some of the samples."""
        return _ScaledMixture(
            self.prediction[rows],
            self.target[rows],
            self.log_scale[rows],
            self.log_density[rows],
            self.middle_scale,
        )

    def starts(self) -> list[Tensor]:
        """Return the starting parameters of the fit."""
        first = self.usual_log_scale - 0.3
        return [torch.tensor([first, 1.0, 2.0, odds], dtype=torch.float64) for odds in STARTS]

    def log_scales(self, parameters: Tensor) -> Tensor:
        """Return the log scale of the errors, shape (samples,)."""
        return parameters[0] + parameters[1] * (self.log_scale - self.middle_scale)

    def log_densities(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density of each target if it is correct, and if it is incorrect."""
        error = self.target - self.prediction
        return log_student(error, self.log_scales(parameters), parameters[2]), self.log_density

    def log_prior(self, parameters: Tensor) -> Tensor:
        """Return the log prior: errors of observed size and predicted scale, with light tails."""
        prior = 0.5 * (parameters[0] - self.usual_log_scale).square()
        prior = prior + 2.0 * (parameters[1] - 1.0).square()
        return -prior - 0.25 * (parameters[2] - 2.0).square()

    def fraction_found(self, parameters: Tensor) -> float:
        """See `TargetNoise.fraction_found`."""
        generator = torch.Generator().manual_seed(0)
        here = torch.randint(len(self), (EXCHANGES,), generator=generator)
        there = torch.randint(len(self), (EXCHANGES,), generator=generator)
        error = self.target[there] - self.prediction[here]
        correct = log_student(error, self.log_scales(parameters)[here], parameters[2])
        odds = math.log(REFERENCE_RATE / (1.0 - REFERENCE_RATE))
        return float((self.log_density[there] - correct + odds > 0.0).double().mean())


def _log_density(targets: Array) -> Array:
    """Return the log of a kernel density of the targets at each of them.

    Kernels are wider where targets are rare (Abramson, 1982).
    """
    distinct, back = np.unique(targets, return_inverse=True)
    centres = targets
    if len(targets) > KERNEL_ROWS:
        places = (np.arange(KERNEL_ROWS) + 0.5) / KERNEL_ROWS
        centres = np.asarray(np.quantile(targets, places), dtype=np.float64)
    low, high = np.quantile(targets, (0.25, 0.75))
    spread = min(float(targets.std()), float(high - low) / 1.349) or 1.0
    width = np.full(len(centres), 0.9 * spread * len(targets) ** -0.2)
    first = _kernel_density(centres, centres, width)
    width *= np.clip((first / np.exp(np.log(first).mean())) ** -0.5, NARROWEST, WIDEST)
    return np.asarray(np.log(_kernel_density(distinct, centres, width))[back])


def _kernel_density(points: Array, centres: Array, width: Array) -> Array:
    density = np.empty(len(points))
    for start in range(0, len(points), 1024):
        some = slice(start, start + 1024)
        distance = (points[some, None] - centres) / width
        density[some] = (np.exp(-0.5 * distance**2) / width).mean(1) / math.sqrt(2 * math.pi)
    return np.maximum(density, 1e-30)
