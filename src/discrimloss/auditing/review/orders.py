"""Orders of review: worst first, at random, or group by group with the largest gain first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.review.queue import ReviewQueue
from discrimloss.auditing.review.similar import duplicate_codes, similar_codes
from discrimloss.auditing.sources.base import AuditSource
from discrimloss.judging.verdicts import INCORRECT

WORST, RANDOM = "worst", "random"
BY_CLASS, SIMILAR, DUPLICATES = "class", "similar", "duplicates"
ORDERS = (WORST, RANDOM, BY_CLASS, SIMILAR, DUPLICATES)
UNGROUPED = (WORST, RANDOM)
LARGEST_GROUP = 48
"""Maximum size of a group, so that a reviewer sees it at once. Larger groups are divided."""
MOST_COMPARED = 2_000
"""Maximum number of compared samples, worst first. The others are in no group."""
OF_OTHERS = 1e-3
"""Factor of the gain of samples that are not called incorrect. It is so small that these samples
only decide between otherwise equal groups."""

RANDOM_SEED = 0

Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """An order of all samples. Ranks are those of `ReviewQueue`."""

    rank: Ranks
    """Shape (samples,): the rank of the sample at each place."""
    place: Ranks
    """Shape (samples,): the place of the sample of each rank."""
    group: Ranks
    """Shape (samples,), by rank: the group of each sample. Groups are numbered in this order; -1
    for none."""


def worst_first(samples: int) -> Order:
    """Return the order of the ranks, without groups."""
    return ungrouped(np.arange(samples, dtype=np.int64))


def ungrouped(rank: Ranks) -> Order:
    """Return an order without groups.

    Args:
        rank: shape (samples,): the rank of the sample at each place.
    """
    place = np.empty_like(rank)
    place[rank] = np.arange(len(rank))
    return Order(rank, place, np.full(len(rank), -1, np.int64))


def grouped(
    code: npt.NDArray[Any], gain: npt.NDArray[Any], outer: npt.NDArray[Any] | None = None
) -> Order:
    """Return an order by groups: largest sum of gains first, and by rank within a group.

    Args:
        code: shape (samples,), by rank: the group of each sample, -1 for none.
        gain: shape (samples,), by rank: the gain from a review of each sample.
        outer: shape (samples,), by rank: groups with equal values stay together. If None, only
            gains and ranks determine the order.
    """
    ranks = np.flatnonzero(code >= 0)
    _, number = np.unique(code[ranks], return_inverse=True)
    of_group = np.bincount(number, gain[ranks])[number] if len(ranks) else gain[ranks]
    around = np.zeros(len(ranks), np.int64) if outer is None else outer[ranks]
    _, family = np.unique(around, return_inverse=True)
    of_family = np.bincount(family, gain[ranks])[family] if len(ranks) else gain[ranks]
    order = np.lexsort((ranks, number, -of_group, family, -of_family))
    number = number[order]
    begins = np.flatnonzero(np.r_[True, number[1:] != number[:-1]][: len(number)])
    sizes = np.diff(np.r_[begins, len(number)])
    part = (np.arange(len(number)) - np.repeat(begins, sizes)) // LARGEST_GROUP
    is_new = np.r_[False, (number[1:] != number[:-1]) | (part[1:] != part[:-1])][: len(number)]
    group = np.full(len(code), -1, np.int64)
    group[ranks[order]] = np.cumsum(is_new)
    rank = np.concatenate([ranks[order], np.flatnonzero(code < 0)]).astype(np.int64)
    place = np.empty_like(rank)
    place[rank] = np.arange(len(rank))
    return Order(rank, place, group)


class ReviewOrders:
    """All orders of a queue, each computed on first use. Safe for many threads.

    Args:
        queue: the samples.
        source: the audited source.
        duplicates: shape (samples,), by index: the group of duplicates of each sample, -1 for none.
            If None, contents are compared.
        cache: the directory with cached pixels or features of the audit.
    """

    def __init__(
        self,
        queue: ReviewQueue,
        source: AuditSource,
        duplicates: npt.NDArray[Any] | None = None,
        cache: Path | None = None,
    ) -> None:
        self._queue, self._source, self._cache = queue, source, cache
        self._duplicates = duplicates
        self._made = {WORST: worst_first(len(queue))}
        self._making = Lock()

    @property
    def names(self) -> list[str]:
        """The available orders for this source."""
        return [name for name in ORDERS if name != BY_CLASS or not self._source.is_regression]

    def get(self, name: str) -> Order:
        """Return an order by its name, one of `names`."""
        makers: dict[str, Callable[[], Order]] = {
            RANDOM: self._random,
            BY_CLASS: self._by_class,
            SIMILAR: self._similar,
            DUPLICATES: self._same,
        }
        with self._making:
            if name not in self._made:
                self._made[name] = makers[name]()
            return self._made[name]

    def _random(self) -> Order:
        """Return a random order, the same in every review and independent of the verdicts."""
        index = np.random.default_rng(RANDOM_SEED).permutation(len(self._queue))
        return ungrouped(self._queue.rank_of[index].astype(np.int64))

    def _gain(self) -> npt.NDArray[Any]:
        verdicts, index = self._queue.verdicts, self._queue.index
        p = np.nan_to_num(verdicts.p_incorrect[index].astype(np.float64))
        return np.where(verdicts.code[index] == INCORRECT, p, OF_OTHERS * p)

    def _by_class(self) -> Order:
        given, suggested = self._queue.label_codes()
        classes = len(self._queue.class_names)
        pair = given * (classes + 1) + np.where(suggested < 0, given, suggested)
        return grouped(np.where(given < 0, -1, pair), self._gain(), given)

    def _similar(self) -> Order:
        """Return groups of similar samples of one verdict, because reviewers filter by verdict."""
        verdict = self._queue.verdicts.code[self._queue.index]
        code = np.full(len(self._queue), -1, np.int64)
        for value in np.unique(verdict[:MOST_COMPARED]):
            ranks = np.flatnonzero(verdict[:MOST_COMPARED] == value)
            found = similar_codes(self._source, self._queue.index[ranks], self._cache)
            code[ranks] = found + code.max() + 1
        return grouped(code, self._gain())

    def _same(self) -> Order:
        queue = self._queue
        if self._duplicates is None:
            worst = queue.index[:MOST_COMPARED]
            self._duplicates = duplicate_codes(self._source, worst, self._cache)
        return grouped(np.asarray(self._duplicates)[queue.index], self._gain())
