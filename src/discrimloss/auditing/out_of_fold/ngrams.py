"""N-grams of texts with their weights, and the n-gram of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.word_vectors import LONGEST_TEXT
from discrimloss.training.processes import divided

BUCKETS = 2**20
TEXTS_AT_ONCE = 5_000


@dataclass(frozen=True)
class Ngrams:
    """TF-IDF of the n-grams of texts."""

    matrix: Any
    """Shape (texts, n-grams), sparse."""
    buckets: npt.NDArray[np.int64]
    """Shape (n-grams,), sorted: the hash of each n-gram."""
    counter: Any
    """Counts n-grams: a `HashingVectorizer`."""

    @cached_property
    def _analyze(self) -> Any:
        return self.counter.build_analyzer()

    def names(self, text: str) -> dict[int, str]:
        """Return the n-grams of a text by their column.

        If two n-grams share a column, the first is returned.
        """
        from sklearn.utils import murmurhash3_32

        named: dict[int, str] = {}
        for ngram in self._analyze(text[:LONGEST_TEXT]):
            bucket = abs(int(murmurhash3_32(ngram, seed=0))) % BUCKETS
            column = int(np.searchsorted(self.buckets, bucket))
            if column < len(self.buckets) and self.buckets[column] == bucket:
                named.setdefault(column, ngram)
        return named


def weighted_ngrams(texts: Sequence[str], analyzer: str, lengths: tuple[int, int]) -> Ngrams:
    """Return the TF-IDF of n-grams that occur in two or more texts.

    Args:
        texts: one per sample.
        analyzer: ``"word"`` or ``"char_wb"``, characters within words.
        lengths: the shortest and the longest n-grams.
    """
    from scipy import sparse
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    # Hashing needs no vocabulary in memory. Unused buckets are left out.
    counter = HashingVectorizer(
        n_features=BUCKETS,
        analyzer=analyzer,
        ngram_range=lengths,
        alternate_sign=False,
        norm=None,
    )

    def counted(first: int) -> Any:
        return counter.transform(
            [text[:LONGEST_TEXT] for text in texts[first : first + TEXTS_AT_ONCE]]
        )

    counts = sparse.vstack(divided(range(0, len(texts), TEXTS_AT_ONCE), counted), format="csc")
    buckets = np.flatnonzero(np.diff(counts.indptr) >= min(2, len(texts)))
    counts = counts[:, buckets].tocsr()
    if not counts.shape[1]:
        counts = sparse.csr_matrix((len(texts), 1))  # no common n-grams
    return Ngrams(TfidfTransformer(sublinear_tf=True).fit_transform(counts), buckets, counter)
