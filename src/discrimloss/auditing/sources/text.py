"""Samples that are texts: hashed n-grams with tf-idf weights, or features of an encoder."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import AuditSource, SourceOptions, Store
from discrimloss.auditing.sources.contents import Contents, LearnedColumn, ModelInputs, SampleView
from discrimloss.auditing.sources.features import (
    cache_file,
    cached_rows,
    require_memory,
    standardised,
)
from discrimloss.auditing.sources.found_encoders import (
    AUTO,
    OF_TEXTS,
    find_encoder,
    may_find,
    named,
)
from discrimloss.auditing.sources.labels import read_samples
from discrimloss.auditing.sources.text_encoder import MOST_TOKENS, TextEncoder
from discrimloss.auditing.sources.word_vectors import (
    WORD_VECTORS,
    has_word_vectors,
    mean_word_vectors,
    names_word_vectors,
)
from discrimloss.data.base import TensorInputs

NO_TEXT = "no text"
MOST_NGRAMS = 2000
"""Maximum number of n-grams of a text. Those with the largest weights are kept."""
WITHOUT_VECTORS = (
    "Texts were audited without an encoder, by a network: `pip install 'discrimloss[encoders]'` "
    "adds word vectors, from which regression targets are predicted better."
)
LONGEST_TEXT = 20_000
"""Maximum number of characters that are read."""
LONGEST_SHOWN_TEXT = 20_000
PROJECTED_TO = 32
"""Number of features of the texts next to other columns of a table, for numeric models."""
_TEXTS_CACHED_AT_ONCE = 256
_MANY_TEXTS, _FEW_TEXTS = 50_000, 5_000
_TEXTS_AT_ONCE = 5000
_BYTES_PER_NGRAM = 24  # an id and a weight, three copies at the peak


class Texts(Contents):
    """Texts, as n-grams or as the features of a frozen encoder.

    Args:
        texts: texts, one per sample.
        encoder: a folder, ``package:NAME``, or a name on the hub. ``"none"`` uses n-grams. None and
            ``"auto"`` use n-grams and static word vectors, if they are installed.
        columns: the columns of a table that the texts come from.
    """

    kind = "text"

    def __init__(
        self, texts: Sequence[str], encoder: str | None, columns: Sequence[str] = ()
    ) -> None:
        self.texts = texts
        self.learned_from = tuple(LearnedColumn(name, "texts") for name in columns)
        self.may_choose_encoder = may_find(encoder)
        """Whether the audit may choose the encoder."""
        self._requested = encoder
        self.encoder = named(encoder)

    def find_encoder(self, is_regression: bool = False) -> tuple[str, ...]:
        """Choose an available encoder, if there are no word vectors, which cost less.

        Models of classes learn from word vectors and n-grams. Models of regression targets learn
        only from word vectors.
        """
        if self.may_choose_encoder and self.encoder is None:
            if not has_word_vectors():
                self.encoder = find_encoder(OF_TEXTS, use_hub=self._requested == AUTO)
            elif is_regression:
                self.encoder = WORD_VECTORS
            self.may_choose_encoder = self.encoder is None
        return (WITHOUT_VECTORS,) if is_regression and self.may_choose_encoder else ()

    def model_inputs(self, cache: Path | None, fingerprint: str) -> ModelInputs:
        """Return hashed n-grams, or the features of the encoder, which are cached."""
        if self.encoder is None:
            return ModelInputs(hashed_ngrams(self.texts, self._num_buckets), ())
        features = standardised(encoded_texts(self.texts, self.encoder, cache, fingerprint))
        return ModelInputs(TensorInputs(features), tuple(features.shape[1:]))

    def encoded(self, cache: Path | None, fingerprint: str) -> npt.NDArray[Any] | None:
        """Return the cached features of the user's encoder, or None without one."""
        if self.encoder is None:
            return None
        return encoded_texts(self.texts, self.encoder, cache, fingerprint)

    def raw_inputs(self) -> npt.NDArray[Any]:
        """Return the texts as objects, shape (samples,)."""
        return np.array(self.texts, dtype=object)

    def view(self, index: int, close: bool = False) -> SampleView:
        """Return the text."""
        return SampleView(text=self.texts[index][:LONGEST_SHOWN_TEXT])

    @property
    def _num_buckets(self) -> int:
        """Number of buckets. Few for few texts, because every step updates all vectors."""
        if len(self.texts) <= _FEW_TEXTS:
            return 2**15
        return 2**16 if len(self.texts) <= _MANY_TEXTS else 2**17


