"""Texts as the features of a frozen sentence encoder."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.feature_cache import cache_file, cached_rows
from discrimloss.models.text_encoder import (
    load_configuration,
    load_tokenizer,
    load_weights,
    transformers_library,
)

MOST_TOKENS = 256
_TEXTS_KEPT_AT_ONCE = 256
_BATCH = 32


def encoded_texts(
    texts: Sequence[str], encoder: str, cache: Path, fingerprint: str
) -> npt.NDArray[Any]:
    """Shape (texts, width): the mean of the encoder's token vectors. Kept in `cache`.

    Args:
        texts: cut behind `MOST_TOKENS` tokens.
        encoder: a folder, ``package:NAME``, or a name on the hub.
        cache: a directory.
        fingerprint: of the texts; others are other features.
    """
    file = cache_file(cache, "text_features", encoder, fingerprint, MOST_TOKENS, len(texts))

    @functools.cache
    def loaded() -> TextEncoder:  # not at all where the features are kept already
        return TextEncoder(encoder)

    return cached_rows(
        file, len(texts), lambda first, last: loaded()(texts[first:last]), _TEXTS_KEPT_AT_ONCE
    )


class TextEncoder:
    """A frozen encoder of the transformers library with its tokenizer.

    Args:
        name: a folder, ``package:NAME``, or a name on the hub.
    """

    def __init__(self, name: str) -> None:
        try:
            configuration = load_configuration(name, "bert", 64, 1)
            self.tokenizer = load_tokenizer(name, configuration.model_type)
            model = load_weights(transformers_library().AutoModel, name, configuration)
        except ValueError as error:
            reason = str(error).removeprefix("pretrained = ")
            raise SourceError(f"--encoder cannot be used: {reason}") from error
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.eval().to(self.device)
        self.most_tokens = min(MOST_TOKENS, self.tokenizer.model_max_length)

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Shape (texts, width)."""
        # Texts of about the same length go together: shorter ones are padded to the longest.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        pieces = []
        for first in range(0, len(order), _BATCH):
            batch = [texts[number] for number in order[first : first + _BATCH]]
            pieces.append(self._means(batch))
        features = torch.cat(pieces)
        back = torch.empty(len(order), dtype=torch.int64)
        back[torch.tensor(order)] = torch.arange(len(order))
        return features[back].numpy()

    def _means(self, texts: list[str]) -> Tensor:
        tokens = self.tokenizer(
            texts,
            truncation=True,
            max_length=self.most_tokens,
            padding=True,
            return_tensors="pt",
            return_attention_mask=True,
        ).to(self.device)
        states = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(2).to(states.dtype)
        means: Tensor = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0)
        return means.float().cpu()
