"""Finds similar and identical samples."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from discrimloss.auditing.sources.base import AuditSource, SourceError
from discrimloss.auditing.sources.columns import Columns
from discrimloss.auditing.sources.contents import SampleView
from discrimloss.auditing.sources.features import Features
from discrimloss.auditing.sources.images import Pictures
from discrimloss.auditing.sources.text import Texts
from discrimloss.auditing.sources.word_vectors import has_word_vectors, mean_word_vectors

USUAL_GROUP = 8
"""Mean number of samples in a group of similar ones."""
MOST_FEATURES = 64
PIXELS = 8
"""Images are compared as squares of this side."""
LONGEST_TEXT = 5_000
"""Maximum number of compared characters."""
NGRAM_BUCKETS = 2**18

Array = npt.NDArray[Any]


def similar_codes(
    source: AuditSource, chosen: npt.NDArray[Any], cache: Path | None = None
) -> npt.NDArray[np.int64]:
    """Divide samples into groups of similar ones. Return group numbers, shape (chosen,).

    Uses Ward's method on the contents: groups are compact, and the result is deterministic.

    Args:
        source: the audited source.
        chosen: indices of the samples.
        cache: the directory with cached pixels or features of the audit.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(chosen) < 2:
        return np.zeros(len(chosen), np.int64)
    tree = linkage(_reduced(_content_features(source, chosen, cache)), "ward")
    groups = -(-len(chosen) // USUAL_GROUP)
    return np.asarray(fcluster(tree, groups, "maxclust"), dtype=np.int64)


def duplicate_codes(
    source: AuditSource, chosen: npt.NDArray[Any], cache: Path | None = None
) -> npt.NDArray[np.int64]:
    """Return groups of identical samples, shape (samples,), -1 for samples without a copy.

    All samples are compared, whatever their labels. There is one exception: images that are not in
    the cache must be read one by one, so only the chosen ones are compared.

    Args:
        source: the audited source.
        chosen: indices of samples.
        cache: the directory with cached pixels or features of the audit.
    """
    contents = getattr(source, "contents", None)
    rows = _input_rows(source, cache)
    keys: Iterable[tuple[int, bytes]]
    if isinstance(contents, Texts):
        keys = ((index, plain_text(text).encode()) for index, text in enumerate(contents.texts))
    elif rows is not None:
        keys = ((index, np.ascontiguousarray(row).tobytes()) for index, row in enumerate(rows))
    else:
        keys = ((index, _view_key(_view(source, index))) for index in chosen.tolist())
    samples: dict[bytes, list[int]] = {}
    for index, key in keys:
        if key:
            samples.setdefault(hashlib.sha256(key).digest(), []).append(index)
    codes = np.full(len(source), -1, np.int64)
    for number, same in enumerate(same for same in samples.values() if len(same) > 1):
        codes[same] = number
    return codes


def plain_text(text: str) -> str:
    """Normalise a text: copies may differ in letter case and spaces."""
    return " ".join(text.casefold().split())


def _view(source: AuditSource, index: int) -> SampleView:
    try:
        return source.view(index)
    except (SourceError, OSError, ValueError):  # the page shows it as unreadable
        return SampleView()


def _view_key(view: SampleView) -> bytes:
    if view.image is not None:
        return view.image
    return plain_text(_view_text(view)).encode()


def _view_text(view: SampleView) -> str:
    fields = " ".join(f"{name} {value}" for name, value in view.fields)
    return fields if view.text is None else view.text[:LONGEST_TEXT]


def _content_features(source: AuditSource, chosen: npt.NDArray[Any], cache: Path | None) -> Any:
    """Return one row per chosen sample: an array or a sparse matrix."""
    contents = getattr(source, "contents", None)
    if isinstance(contents, Texts):
        texts = [contents.texts[index][:LONGEST_TEXT] for index in chosen.tolist()]
        return _normalised(mean_word_vectors(texts)) if has_word_vectors() else _ngrams(texts)
    rows = _input_rows(source, cache)
    if rows is not None:
        return _scaled(rows[chosen])
    views = [_view(source, index) for index in chosen.tolist()]
    if any(view.image is not None for view in views):
        return np.stack([_pixels(view) for view in views])
    return _ngrams([_view_text(view) for view in views])


def _input_rows(source: AuditSource, cache: Path | None) -> Array | None:
    """Return the inputs of the audit, one row per sample, or None if they take long to compute."""
    contents = getattr(source, "contents", None)
    if isinstance(contents, Columns):
        return np.asarray(contents.ordinal_and_features()[1])
    if isinstance(contents, Features):
        return contents.raw_inputs()
    if isinstance(contents, Pictures) and cache is not None and any(cache.glob("*.npy")):
        inputs: Any = contents.model_inputs(cache, source.fingerprint()).inputs
        return np.asarray(inputs.tensor.numpy())
    return None


def _scaled(rows: Array) -> Array:
    """Return features of shape (samples, features) in one unit. Images are reduced."""
    if rows.ndim == 4 and rows.dtype == np.uint8:
        pixels = torch.from_numpy(np.ascontiguousarray(rows)).float() / 255.0
        small: Array = torch.nn.functional.adaptive_avg_pool2d(pixels, PIXELS).numpy()
        return small.reshape(len(rows), -1)
    flat = np.asarray(rows, dtype=np.float32).reshape(len(rows), -1)
    spread = flat.std(0)
    scaled: Array = (flat - flat.mean(0)) / np.where(spread > 0, spread, 1.0)
    return scaled


def _pixels(view: SampleView) -> Array:
    from PIL import Image

    if view.image is None:
        return np.zeros(3 * PIXELS * PIXELS, np.float32)
    with Image.open(io.BytesIO(view.image)) as image:
        small = image.convert("RGB").resize((PIXELS, PIXELS))
        return np.asarray(small, dtype=np.float32).reshape(-1) / 255.0


def _ngrams(texts: Sequence[str]) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    counter = HashingVectorizer(n_features=NGRAM_BUCKETS, ngram_range=(1, 2), alternate_sign=False)
    return TfidfTransformer().fit_transform(counter.transform(texts))


def _normalised(features: Array) -> Array:
    length = np.linalg.norm(features, axis=1, keepdims=True)
    scaled: Array = features / np.where(length > 0, length, 1.0)
    return scaled


def _reduced(features: Any) -> Array:
    """Return at most `MOST_FEATURES` principal components."""
    from scipy import sparse
    from sklearn.decomposition import TruncatedSVD

    is_sparse = sparse.issparse(features)
    width = min(MOST_FEATURES, min(features.shape) - 1)
    if features.shape[1] <= MOST_FEATURES and not is_sparse:
        return np.asarray(features, dtype=np.float64)
    centred = features if is_sparse else features - features.mean(0)
    reduced: Array = TruncatedSVD(max(width, 1), random_state=0).fit_transform(centred)
    return reduced