def text_source(
    options: SourceOptions,
    store: Store,
    texts: Sequence[str | None],
    columns: Sequence[str] = (),
) -> AuditSource:
    """Return a source of texts, one per row of a store. Rows without a text are left out.

    Args:
        options: how to read it.
        store: the labels, one per row.
        texts: one per row; None where missing.
        columns: the columns of a table that they come from.
    """
    blank = {row: NO_TEXT for row, text in enumerate(texts) if text is None or not text.strip()}
    samples = read_samples(store, options, blank)
    chosen = [texts[row] or "" for row in samples.rows]
    return AuditSource(options, store, samples, Texts(chosen, options.encoder, columns))


def joined_texts(columns: Sequence[Sequence[str | None]]) -> list[str | None]:
    """Join the texts of several columns of each row. None if all are missing."""
    return ["\n".join(text for text in row if text) or None for row in zip(*columns, strict=True)]


def dense_ngrams(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Project words and pairs of words to a few features, shape (texts, features)."""
    from sklearn.decomposition import TruncatedSVD

    counts = _weighted(_counted(texts, 2**15, "word", (1, 2), r"(?u)\b\w+\b"))
    width = min(PROJECTED_TO, len(texts) - 1)
    projected = TruncatedSVD(max(1, width), random_state=0).fit_transform(counts)
    return standardised(projected).numpy()


@dataclass(frozen=True)
class NgramInputs:
    """The n-grams of many texts, concatenated."""

    ids: Tensor
    """Shape (n-grams of all texts,), int32."""
    weights: Tensor
    """Weights of the n-grams, of the same shape, float32."""
    begins: Tensor
    """Shape (texts + 1,), int64: the start of each text, and the end of the last one."""
    num_buckets: int
    """Number of buckets. All ids are smaller."""
    in_memory: bool = True

    def __len__(self) -> int:
        return len(self.begins) - 1

    def rows(self, index: Tensor) -> dict[str, Tensor]:
        """Return the inputs of the model ``ngram_text``: ``ids``, ``weights`` and ``offsets``."""
        places, offsets = self._places(index)
        return {"ids": self.ids[places], "weights": self.weights[places], "offsets": offsets}

    def select(self, index: Tensor) -> NgramInputs:
        """Return only these texts, in this order."""
        places, offsets = self._places(index)
        begins = torch.cat([offsets.long(), torch.tensor([len(places)])])
        return NgramInputs(self.ids[places], self.weights[places], begins, self.num_buckets)

    def _places(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positions of the n-grams of some texts, and the start of each text."""
        begins = self.begins[index]
        lengths = self.begins[index + 1] - begins
        ends = lengths.cumsum(0)
        offsets = ends - lengths
        places = torch.arange(int(ends[-1]) if len(ends) else 0)
        return places + (begins - offsets).repeat_interleave(lengths), offsets.int()


def hashed_ngrams(texts: Sequence[str], num_buckets: int) -> NgramInputs:
    """Return words, pairs of adjacent words, and 3 to 5 adjacent characters of a word.

    Each n-gram is hashed to a bucket, which is the same on every machine. The weight of an n-gram
    is its tf-idf with logarithmic counts. N-grams that occur in only one text are left out, because
    they would help a model to memorise that text.

    Args:
        texts: at least one.
        num_buckets: number of ids, which must be even.
    """
    from scipy import sparse

    half = num_buckets // 2
    words = _counted(texts, half, "word", (1, 2), r"(?u)\b\w+\b")
    characters = _counted(texts, half, "char_wb", (3, 5), None)
    joined = sparse.hstack([_weighted(words), _weighted(characters)], format="csr")
    joined = _heaviest(joined)
    return NgramInputs(
        torch.from_numpy(joined.indices.astype(np.int32)),
        torch.from_numpy(joined.data.astype(np.float32)) / 2**0.5,
        torch.from_numpy(joined.indptr.astype(np.int64)),
        num_buckets,
    )


def _counted(
    texts: Sequence[str],
    num_buckets: int,
    analyzer: str,
    ngram_range: tuple[int, int],
    token_pattern: str | None,
) -> Any:
    """Count the n-grams of each text: a sparse matrix."""
    from scipy import sparse
    from sklearn.feature_extraction.text import HashingVectorizer

    pattern = {} if token_pattern is None else {"token_pattern": token_pattern}
    vectorizer = HashingVectorizer(
        n_features=num_buckets,
        analyzer=analyzer,
        ngram_range=ngram_range,
        alternate_sign=False,
        norm=None,
        dtype=np.float32,
        **pattern,
    )
    parts = []
    for first in range(0, len(texts), _TEXTS_AT_ONCE):
        batch = [text[:LONGEST_TEXT] for text in texts[first : first + _TEXTS_AT_ONCE]]
        parts.append(vectorizer.transform(batch))
        if first == 0:
            ngrams_per_text = parts[0].nnz / len(batch)
            require_memory(
                ngrams_per_text * len(texts) * _BYTES_PER_NGRAM,
                f"training on {len(texts):,} texts with {ngrams_per_text:,.0f} n-grams each",
            )
    return sparse.vstack(parts, format="csr")


def _weighted(counts: Any) -> Any:
    """Return tf-idf with logarithmic counts, scaled to length 1 for each text."""
    from sklearn.feature_extraction.text import TfidfTransformer

    if counts.shape[0] > 2:
        in_texts = np.bincount(counts.indices, minlength=counts.shape[1])
        counts.data[in_texts[counts.indices] < 2] = 0.0
        counts.eliminate_zeros()
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts)


