"""Estimates probabilities that labels are incorrect from average losses alone.

There are no clean labels to calibrate against, so the estimate rests on the distribution of the
samples' average losses. On a log scale it is a mixture of two components: correct labels around a
small loss, with a tail of hard samples, and incorrect labels around a large loss, with a tail of
partly memorised labels. Both components are log-F distributions, which have exponential tails with
different rates on each side. The family contains the logarithms of gamma, F (squared errors with
heavy tails) and, as a limit, log-normal losses.

Samples with losses near zero are learned. Only their number is used in the fit, because their
distribution depends on rounding as much as on the data.

Two conditions prevent incorrect labels on clean data. First, the second component must justify its
five parameters by the Bayesian information criterion. Second, it must be near or above the loss
scale of the first epoch: a label that the model cannot learn keeps about the loss that labels have
before training, while hard samples of a learnable task have much smaller losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from discrimloss.histogram import finite_range
from discrimloss.judging.optimization import minimize_with_gradient
from discrimloss.judging.verdicts import LARGEST_LOG_ODDS
from discrimloss.state.exchange import WHOLE_TABLE, Shards

BINS = 256
LEARNED_RATIO = 0.03
"""Samples with losses below this fraction of the scale are learned."""
LEFT_GRID = torch.arange(0.05, 12.0, 0.1, dtype=torch.float64)
"""Distances below the first bin at which the density is summed to the mass below the bin."""
LOG_OF_STEPS = torch.full((len(LEFT_GRID) + 1,), math.log(0.1), dtype=torch.float64)
"""Log of the distance between these points; 0 for the tail below them."""
LOG_OF_STEPS[-1] = 0.0
ANCHOR = 0.5
"""The mode of the incorrect part is above this fraction of the scale."""
RAREST = 1e-3
"""Noise rates below this count as zero."""
LARGEST_SHAPE = 4.0
MOST_ITERATIONS = 60
PRIOR_PRECISION = torch.tensor(2 * [0.0, 1.0, 1.5**-2, 1.5**-2] + [0.0], dtype=torch.float64)
"""Strength of the prior that draws each parameter to 0. Only the shapes have one."""
EXTRA_PARAMETERS = 5
"""Number of additional parameters of two components instead of one."""


@dataclass(frozen=True)
class Calibration:
    """A non-decreasing map from average loss to the log-odds that the label is incorrect."""

    low: float
    """The smaller of 0 and the smallest average loss. Losses are measured from here."""
    scale: float
    first: float
    """Log-scale position of the first bin's centre."""
    width: float
    log_odds_of_bins: Tensor
    """Shape (bins,), float64, at the bin centres."""

    def log_odds(self, losses: Tensor) -> Tensor:
        """Return log-odds of losses of any shape, interpolated between bins. NaN stays NaN."""
        bins = self.log_odds_of_bins.to(losses.device, losses.dtype)
        position = (_log_ratio(losses, self.low, self.scale) - self.first) / self.width
        inside = position.clamp(0, len(bins) - 1)
        left = inside.nan_to_num().long().clamp(max=len(bins) - 2)
        log_odds = torch.lerp(bins[left], bins[left + 1], inside - left)
        # Losses below the first bin are learned.
        return torch.where(position < -0.5, -LARGEST_LOG_ODDS, log_odds)

    def __call__(self, losses: Tensor) -> Tensor:
        """Return probabilities for losses of any shape. NaN stays NaN."""
        return self.log_odds(losses).sigmoid()


def calibrate(
    averages: Callable[[], Iterable[Tensor]], scale: float, shards: Shards = WHOLE_TABLE
) -> Calibration:
    """Fit the mixture to average losses.

    Args:
        averages: returns the samples' average losses in chunks. Called twice. NaN is ignored.
        scale: the loss scale of the first epoch.
        shards: how the samples are divided among processes. All processes get the same fit.
    """
    low, high = finite_range(averages(), shards, start=0.0)
    scale = scale if scale > 0.0 else 1.0  # no sample has a loss yet
    start = math.log(LEARNED_RATIO)
    end = max(math.log(max((high - low) / scale, ANCHOR)), math.log(ANCHOR)) + 1.0
    width = (end - start) / BINS
    counts, learned = torch.zeros(BINS, dtype=torch.int64), 0
    for chunk in averages():
        position = (_log_ratio(chunk[chunk.isfinite()], low, scale) - start) / width
        above = position[position >= 0].long().clamp_(max=BINS - 1)
        counts += torch.bincount(above, minlength=BINS).cpu()
        learned += position.numel() - above.numel()
    *bins, learned = shards.total(torch.cat([counts, torch.tensor([learned])])).tolist()
    counts = torch.tensor(bins)
    with torch.inference_mode(False), torch.enable_grad():
        centers = start + width * (torch.arange(BINS, dtype=torch.float64) + 0.5)
        mixture = _Mixture(centers, counts.clone().double(), float(learned), width)
        log_odds = _incorrect_log_odds(mixture)
    return Calibration(low, scale, float(centers[0]), width, log_odds)


