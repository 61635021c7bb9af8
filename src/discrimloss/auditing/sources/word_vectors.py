"""Static word vectors of the package wordllama, which contains them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.features import cached_rows

PACKAGE = "wordllama"
WORD_VECTORS = f"package:{PACKAGE}"
"""The value of ``encoder`` that names these vectors."""
WEIGHTS, TOKENIZER = (
    "weights/l2_supercat_256.safetensors",
    "tokenizers/l2_supercat_tokenizer_config.json",
)
LONGEST_TEXT = 20_000
"""Maximum number of characters that are read."""
TEXTS_AT_ONCE = 1000


def names_word_vectors(encoder: str) -> bool:
    """Return whether the user chose these vectors as encoder."""
    return encoder in (PACKAGE, WORD_VECTORS)


def has_word_vectors() -> bool:
    """Return whether the vectors are installed."""
    return _folder() is not None


def mean_word_vectors(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return the mean token vector of each text, scaled to length 1, shape (texts, width)."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = _folder()
    if folder is None:
        raise SourceError(
            f"--encoder cannot be used: {PACKAGE} is not installed, or without its vectors: "
            "pip install 'discrimloss[encoders]'"
        )
    # The package's loader needs the hub for the tokenizer, so both files are read directly.
    vectors = load_file(str(folder / WEIGHTS))["embedding.weight"].astype(np.float32)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))

    def of_batch(first: int, last: int) -> npt.NDArray[np.float32]:
        batch = [text[:LONGEST_TEXT] for text in texts[first:last]]
        means = np.zeros((len(batch), vectors.shape[1]), np.float32)
        for place, tokens in enumerate(tokenizer.encode_batch(batch, add_special_tokens=False)):
            if tokens.ids:
                means[place] = vectors[tokens.ids].mean(0)
        return means

    means = cached_rows(None, len(texts), of_batch, TEXTS_AT_ONCE)
    lengths = np.linalg.norm(means, axis=1, keepdims=True).astype(np.float32)
    means /= np.maximum(lengths, np.float32(1e-9))
    return means


def _folder() -> Path | None:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    return folder if (folder / WEIGHTS).is_file() and (folder / TOKENIZER).is_file() else None
