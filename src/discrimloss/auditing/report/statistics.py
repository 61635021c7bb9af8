"""The statistics of the charts, as pure functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discrimloss.judging.class_rates import class_rate

if TYPE_CHECKING:
    import pandas

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]

LOSS_BINS = 48
LOSS_DECADES = 4
"""Maximum range of a loss histogram in powers of ten. The lowest bin includes all lower losses."""
FLUCTUATION_FRACTION = 0.1
"""A jump is a change by more than this fraction of the range of weights."""


def chosen_epochs(number: int, most: int) -> list[int]:
    """Return at most `most` of `number` positions, evenly spaced, including first and last."""
    if number <= most:
        return list(range(number))
    chosen: list[int] = np.unique(np.linspace(0, number - 1, most).round().astype(int)).tolist()
    return chosen


def loss_bin_edges(loss: npt.NDArray[Any], bins: int = LOSS_BINS) -> Numbers:
    """Return the edges of logarithmic bins for all epochs, as powers of ten, shape (bins + 1,).

    The scale ends at the quantile 0.999, so that one huge loss does not push all others into one
    bin. The outermost bins include everything beyond them.
    """
    values = loss[np.isfinite(loss) & (loss > 0)]
    if not len(values):
        return np.linspace(-LOSS_DECADES, 0.0, bins + 1, dtype=np.float64)
    top = float(np.quantile(values, 0.999))
    bottom = max(float(values.min()), top / 10.0**LOSS_DECADES)
    high, low = np.log10(top), np.log10(bottom)
    if high - low < 0.1:  # all equal: widen the range
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1)


def loss_histogram(loss: npt.NDArray[Any], edges: Numbers) -> Counts:
    """Return the number of losses in each bin. The outermost bins include those beyond."""
    values = loss[~np.isnan(loss)].astype(np.float64)
    logs = np.log10(np.maximum(values, 10.0 ** edges[0]))
    counts, _ = np.histogram(np.clip(logs, edges[0], edges[-1]), edges)
    return counts.astype(np.int64)


def fluctuation_threshold(weight: npt.NDArray[Any]) -> float:
    """Return the threshold above which the change of a weight is a jump.

    It is a fraction of the range between the 5 % and 95 % quantiles of all weights. The paper's
    ``T_fluc`` is a constant for one method, but the weights of methods differ in scale.
    """
    values = weight[np.isfinite(weight)]
    if not len(values):
        return 0.0
    low, high = np.quantile(values, [0.05, 0.95])
    return float(FLUCTUATION_FRACTION * (high - low))


def fluctuations(weight: npt.NDArray[Any], threshold: float) -> Counts:
    """Return how often each sample's weight jumps between two epochs, shape (samples,)."""
    with np.errstate(invalid="ignore"):
        jumps = np.abs(np.diff(weight.astype(np.float64), axis=0)) > threshold
    number: Counts = jumps.sum(axis=0).astype(np.int64)
    return number


@dataclass(frozen=True)
class Box:
    """The five numbers of a box plot."""

    low: float
    first_quartile: float
    median: float
    third_quartile: float
    high: float


def box_of(values: npt.NDArray[Any]) -> Box:
    """Return the quartiles, and the outermost values within 1.5 interquartile ranges of them."""
    first, median, third = np.quantile(values, [0.25, 0.5, 0.75])
    reach = 1.5 * (third - first)
    within = values[(values >= first - reach) & (values <= third + reach)]
    return Box(float(within.min()), float(first), float(median), float(third), float(within.max()))