def _log_ratio(losses: Tensor, low: float, scale: float) -> Tensor:
    return torch.log((losses - low) / scale)


class _LogF(NamedTuple):
    """Log density of a log-F distribution at some points, and its derivatives."""

    value: Tensor
    """Shape (points,)."""
    gradient: Tensor
    """Shape (4, points): by the mode and by the three shape parameters."""


def _log_f_density(at: Tensor, mode: Tensor, shape: Tensor, smallest_scale: float) -> _LogF:
    """Return the log density of a log-F distribution. `shape` holds log (s, a, b).

    It falls like ``exp(a z)`` to the left and ``exp(-b z)`` to the right, with ``z`` in units of
    ``s``. No component may be narrower than a bin, because its likelihood would be unbounded.

    Args:
        at: shape (points,). The last point represents the exponential tail below it.
        mode: scalar.
        shape: shape (3,).
        smallest_scale: added to ``s``.
    """
    bounded = LARGEST_SHAPE * torch.tanh(shape / LARGEST_SHAPE)  # beyond, lgamma loses all digits
    sizes = bounded.exp()
    scale, left, right = sizes[0] + smallest_scale, sizes[1], sizes[2]
    both = left + right
    distance = (at - mode) / scale
    z = distance + bounded[1] - bounded[2]
    above = softplus(z)
    log_gamma, digamma = (
        f(torch.stack([left, right, both])) for f in (torch.lgamma, torch.digamma)
    )
    log_beta = log_gamma[0] + log_gamma[1] - log_gamma[2]
    value = left * z - both * above - (log_beta + scale.log())
    by_z = left - both * z.sigmoid()
    gradient = torch.stack(
        [
            -by_z / scale,
            (by_z * distance + 1.0) * (-sizes[0] / scale),
            by_z + left * (z - above + digamma[2] - digamma[0]),
            -by_z + right * (digamma[2] - digamma[1] - above),
        ]
    )
    value[-1] += scale.log() - bounded[1]
    gradient[1, -1] += sizes[0] / scale
    gradient[2, -1] -= 1.0
    gradient[1:] *= (1.0 - (bounded / LARGEST_SHAPE).square())[:, None]
    return _LogF(value, gradient)


