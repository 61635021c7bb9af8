"""Samples that are unlike all others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.health.neighbours import Neighbours

FEWEST_SAMPLES = 50
"""Minimum number of samples. With fewer, every sample is unlike the others."""
FAR_OUT = 2.0
"""Tukey's rule, for the logarithm of the distance: an outlier is above the upper quartile by more
than this many interquartile ranges. About 4 of 10,000 normally distributed values are."""
WORD = re.compile(r"\w+")
LONGEST_READ = 5_000
"""Maximum number of characters of a text that are read."""
FEWEST_WORDS = 4
KNOWN_IN = 3
"""A word is known if at least this many texts have it."""
LEAST_KNOWN = 0.34
"""A text is strange if a smaller fraction of its words is known. If the median text does not have
twice this fraction, no text is strange."""
LEAST_RATIO = 1.5
"""An outlier is more than this many times as far from its neighbours as the median sample is from
its own, and as its neighbours are from theirs."""


def find_outliers(
    neighbours: Neighbours,
    unexplained: npt.NDArray[np.float32] | None = None,
    texts: Sequence[str] | None = None,
) -> dict[int, str]:
    """Return the outliers, each with a few words on how it differs.

    Strange texts come first, then samples far from others, the farthest first.

    Args:
        neighbours: the neighbours of all samples.
        unexplained: shape (samples,): how much of a sample the principal components leave out.
        texts: one per sample, if samples are texts.
    """
    if len(neighbours.index) < FEWEST_SAMPLES:
        return {}
    found = {} if texts is None else strange_texts(texts)
    rows, times = _far_away(neighbours)
    for row, factor in zip(rows.tolist(), times.tolist(), strict=True):
        found.setdefault(row, f"{factor:.1f} times as far from similar samples as usual")
    if unexplained is not None and texts is None:
        high = _far_out(np.log(np.maximum(unexplained, 1e-9)))
        for row in high[np.argsort(-unexplained[high], kind="stable")].tolist():
            found.setdefault(row, "a pattern that no other samples have")
    return found


def strange_texts(texts: Sequence[str]) -> dict[int, str]:
    """Find texts whose words hardly occur in other texts, such as texts in another language.

    Args:
        texts: one per sample.
    """
    words = [set(WORD.findall(text[:LONGEST_READ].casefold())) for text in texts]
    number = Counter(word for one in words for word in one)
    found: dict[int, tuple[float, str]] = {}
    fractions = []
    for row, own in enumerate(words):
        known = sum(number[word] >= KNOWN_IN for word in own)
        fractions.append(known / max(len(own), 1))
        if len(own) >= FEWEST_WORDS and known < LEAST_KNOWN * len(own):
            found[row] = (known / len(own), f"{known} of {len(own)} words occur in other texts")
    if float(np.median(fractions)) < 2 * LEAST_KNOWN:  # a language without spaces, or few texts
        return {}
    return {row: found[row][1] for row in sorted(found, key=lambda row: found[row])}


def _far_out(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    low, high = np.quantile(values, (0.25, 0.75))
    return np.flatnonzero(values > high + FAR_OUT * (high - low))


def _far_away(neighbours: Neighbours) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the samples far from all others, and their distances in units of the median."""
    nothing = np.empty(0, np.int64), np.empty(0)
    mean = neighbours.distance.mean(1, dtype=np.float64)
    positive = mean[mean > 0.0]
    if not len(positive):
        return nothing
    # Exact copies have the distance 0, which does not show how far apart other samples are.
    logs = np.log(np.maximum(mean, positive.min()))
    low, middle, high = np.quantile(np.log(positive), (0.25, 0.5, 0.75))
    around = np.median(logs[neighbours.index], axis=1)
    least = np.log(LEAST_RATIO)
    is_out = (logs > high + FAR_OUT * (high - low)) & (logs > middle + least)
    is_out &= logs > around + least
    found = np.flatnonzero(is_out)
    order = np.argsort(-logs[found], kind="stable")
    return found[order], np.exp(logs[found[order]] - middle)
