"""Which models to cross-validate for a source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrimloss.auditing.out_of_fold.candidates import (
    Candidate,
    feature_candidates,
    table_candidates,
    text_candidates,
)
from discrimloss.auditing.sources.base import AuditSource, SourceError
from discrimloss.auditing.sources.columns import Columns
from discrimloss.auditing.sources.images import Pictures
from discrimloss.auditing.sources.text import Texts
from discrimloss.auditing.sources.word_vectors import has_word_vectors

MOST_CLASSES = 300
"""With more classes a network is trained: linear models and trees need too long."""
WITHOUT_VECTORS = (
    "Texts were judged without an encoder: `pip install 'discrimloss[encoders]'` adds word "
    "vectors, which find more wrong labels."
)


@dataclass(frozen=True)
class Choice:
    """Models to cross-validate, and what the user should know about them."""

    candidates: list[Candidate]
    notes: tuple[str, ...] = ()


def is_cheap(source: AuditSource) -> bool:
    """Whether cross-validated models suit a source better than a trained network."""
    if source.is_regression or len(source.class_names) > MOST_CLASSES:
        return False
    contents = source.contents
    return not isinstance(contents, Pictures) or contents.is_encoded


def choose_candidates(source: AuditSource, cache: Path | None) -> Choice:
    """The models that are tried by default.

    Args:
        source: what is audited; `is_cheap` holds.
        cache: a directory for the features of an encoder.
    """
    contents, classes = source.contents, len(source.class_names)
    if isinstance(contents, Texts):
        return _of_texts(contents, cache, source.fingerprint())
    if isinstance(contents, Columns):
        ordinal, features = contents.ordinal_and_features()
        return Choice(table_candidates(ordinal, features, classes))
    inputs: Any = contents.model_inputs(cache, source.fingerprint()).inputs
    return Choice(feature_candidates(inputs.tensor.numpy(), classes))


def estimator_candidate(source: AuditSource, estimator: Any) -> Candidate:
    """A scikit-learn classifier of the user, which gets the inputs as they are.

    Raises:
        SourceError: it cannot be used.
    """
    from sklearn.base import clone

    name = type(estimator).__name__
    if not hasattr(estimator, "fit") or not hasattr(estimator, "predict_proba"):
        raise SourceError(
            f"model= is a {name} without fit and predict_proba: give a scikit-learn classifier"
        )
    if source.is_regression:
        raise SourceError("model= an estimator judges classes, and these labels are numbers")
    inputs = source.contents.raw_inputs()
    if inputs is None:
        raise SourceError("model= an estimator learns from texts, tables and features, not images")
    return Candidate(name, inputs, lambda: clone(estimator), takes_weights=False)


def _of_texts(contents: Texts, cache: Path | None, fingerprint: str) -> Choice:
    encoded = contents.encoded(cache, fingerprint)
    static = contents.may_choose_encoder and has_word_vectors()
    found = text_candidates(contents.texts, encoded, static)
    is_without = contents.may_choose_encoder and not static
    return Choice(found, (WITHOUT_VECTORS,) if is_without else ())
