"""Words and columns that suggest one class rather than another.

The score of a word or a value is the log ratio of its frequencies in the two classes, as in naive
Bayes, so no model is trained. Samples called incorrect are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]

MOST_CLUES = 4
LEAST_Z = 1.5
"""The score of a clue is at least this many standard errors from 0."""
LEAST_RATIO = 2.0
"""A word must be this many times as frequent in one class as in the other. This leaves out words
such as "is" and "its", which many texts contain."""
SMOOTHING = 0.5
CLASSES_KEPT = 64
"""The word counts of this many classes are cached."""
MOST_BINS = 8
MOST_CATEGORIES = 64
MOST_COLUMNS = 3
MISSING = "missing values occur"


@dataclass(frozen=True)
class Clues:
    """Words or columns of a sample that support its suggested class, or its given class."""

    suggested: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


def word_clues(
    matrix: Any,
    names: Callable[[int], dict[int, str]],
    target: npt.NDArray[np.int64],
    trusted: npt.NDArray[np.bool_],
    rows: Rows,
    suggested: Rows,
) -> list[Clues]:
    """Return the words of texts that support the suggested class, and the given class.

    Args:
        matrix: TF-IDF, sparse, shape (texts, n-grams).
        names: returns the n-grams of a text, by their column. The argument is the text's row.
        target: shape (texts,): given classes.
        trusted: shape (texts,): which texts to learn from.
        rows: texts to explain.
        suggested: shape (rows,): their suggested classes.
    """
    from scipy import sparse

    classes = int(target.max()) + 1
    learned = np.flatnonzero(trusted)
    ones = np.ones(len(learned), np.float32)
    of_class = sparse.csr_matrix(
        (ones, (target[learned], np.arange(len(learned)))), (classes, len(learned))
    )
    is_there = matrix[learned]
    is_there = sparse.csr_matrix(
        (np.ones(is_there.nnz, np.float32), is_there.indices, is_there.indptr), is_there.shape
    )
    counts = (of_class @ is_there).tocsr()

    @lru_cache(maxsize=CLASSES_KEPT)
    def counted(label: int) -> npt.NDArray[Any]:
        return np.asarray(counts[label].todense()).ravel()

    texts = np.bincount(target[learned], minlength=classes).astype(np.float64)
    found = []
    for row, other in zip(rows.tolist(), suggested.tolist(), strict=True):
        own = int(target[row])
        begin, end = matrix.indptr[row], matrix.indptr[row + 1]
        columns, weights = matrix.indices[begin:end], matrix.data[begin:end]
        if other == own or not len(columns):
            found.append(Clues())
            continue
        z = _standard_scores(
            counted(other)[columns], counted(own)[columns], texts[other], texts[own], LEAST_RATIO
        )
        words = names(row)
        found.append(
            Clues(
                _best_words(columns, z, weights, words),
                _best_words(columns, -z, weights, words),
            )
        )
    return found


def _standard_scores(
    one: npt.NDArray[Any],
    other: npt.NDArray[Any],
    of_one: Any,
    of_other: Any,
    least_ratio: float = 1.0,
) -> npt.NDArray[np.float64]:
    """Return the log ratio of the frequencies in two classes, in standard errors.

    It is 0 if neither frequency is at least ``least_ratio`` times the other.
    """
    one, other = one.astype(np.float64) + SMOOTHING, other.astype(np.float64) + SMOOTHING
    ratio = np.log(one / (of_one + 2 * SMOOTHING)) - np.log(other / (of_other + 2 * SMOOTHING))
    scores = ratio / np.sqrt(1.0 / one + 1.0 / other)
    return np.asarray(np.where(np.abs(ratio) < np.log(least_ratio), 0.0, scores))


def _best_words(
    columns: npt.NDArray[Any],
    z: npt.NDArray[np.float64],
    weights: npt.NDArray[Any],
    names: dict[int, str],
) -> tuple[str, ...]:
    chosen: list[str] = []
    seen: set[str] = set()
    for place in np.argsort(-z * weights, kind="stable").tolist():
        if z[place] < LEAST_Z or len(chosen) == MOST_CLUES:
            break
        name = names.get(int(columns[place]))
        if name is None or seen & set(name.split()):  # has a word of a better clue
            continue
        seen |= set(name.split())
        chosen.append(name)
    return tuple(chosen)


def column_clues(
    frame: Any,
    target: npt.NDArray[np.int64],
    class_names: Sequence[str],
    trusted: npt.NDArray[np.bool_],
    rows: Rows,
    suggested: Rows,
) -> list[Clues]:
    """Return the columns of a table that suggest the suggested class, and the given class.

    Args:
        frame: a data frame with the columns that models learn from.
        target: shape (rows of the frame,): given classes.
        class_names: one per class.
        trusted: which rows to learn from.
        rows: rows to explain.
        suggested: shape (rows,): their suggested classes.
    """
    own = target[rows]
    columns = [one for name in frame if (one := _binned(frame[name])) is not None]
    gains, texts = [], []
    per_class = np.bincount(target[trusted], minlength=len(class_names))
    for column in columns:
        counts = np.zeros((len(class_names), len(column.names)))
        np.add.at(counts, (target[trusted], column.codes[trusted]), 1.0)
        fraction = counts / np.maximum(per_class, 1)[:, None]
        code = column.codes[rows]
        gains.append(
            _standard_scores(
                counts[suggested, code], counts[own, code], per_class[suggested], per_class[own]
            )
        )
        texts.append((column, fraction))
    if not gains:
        return [Clues()] * len(rows)
    gain = np.stack(gains, 1)

    def clue(place: int, number: int, first: int, second: int) -> str:
        column, fraction = texts[number]
        code = int(column.codes[rows[place]])
        percent = [f"{100 * fraction[label, code]:.0f} %" for label in (first, second)]
        return (
            f"{column.shown(int(rows[place]))}; {column.names[code]} in {percent[0]} of the "
            f"samples labelled {class_names[first]!r} and {percent[1]} of those labelled "
            f"{class_names[second]!r}"
        )

    found = []
    for place in range(len(rows)):
        order = np.argsort(-gain[place], kind="stable").tolist()
        pro = [n for n in order[:MOST_COLUMNS] if gain[place, n] >= LEAST_Z]
        contra = [n for n in order[::-1][:MOST_COLUMNS] if gain[place, n] <= -LEAST_Z]
        new, old = int(suggested[place]), int(own[place])
        found.append(
            Clues(
                tuple(clue(place, number, new, old) for number in pro),
                tuple(clue(place, number, old, new) for number in contra),
            )
        )
    return found


@dataclass(frozen=True)
class _Binned:
    """A column with its values grouped into categories or ranges."""

    values: Any
    codes: npt.NDArray[np.int64]
    names: tuple[str, ...]
    """For each code, the subject and verb of a sentence about its values."""

    def shown(self, row: int) -> str:
        value = self.values.iloc[row]
        text = f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)
        return f"{self.values.name} is {text[:40]}"


def _binned(series: Any) -> _Binned | None:
    """Group a column into categories or ranges of equal frequency, or return None."""
    import pandas

    types = pandas.api.types
    is_number = types.is_numeric_dtype(series.dtype) and not types.is_bool_dtype(series.dtype)
    if is_number and series.nunique() > 2 * MOST_BINS:
        values = series.to_numpy(np.float64, na_value=np.nan)
        present = values[np.isfinite(values)]
        if not len(present):
            return None
        edges = np.unique(np.quantile(present, np.linspace(0, 1, MOST_BINS + 1)))
        codes = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, max(len(edges) - 2, 0))
        codes = np.where(np.isfinite(values), codes, max(len(edges) - 1, 1)).astype(np.int64)
        ranges = [f"values from {low:.4g} to {high:.4g} occur" for low, high in pairwise(edges)]
        return _Binned(series, codes, (*(ranges or ["this value occurs"]), MISSING))
    try:
        codes, distinct = pandas.factorize(series)
    except TypeError:  # values such as lists
        return None
    if not 0 < len(distinct) <= MOST_CATEGORIES:
        return None
    codes = np.where(codes < 0, len(distinct), codes).astype(np.int64)
    return _Binned(series, codes, (*["this value occurs"] * len(distinct), MISSING))