def _heaviest(matrix: Any) -> Any:
    """Keep the largest `MOST_NGRAMS` entries of each row."""
    from scipy import sparse

    sizes = np.diff(matrix.indptr)
    is_kept = np.ones(matrix.nnz, bool)
    for row in np.flatnonzero(sizes > MOST_NGRAMS):
        begin, end = matrix.indptr[row], matrix.indptr[row + 1]
        order = np.argsort(-matrix.data[begin:end], kind="stable")
        is_kept[begin + order[MOST_NGRAMS:]] = False
    if is_kept.all():
        return matrix
    begins: npt.NDArray[Any] = np.append(0, np.minimum(sizes, MOST_NGRAMS).cumsum())
    return sparse.csr_matrix(
        (matrix.data[is_kept], matrix.indices[is_kept], begins), shape=matrix.shape
    )


def encoded_texts(
    texts: Sequence[str], encoder: str, cache: Path | None, fingerprint: str
) -> npt.NDArray[Any]:
    """Encode texts: shape (texts, width).

    Args:
        texts: the texts, which are truncated to `MOST_TOKENS` tokens.
        encoder: a folder, ``package:NAME``, or a name on the hub; ``package:wordllama`` for static
            word vectors.
        cache: a directory that keeps the features, or None.
        fingerprint: fingerprint of the texts.
    """
    if names_word_vectors(encoder):
        return mean_word_vectors(texts)
    file = cache_file(cache, "text_features", encoder, fingerprint, MOST_TOKENS, len(texts))

    @functools.cache
    def loaded() -> TextEncoder:  # not loaded at all if the features are cached
        return TextEncoder(encoder)

    return cached_rows(
        file, len(texts), lambda first, last: loaded()(texts[first:last]), _TEXTS_CACHED_AT_ONCE
    )
