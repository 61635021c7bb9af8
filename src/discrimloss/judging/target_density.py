"""Probabilities that regression targets are wrong, from predictions and predicted error scales.

A right target scatters around its out-of-fold prediction with the predicted scale, and with heavier
tails than a normal distribution. A wrong target is drawn from the distribution of all targets. In
contrast to `regression_noise`, the scale of the errors is known for each sample beforehand, and the
predictions come from models that were trained on trusted targets, so they are not stretched.
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
"""Targets are clipped at this many spreads from the median."""
MOST_FITTED = 20_000
"""Samples in a fit."""
STARTS = (-3.0, -1.0)
"""Starting points: log-odds of the noise rate."""
REFERENCE_RATE = 0.1
"""Whether targets can be judged is measured with this fraction of wrong ones."""
LEAST_FOUND = 0.15
"""Fraction of wrong targets that would be called wrong: fewer, and the inputs say too little."""
EXCHANGES = 20_000
"""Pairs of samples whose targets are exchanged in thought to measure that."""
KERNEL_ROWS = 2_000
"""Targets that the density of all targets is estimated from."""
NARROWEST, WIDEST = 0.2, 10.0
"""Bandwidth of a kernel where targets are densest and rarest, in usual bandwidths."""


class ScaledTargets:
    """How targets are scaled for learning, and the density of all targets on that scale.

    Args:
        given: shape (samples,), float64.
        by_rank: whether targets become normal scores, which suits skewed ones. Otherwise they are
            centred at their median and divided by their spread.
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
        """Values in the unit of the targets on this scale."""
        if self.by_rank:
            return np.asarray(self._scores(torch.from_numpy(values)).numpy())
        scaled = (values - self._middle) / self._spread
        return np.asarray(np.clip(scaled, -FARTHEST, FARTHEST))

    def back(self, values: Array) -> Array:
        """Values on this scale in the unit of the targets."""
        if self.by_rank:
            return np.asarray(self._scores.inverse(torch.from_numpy(values)).numpy())
        return np.asarray(values * self._spread + self._middle)


@dataclass(frozen=True)
class TargetNoise:
    """What a fit found; arrays of shape (samples,)."""

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
        """Where the fraction of wrong targets lies with a probability of about 90 %."""
        return self.mixture.noise_interval(self.parameters, torch.from_numpy(self.p_incorrect))

    def fraction_found(self) -> float:
        """Fraction of exchanged targets that would be called wrong if a tenth were exchanged."""
        return self.mixture.fraction_found(self.parameters)


def fit_target_noise(
    scale: ScaledTargets, prediction: Array, log_scale: Array | None = None
) -> TargetNoise:
    """Estimate which targets are wrong.

    Args:
        scale: of the targets.
        prediction: shape (samples,): out of fold, on that scale.
        log_scale: shape (samples,): log of the size of the errors that are expected, up to a
            constant. By default it is the same for all samples.
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
    correct, incorrect = everything.log_parts(parameters)
    gain = torch.logaddexp(correct, incorrect) - everything.log_density
    return TargetNoise(
        score=(incorrect - correct).numpy(),
        scale=everything.log_scales(parameters).exp().numpy(),
        gain=float(gain.mean()),
        mixture=mixture,
        parameters=parameters,
    )


def never_wrong(score: Array) -> Array:
    """Scores in the same order that call no target wrong."""
    return np.asarray(score - score.max() - NEVER)


class _ScaledMixture(TargetMixture):
    """The targets of some samples as a function of four parameters.

    These are: the log scale of the errors, how much of the predicted scale counts, the weight of
    the tails, and the log-odds of the noise rate.

    Args:
        prediction: shape (samples,), float64.
        target: the same.
        log_scale: the same: predicted, up to a constant.
        log_density: the same: of all targets, at each target.
        middle_scale: the log scale that counts as 0; by default its mean.
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
        """The same for some samples."""
        return _ScaledMixture(
            self.prediction[rows],
            self.target[rows],
            self.log_scale[rows],
            self.log_density[rows],
            self.middle_scale,
        )

    def starts(self) -> list[Tensor]:
        """Parameters to start the fit from."""
        first = self.usual_log_scale - 0.3
        return [torch.tensor([first, 1.0, 2.0, odds], dtype=torch.float64) for odds in STARTS]

    def log_scales(self, parameters: Tensor) -> Tensor:
        """Shape (samples,): log scale of the errors."""
        return parameters[0] + parameters[1] * (self.log_scale - self.middle_scale)

    def log_densities(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Log density of each target if it is correct, and if it is incorrect."""
        error = self.target - self.prediction
        return log_student(error, self.log_scales(parameters), parameters[2]), self.log_density

    def log_prior(self, parameters: Tensor) -> Tensor:
        """Errors are as large as they look, scale as predicted, and have light tails."""
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
    """Log of a kernel density of the targets at each of them.

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
