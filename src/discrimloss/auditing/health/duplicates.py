"""Samples that occur twice: exactly, or nearly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.health.neighbours import Neighbours

Rows = npt.NDArray[np.int64]
Confirm = Callable[[int, int], bool]
"""Returns whether two samples that lie close to each other are nearly the same."""

NEAR = 0.1
"""Largest distance of near duplicates, as a fraction of the median distance between a sample and
its nearest neighbour."""
NEAR_IF_CONFIRMED = 0.8
"""The same limit if a second check confirms each pair."""
BY_CHANCE = 0.002
"""At most this fraction of the samples may have a near duplicate by chance. For example, in a table
with two columns of numbers, samples lie close together by chance."""
SHINGLE = 5
"""Texts are compared by their shingles: all sequences of this many characters."""
LEAST_OVERLAP = 0.75
LARGEST_DIFFERENCE = 0.05
"""Largest difference between values of nearly equal rows, as a fraction of the column's spread."""
LONGEST_COMPARED = 5_000
"""Number of characters of a text that are compared."""


@dataclass(frozen=True)
class Duplicates:
    """Groups of samples that are the same."""

    group: Rows
    """Shape (samples,): the number of the group of each sample, or -1."""

    @property
    def samples(self) -> Rows:
        """The samples that are in a group, group by group."""
        found = np.flatnonzero(self.group >= 0)
        return found[np.argsort(self.group[found], kind="stable")]

    @property
    def number(self) -> int:
        """Number of groups."""
        return int(self.group.max()) + 1 if len(self.group) else 0

    def only(self, differs: npt.NDArray[Any]) -> Duplicates:
        """Return the groups in which these values differ. Empty values (None) do not count.

        Args:
            differs: shape (samples,): the label or the split of each sample.
        """
        values: dict[int, set[Any]] = {}
        for sample in self.samples.tolist():
            if differs[sample] is not None:
                values.setdefault(int(self.group[sample]), set()).add(differs[sample])
        kept = [number for number, found in values.items() if len(found) > 1]
        return Duplicates(_renumbered(np.where(np.isin(self.group, kept), self.group, -1)))


def exact_duplicates(keys: npt.NDArray[Any]) -> Duplicates:
    """Return groups of samples with the same key.

    Args:
        keys: shape (samples,): equal for samples that are the same.
    """
    _, group, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return Duplicates(_renumbered(np.where(counts[group] > 1, group, -1)))


def near_duplicates(
    neighbours: Neighbours,
    exact: Duplicates,
    confirm: Confirm | None = None,
    by_texts: bool = False,
) -> Duplicates:
    """Return groups of samples that are nearly the same, without groups of only exact copies.

    Args:
        neighbours: the neighbours of all samples.
        exact: groups of exact duplicates, which are not reported again.
        confirm: a second check of each pair. If None, only the distance counts.
        by_texts: whether `confirm` compares texts, which are not nearly the same by chance.
    """
    samples = len(neighbours.index)
    nearest = neighbours.distance[:, :1]
    different = neighbours.distance[neighbours.distance > 1e-6 * float(nearest.max(initial=0.0))]
    if not len(different):
        return Duplicates(np.full(samples, -1, np.int64))
    first_different = np.where(neighbours.distance > 0.0, neighbours.distance, np.inf).min(1)
    usual = float(np.median(first_different[np.isfinite(first_different)]))
    limit = NEAR if confirm is None else NEAR_IF_CONFIRMED
    reach = usual * (limit if by_texts else min(limit, _limit_of_chance(neighbours.distance)))
    row, place = np.nonzero(neighbours.distance <= reach)
    other = neighbours.index[row, place]
    low, high = np.minimum(row, other), np.maximum(row, other)
    is_exact = (exact.group[low] >= 0) & (exact.group[low] == exact.group[high])
    pairs = np.unique(np.stack([low, high], 1)[~is_exact & (low != high)], axis=0)
    if confirm is not None:
        pairs = pairs[[confirm(first, second) for first, second in pairs.tolist()]]
    if not len(pairs):
        return Duplicates(np.full(samples, -1, np.int64))
    return Duplicates(_joined(samples, pairs, exact))


def _limit_of_chance(distance: npt.NDArray[Any]) -> float:
    """Return the distance within which a fraction `BY_CHANCE` of the samples has another sample.

    The unit is the median distance to the nearest neighbour. The result depends on the number of
    dimensions that the samples fill. This number is estimated from the ratio of the distances to
    the farthest and the nearest neighbour.

    Args:
        distance: shape (samples, neighbours), nearest first.
    """
    others = distance.shape[1] - 1
    from_first = distance[distance[:, 0] > 0.0].astype(np.float64)
    if others < 1 or not len(from_first):
        return 1.0
    growth = float(np.median(np.log(from_first[:, -1] / from_first[:, 0])))
    if growth <= 0.0:
        return 1.0
    # If samples are spread evenly, (first / last) ** dimensions is distributed like the smallest of
    # `others` uniform numbers. The nearest neighbour of a sample is farther away than a distance
    # with the probability 0.5 ** (distance / median) ** dimensions.
    dimensions = -np.log(1.0 - 0.5 ** (1.0 / others)) / growth
    return float((BY_CHANCE / np.log(2.0)) ** (1.0 / dimensions))


def _joined(samples: int, pairs: Rows, exact: Duplicates) -> Rows:
    """Return the group number of each sample that has near duplicates, -1 for all others.

    Samples that are connected by pairs or by exact copies are in the same group.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    copies = exact.samples
    same = exact.group[copies[:-1]] == exact.group[copies[1:]]
    first = np.concatenate([pairs[:, 0], copies[:-1][same]])
    second = np.concatenate([pairs[:, 1], copies[1:][same]])
    graph = sparse.coo_matrix((np.ones(len(first), bool), (first, second)), (samples, samples))
    _, group = connected_components(graph, directed=False)
    with_near = np.unique(group[pairs[:, 0]])
    return _renumbered(np.where(np.isin(group, with_near), group, -1))


def _renumbered(group: npt.NDArray[Any]) -> Rows:
    """Return the groups numbered from 0, in the order of their first samples."""
    result = np.full(len(group), -1, np.int64)
    is_in = group >= 0
    _, first, inverse = np.unique(group[is_in], return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    result[is_in] = rank[inverse]
    return result


def rows_confirm(features: npt.NDArray[Any]) -> Confirm:
    """Return a function that checks whether two rows are nearly equal in every column.

    Args:
        features: shape (rows, features): numbers scaled to a spread of 1, and one-hot
            categories.
    """

    def confirm(first: int, second: int) -> bool:
        return bool(np.abs(features[first] - features[second]).max() <= LARGEST_DIFFERENCE)

    return confirm


def plain_text(text: str) -> str:
    """Return a text with normalised case and spaces, because copies may differ in these."""
    return " ".join(text.casefold().split())


def texts_confirm(texts: Sequence[str]) -> Confirm:
    """Return a function that checks whether two texts share most of their shingles."""
    made: dict[int, frozenset[str]] = {}

    def shingles(index: int) -> frozenset[str]:
        if index not in made:
            text = plain_text(texts[index][:LONGEST_COMPARED])
            last = max(len(text) - SHINGLE + 1, 1)
            made[index] = frozenset(text[place : place + SHINGLE] for place in range(last))
        return made[index]

    def confirm(first: int, second: int) -> bool:
        one, other = shingles(first), shingles(second)
        common = len(one & other)
        return common >= LEAST_OVERLAP * (len(one) + len(other) - common)

    return confirm
