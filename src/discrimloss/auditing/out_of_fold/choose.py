"""Chooses the models to cross-validate for a source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrimloss.auditing.out_of_fold.candidates import (
    Candidate,
    both_candidate,
    feature_candidates,
    table_candidates,
    text_candidates,
)
from discrimloss.auditing.out_of_fold.ngrams import Ngrams, weighted_ngrams
from discrimloss.auditing.sources.base import AuditSource
from discrimloss.auditing.sources.columns import Columns
from discrimloss.auditing.sources.images import Pictures
from discrimloss.auditing.sources.text import Texts
from discrimloss.auditing.sources.word_vectors import has_word_vectors
from discrimloss.data.base import Inputs, TensorInputs

MOST_CLASSES = 300
"""With more classes a network is trained, because linear models and trees take too long."""
WITHOUT_VECTORS = (
    "Texts were audited without an encoder: `pip install 'discrimloss[encoders]'` adds word "
    "vectors, which rank more wrong labels first (average precision 0.67 instead of 0.61 on four "
    "sets of texts)."
)


@dataclass(frozen=True)
class Choice:
    """Models to cross-validate, and notes for the user."""

    candidates: list[Candidate]
    inputs: ComparedInputs
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparedInputs:
    """The inputs by which samples are compared, to find similar ones."""

    values: Any
    """Shape (samples, features), dense or sparse; or images, uint8."""
    by_angle: bool = False
    """Whether only directions are compared, as for word vectors."""
    ngrams: Ngrams | None = None
    """The n-grams of the samples, if they are texts."""


def is_cheap(source: AuditSource) -> bool:
    """Return whether cross-validated models suit a source better than a network."""
    if source.is_regression or len(source.class_names) > MOST_CLASSES:
        return False
    contents = source.contents
    return not isinstance(contents, Pictures) or contents.is_encoded


def choose_candidates(source: AuditSource, cache: Path | None) -> Choice:
    """Return the default models.

    Args:
        source: the audited source, for which `is_cheap` is true.
        cache: a directory for the features of an encoder.
    """
    contents, classes = source.contents, len(source.class_names)
    if isinstance(contents, Texts):
        return _of_texts(contents, cache, source.fingerprint())
    if isinstance(contents, Columns):
        return _of_columns(contents, classes)
    inputs: Any = contents.model_inputs(cache, source.fingerprint()).inputs
    features = inputs.tensor.numpy()
    return Choice(feature_candidates(features, classes), ComparedInputs(features))


def compared_inputs(source: AuditSource, inputs: Inputs | None) -> ComparedInputs:
    """Return the inputs by which samples are compared if no models were chosen.

    Args:
        source: the audited source.
        inputs: inputs of the network, if one was trained.
    """
    contents = source.contents
    if isinstance(inputs, TensorInputs):
        return ComparedInputs(inputs.tensor.numpy())
    if isinstance(contents, Texts):
        ngrams = weighted_ngrams(contents.texts, "word", (1, 2))
        return ComparedInputs(ngrams.matrix, by_angle=True, ngrams=ngrams)
    if isinstance(contents, Columns):
        return ComparedInputs(contents.ordinal_and_features()[1])
    raw: Any = contents.model_inputs(None, source.fingerprint()).inputs
    return ComparedInputs(raw.tensor.numpy())


def _of_columns(contents: Columns, classes: int) -> Choice:
    ordinal, features = contents.ordinal_and_features()
    found = table_candidates(ordinal, features, classes)
    notes: tuple[str, ...] = ()
    texts = contents.texts()
    if texts is not None:
        of_texts = text_candidates(texts, None, has_word_vectors())
        found += [*of_texts, both_candidate(features, texts)]
        notes = () if has_word_vectors() else (WITHOUT_VECTORS,)
    return Choice(found, ComparedInputs(features), notes)


def _of_texts(contents: Texts, cache: Path | None, fingerprint: str) -> Choice:
    encoded = contents.encoded(cache, fingerprint)
    static = contents.may_choose_encoder and has_word_vectors()
    found = text_candidates(contents.texts, encoded, static)
    is_without = contents.may_choose_encoder and not static
    # Models are in the order n-grams, word vectors, encoder. The inputs of the last one represent
    # the meaning of texts best, so texts are compared by these.
    ngrams = next((one.ngrams for one in found if one.ngrams is not None), None)
    inputs = ComparedInputs(found[-1].inputs, by_angle=True, ngrams=ngrams)
    return Choice(found, inputs, (WITHOUT_VECTORS,) if is_without else ())