def data_map(loss: npt.NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Return mean and standard deviation of each sample's losses. NaN if never visited."""
    seen = np.isfinite(loss)
    visits = seen.sum(axis=0)
    values = np.where(seen, loss, 0.0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = values.sum(axis=0) / visits
        deviation = np.where(seen, values - mean, 0.0)
        return mean, np.sqrt((deviation**2).sum(axis=0) / visits)


def spread_out(rows: Rows, order_by: npt.NDArray[Any], most: int) -> Rows:
    """Return at most `most` of the rows, evenly spaced by rank, lowest value first."""
    ranked = rows[np.argsort(order_by[rows], kind="stable")]
    return ranked[chosen_epochs(len(ranked), most)] if len(ranked) else ranked


def sampled(rows: Rows, most: int, generator: np.random.Generator) -> Rows:
    """Return at most `most` of the rows, drawn at random and sorted by row number."""
    if len(rows) <= most:
        return rows
    return np.sort(generator.choice(rows, most, replace=False))


@dataclass(frozen=True)
class Confusion:
    """Pairs of given and suggested classes among the incorrect samples."""

    counts: Counts
    """Shape (pairs,), most frequent first."""
    given: list[str]
    suggested: list[str]
    without_suggestion: int
    """Incorrect samples without another suggestion than the given label."""

    def matrix(self, class_names: Sequence[str]) -> Counts:
        """Return the counts as a matrix, shape (given, suggested)."""
        position = {name: number for number, name in enumerate(class_names)}
        matrix = np.zeros((len(class_names), len(class_names)), dtype=np.int64)
        for count, given, suggested in zip(self.counts, self.given, self.suggested, strict=True):
            matrix[position[given], position[suggested]] += count
        return matrix


def confusion(samples: pandas.DataFrame) -> Confusion:
    """Count the pairs of given and suggested classes among the incorrect samples."""
    incorrect = samples[samples["verdict"].astype(str) == "incorrect"]
    other = incorrect[incorrect["suggested"].notna()]
    other = other[other["suggested"].astype(str) != other["given"].astype(str)]
    pairs = other.groupby([other["given"].astype(str), other["suggested"].astype(str)]).size()
    # Ties are sorted by name, so that reports are reproducible.
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return Confusion(
        np.array([count for _, count in ordered], dtype=np.int64),
        [given for (given, _), _ in ordered],
        [suggested for (_, suggested), _ in ordered],
        len(incorrect) - len(other),
    )


@dataclass(frozen=True)
class GroupNoise:
    """Estimated noise of a class, or of a range of the target."""

    name: str
    count: int
    estimated: float
    """Mean of the probabilities that labels are incorrect."""
    interval: tuple[float, float] | None
    """Interval that probably contains the fraction of wrong labels. None if unknown."""
    true: float | None
    """True fraction of wrong labels, if known."""


def class_noise(
    samples: pandas.DataFrame,
    is_regression: bool,
    ranges: int = 10,
    noise_rate: float | None = None,
    noise_interval: Sequence[float] | None = None,
) -> list[GroupNoise]:
    """Return the noise of each given class, noisiest first, or of each range of regression targets.

    Args:
        samples: the verdicts.
        is_regression: whether labels are regression targets.
        ranges: number of ranges of regression targets, with about equally many samples each.
        noise_rate: noise rate of all labels.
        noise_interval: interval of the noise rate of all labels. If None, no group has an interval.
    """
    seen = samples[samples["verdict"].astype(str) != "unseen"]
    if not len(seen):
        return []
    if is_regression:
        keys = _ranges(seen["given"].to_numpy(dtype=np.float64), ranges)
    else:
        keys = seen["given"].astype(str).to_numpy()
    found = []
    for name, group in seen.groupby(keys, sort=False):
        true = float(group["is_wrong"].mean()) if "is_wrong" in group else None
        p_incorrect = group["p_incorrect"].to_numpy(dtype=np.float64)
        one = class_rate(str(name), p_incorrect, noise_rate, noise_interval)
        found.append(GroupNoise(one.name, one.count, one.rate, one.interval, true))
    if is_regression:
        lowest = {str(n): float(g["given"].min()) for n, g in seen.groupby(keys, sort=False)}
        return sorted(found, key=lambda entry: lowest[entry.name])
    return sorted(found, key=lambda entry: (-entry.estimated, entry.name))


def _ranges(values: Numbers, number: int) -> npt.NDArray[np.object_]:
    """Return the range of each target. Ranges have about the same number of samples."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, number + 1)))
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, max(len(edges) - 2, 0))
    names = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]
    return np.array(names or [f"{edges[0]:.3g}"], dtype=object)[place]
