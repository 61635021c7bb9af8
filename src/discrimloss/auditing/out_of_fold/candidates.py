"""The simple models for each kind of data.

All are regularised more than usual, because a model that fits individual labels repeats wrong ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.out_of_fold.ngrams import Ngrams, weighted_ngrams
from discrimloss.auditing.sources.word_vectors import mean_word_vectors

Array = npt.NDArray[Any]

MOST_BOOSTED_CLASSES = 40
"""With more classes, boosting takes too long, because it fits a tree for each class."""
MOST_COMPARED_ROWS = 20_000
"""Largest number of samples in a nearest-neighbour search."""
MOST_FOREST_ROWS = 100_000
MOST_FOREST_FEATURES = 500
MOST_BOOSTED_FEATURES = 200
FEWEST_NGRAMS = 3.0
"""With fewer words and pairs of words per text, characters are used too."""


@dataclass(frozen=True)
class Candidate:
    """A model and its inputs."""

    name: str
    """Name of the model in the summary of an audit."""
    inputs: Any
    """One row per sample: an array, a sparse matrix, a data frame."""
    make: Callable[[], Any]
    """Returns an unfitted scikit-learn classifier."""
    takes_weights: bool = True
    ngrams: Ngrams | None = None
    """The n-grams, if the inputs are n-grams."""


def text_candidates(texts: Sequence[str], encoded: Array | None, static: bool) -> list[Candidate]:
    """Return models of texts.

    Args:
        texts: one per sample.
        encoded: features of a pretrained encoder, shape (texts, width); None without an encoder.
        static: whether to use static word vectors.
    """
    found = []
    words = weighted_ngrams(texts, "word", (1, 2))
    if words.matrix.nnz < FEWEST_NGRAMS * len(texts):  # short texts, or a language without spaces
        characters = weighted_ngrams(texts, "char_wb", (1, 4)).matrix
        found.append(Candidate("characters + logistic regression", characters, _logistic(3.0)))
    if words.matrix.nnz:
        found.append(
            Candidate("TF-IDF + logistic regression", words.matrix, _logistic(3.0), ngrams=words)
        )
    if static:
        vectors = _shrunk(mean_word_vectors(texts))
        found += _linear("word vectors (wordllama) + logistic regression", vectors, (1.0, 10.0))
    if encoded is not None:
        found += _linear("encoder + logistic regression", _shrunk(encoded), (1.0, 10.0))
    return found


def table_candidates(ordinal: Array, features: Array, classes: int) -> list[Candidate]:
    """Return models of tables.

    Args:
        ordinal: shape (rows, columns): numbers unchanged, categories as integers, NaN if missing.
        features: shape (rows, features): scaled numbers and one-hot categories.
        classes: number of classes.
    """
    found = _trees(ordinal, classes)
    return [*found, *_linear("logistic regression", features, (0.1,))]


def both_candidate(features: Array, texts: Sequence[str]) -> Candidate:
    """Return a model of the columns of a table together with its texts.

    Args:
        features: shape (rows, features): scaled numbers and one-hot categories.
        texts: one per row.
    """
    from scipy import sparse

    both = sparse.hstack(
        [sparse.csr_matrix(features), weighted_ngrams(texts, "word", (1, 2)).matrix]
    )
    name = "columns and TF-IDF + logistic regression"
    return Candidate(name, both.tocsr(), _logistic(1.0))


def feature_candidates(features: Array, classes: int) -> list[Candidate]:
    """Return models of feature arrays, such as those of an encoder.

    Args:
        features: shape (samples, features), standardised.
        classes: number of classes.
    """
    found = _linear("logistic regression", _shrunk(features), (0.1, 3.0))
    if len(features) <= MOST_COMPARED_ROWS:
        found.append(Candidate("nearest neighbours", features, _neighbours, takes_weights=False))
    if features.shape[1] <= MOST_BOOSTED_FEATURES:
        found += _trees(features, classes)
    return found


def _trees(values: Array, classes: int) -> list[Candidate]:
    found = []
    if classes <= MOST_BOOSTED_CLASSES:
        found.append(Candidate("gradient boosting", values, _boosting))
    if len(values) <= MOST_FOREST_ROWS and values.shape[1] <= MOST_FOREST_FEATURES:
        filled = np.nan_to_num(values, nan=-999.0)
        found.append(Candidate("random trees", filled, _forest))
    return found


def _linear(name: str, features: Array, strengths: Sequence[float]) -> list[Candidate]:
    return [
        Candidate(f"{name} (C={strength:g})", features, _logistic(strength))
        for strength in strengths
    ]


def _shrunk(features: Array) -> Array:
    """Scale features so that the mean squared norm of a row is 1, which the values of `C` suit."""
    mean, spread = features.mean(0), features.std(0)
    scale = np.where(spread > 0, spread, np.inf) * features.shape[1] ** 0.5
    return np.asarray((features - mean) / scale, dtype=np.float32)


def _logistic(strength: float) -> Callable[[], Any]:
    def make() -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=strength, max_iter=300)

    return make


def _boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=60,
        learning_rate=0.07,
        max_leaf_nodes=15,
        l2_regularization=5.0,
        early_stopping=False,
        random_state=0,
    )


def _forest() -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(60, min_samples_leaf=2, random_state=0)


def _neighbours() -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(15, weights="distance", algorithm="brute")