@dataclass
class _Mixture:
    """The mixture's likelihood as a function of nine parameters.

    The parameters are: mode and shape (three values) of the correct component, the same of the
    incorrect component, and the log-odds of the noise rate.
    """

    centers: Tensor
    counts: Tensor
    learned: float
    """Number of samples below the first bin."""
    width: float

    def log_components(self, parameters: Tensor) -> tuple[_LogF, _LogF]:
        """Return the log density of both components at the centres, then the mass below."""
        correct = self._log_component(parameters[0], parameters[1:4])
        return correct, self._log_component(self.incorrect_mode(parameters), parameters[5:8])

    def log_odds(self, parameters: Tensor) -> Tensor:
        """Return the log-odds of the incorrect component at the centres."""
        correct, incorrect = self.log_components(parameters)
        return (incorrect.value - correct.value)[:-1] + parameters[8]

    def incorrect_mode(self, parameters: Tensor) -> Tensor:
        return math.log(ANCHOR) + softplus(parameters[4])

    def objective(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log posterior per sample, and its gradient, shape (9,).

        The priors have the weight of a few samples.
        """
        odds = parameters[8]
        correct, incorrect = self.log_components(parameters)
        log_correct = correct.value + logsigmoid(-odds)
        log_incorrect = incorrect.value + logsigmoid(odds)
        log_sum = torch.logaddexp(log_correct, log_incorrect)
        of_correct = self.weights * (log_correct - log_sum).exp()
        of_incorrect = self.weights - of_correct
        by_incorrect = incorrect.gradient @ of_incorrect
        by_incorrect[0] *= parameters[4].sigmoid()
        by_odds = of_incorrect.sum() * (-odds).sigmoid() - of_correct.sum() * odds.sigmoid()
        gradient = torch.cat([correct.gradient @ of_correct, by_incorrect, by_odds[None]])
        pull = parameters * PRIOR_PRECISION
        prior = 0.5 * (parameters * pull).sum() + softplus(math.log(RAREST) - odds)
        pull[8] -= (math.log(RAREST) - odds).sigmoid()
        likelihood = (self.weights * log_sum).sum()
        return (prior - likelihood) / self.number, (pull - gradient) / self.number

    def one_component_objective(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Like `objective`, for a model with only correct labels, which has four parameters."""
        correct = self._log_component(parameters[0], parameters[1:4])
        pull = parameters * PRIOR_PRECISION[:4]
        value = 0.5 * (parameters * pull).sum() - (self.weights * correct.value).sum()
        return value / self.number, (pull - correct.gradient @ self.weights) / self.number

    def _log_component(self, mode: Tensor, shape: Tensor) -> _LogF:
        density = _log_f_density(self.points, mode, shape, self.width)
        bins = len(self.centers)
        masses = density.value[bins:] + LOG_OF_STEPS
        below = masses.logsumexp(0, keepdim=True)
        of_below = density.gradient[:, bins:] @ (masses - below).exp()[:, None]
        return _LogF(
            torch.cat([density.value[:bins], below]),
            torch.cat([density.gradient[:, :bins], of_below], 1),
        )

    @cached_property
    def points(self) -> Tensor:
        """The centres, and the points for the mass below them, with its tail."""
        cut = self.centers[:1] - self.width / 2
        return torch.cat([self.centers, cut - LEFT_GRID, cut - LEFT_GRID[-1:]])

    @cached_property
    def weights(self) -> Tensor:
        """Shape (bins + 1,): the samples in each bin and below."""
        return torch.cat([self.counts, self.counts.new_tensor([self.learned])])

    @property
    def number(self) -> float:
        return max(float(self.counts.sum()) + self.learned, 1.0)

    def one_component_start(self) -> list[float]:
        mode, scale = self._moments(self.counts >= 0, self.learned, fallback=0.0)
        return [mode, scale, 0.0, 0.0]

    def start(self, cut: float) -> list[float]:
        """Return start parameters from a division of the samples at `cut`."""
        below = self.centers < cut
        correct_mean, correct_scale = self._moments(below, self.learned, fallback=cut - 2.0)
        incorrect_mean, incorrect_scale = self._moments(~below, 0.0, fallback=cut + 1.0)
        excess = max(incorrect_mean - math.log(ANCHOR), 0.1)
        rate = float(self.counts[~below].sum()) / self.number
        rate = min(max(rate, RAREST), 1 - RAREST)
        return [
            *(correct_mean, correct_scale, 0.0, 0.0),
            *(math.log(math.expm1(excess)), incorrect_scale, 0.0, 0.0),
            math.log(rate / (1 - rate)),
        ]

    def _moments(self, chosen: Tensor, learned: float, fallback: float) -> tuple[float, float]:
        # Learned samples are somewhere below the first bin: two units is a guess.
        counts = torch.cat([self.counts[chosen], self.counts.new_tensor([learned])])
        centers = torch.cat([self.centers[chosen], self.centers[:1] - 2.0])
        number = float(counts.sum())
        if number == 0:
            return fallback, math.log(0.3)
        mean = float((counts * centers).sum()) / number
        variance = float((counts * (centers - mean).square()).sum()) / number
        # With a = b = 1 the distribution is logistic: its deviation is 1.8 times its scale.
        return mean, math.log(max(math.sqrt(variance), 0.2) / 1.8)


def _incorrect_log_odds(mixture: _Mixture) -> Tensor:
    """Return the incorrect component's log-odds, or the smallest if one component suffices."""
    starts = [mixture.start(math.log(ANCHOR) + offset) for offset in (0.0, 0.7, 1.4)]
    value, parameters = min((_minimize(mixture.objective, s) for s in starts), key=lambda f: f[0])
    one_component_value, _ = _minimize(
        mixture.one_component_objective, mixture.one_component_start()
    )
    gain = (one_component_value - value) * mixture.number
    if not gain > 0.5 * EXTRA_PARAMETERS * math.log(mixture.number):
        return torch.full_like(mixture.centers, -LARGEST_LOG_ODDS)
    mode = float(mixture.incorrect_mode(parameters))
    log_odds = mixture.log_odds(parameters).clamp(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
    return _non_decreasing(log_odds, mixture.centers, mode)


def _minimize(
    objective: Callable[[Tensor], tuple[Tensor, Tensor]], start: list[float]
) -> tuple[float, Tensor]:
    place = torch.tensor(start, dtype=torch.float64)
    return minimize_with_gradient(objective, place, MOST_ITERATIONS, tolerance=1e-5)


def _non_decreasing(log_odds: Tensor, centers: Tensor, peak: float) -> Tensor:
    """Make the log-odds non-decreasing, outwards from the mode of the incorrect part.

    Two fitted tails can cross again where there are almost no samples.
    """
    middle = int((centers < peak).sum().clamp(1, len(centers) - 1))
    below = log_odds[:middle].flip(0).cummin(0).values.flip(0)
    above = torch.cat([below[-1:], log_odds[middle:]]).cummax(0).values[1:]
    return torch.cat([below, above])
