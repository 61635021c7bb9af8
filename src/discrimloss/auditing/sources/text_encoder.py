"""Pretrained encoders of texts: models of transformers and of sentence-transformers."""

from __future__ import annotations

import importlib.util
import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import SourceError
from discrimloss.models.text_encoder import (
    find_pretrained,
    load_configuration,
    load_tokenizer,
    load_weights,
    quiet_transformers,
    transformers_library,
)

MOST_TOKENS = 256
TEXTS_AT_ONCE = 32
MODULES = "modules.json"
"""File with the modules of a sentence-transformers model."""
MEAN, FIRST = "mean", "cls"
"""How token vectors are combined to a text vector."""

Encode = Callable[[list[str]], Tensor]
"""Maps a few texts to vectors, shape (texts, width)."""


class TextEncoder:
    """A frozen encoder with its tokenizer.

    Args:
        name: a folder, ``package:NAME``, or a name on the hub.

    Raises:
        SourceError: the encoder cannot be used.
    """

    def __init__(self, name: str) -> None:
        try:
            self._encode = _load(name)
        except ValueError as error:
            reason = str(error).removeprefix("pretrained = ")
            raise SourceError(f"--encoder cannot be used: {reason}") from error

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Encode texts, shape (texts, width)."""
        # Batches have similar lengths, because shorter texts are padded to the longest.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        pieces = []
        for first in range(0, len(order), TEXTS_AT_ONCE):
            batch = [texts[number] for number in order[first : first + TEXTS_AT_ONCE]]
            pieces.append(self._encode(batch).float().cpu())
        features = torch.cat(pieces)
        back = torch.empty(len(order), dtype=torch.int64)
        back[torch.tensor(order)] = torch.arange(len(order))
        return features[back].numpy()


def _load(name: str) -> Encode:
    source = Path(find_pretrained(name))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    modules = _modules(source)
    if modules is None:
        return TransformersEncoder(name, device)
    plan = _simple_plan(source, modules)
    if plan is None:
        return _with_library(name, source, device)
    return TransformersEncoder(plan.folder, device, plan.pooling, plan.most_tokens)


class TransformersEncoder:
    """A model of the transformers library. Of an encoder-decoder model, only the encoder is used.

    Args:
        name: a folder, ``package:NAME``, or a name on the hub.
        device: device of the model.
        pooling: `MEAN` of the token vectors, or the `FIRST` one.
        most_tokens: maximum number of tokens. Longer texts are truncated.

    Raises:
        ValueError: it cannot be loaded, or it does not take texts.
    """

    def __init__(
        self,
        name: str,
        device: torch.device,
        pooling: str = MEAN,
        most_tokens: int = MOST_TOKENS,
    ) -> None:
        configuration = load_configuration(name, "bert", 64, 1)
        model = load_weights(transformers_library().AutoModel, name, configuration)
        self._of_texts = getattr(model, "get_text_features", None)  # a model of images and texts
        if self._of_texts is None and model.main_input_name == "pixel_values":
            raise ValueError(f"{name!r} is not an encoder of texts: it takes images")
        self.tokenizer = load_tokenizer(name, configuration.model_type)
        if self._of_texts is None and hasattr(model, "encoder") and hasattr(model, "decoder"):
            model = model.get_encoder()
        self.device, self.pooling = device, pooling
        self.model = model.eval().to(device)
        limits = (most_tokens, self.tokenizer.model_max_length, _most_positions(model))
        self.most_tokens = min(limits)
        self._takes = set(inspect.signature(self._of_texts or self.model.forward).parameters)

    def __call__(self, texts: list[str]) -> Tensor:
        """Encode texts, shape (texts, width)."""
        tokens = self.tokenizer(
            texts,
            truncation=True,
            max_length=self.most_tokens,
            padding=True,
            return_tensors="pt",
            return_attention_mask=True,
        ).to(self.device)
        given = {key: value for key, value in tokens.items() if key in self._takes}
        pooled: Tensor
        if self._of_texts is not None:
            output = self._of_texts(**given)
            pooled = output if isinstance(output, Tensor) else output.pooler_output
            return pooled
        states = self.model(**given).last_hidden_state
        if self.pooling == FIRST:
            pooled = states[:, 0]
            return pooled
        mask = tokens["attention_mask"].unsqueeze(2).to(states.dtype)
        pooled = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0)
        return pooled


def _most_positions(model: Any) -> int:
    """Return the model's number of positions, or `MOST_TOKENS` if there is no limit."""
    configuration = getattr(model.config, "text_config", model.config)
    positions = getattr(configuration, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:
        return MOST_TOKENS
    for name, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            # In RoBERTa and similar models, the first position is the padding token's id plus 1.
            return max(positions - int(padding) - 1, 1)
    return positions


# ------------------------------------------------------------------ sentence-transformers


@dataclass(frozen=True)
class _Plan:
    """How to run a sentence-transformers model that is a transformers model with simple pooling."""

    folder: str
    pooling: str
    most_tokens: int


def _modules(source: Path) -> list[dict[str, Any]] | None:
    """Return the modules of a sentence-transformers model, or None for other models."""
    return _read_json(source / MODULES) if (source / MODULES).is_file() else None


def _simple_plan(source: Path, modules: list[dict[str, Any]]) -> _Plan | None:
    """Return how to run the model without its library, or None if this is not possible.

    Vectors are not normalised, because they are standardised later.
    """
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        return None
    folder, pooling = (source / str(module.get("path", "")) for module in modules[:2])
    settings = _read_json(pooling / "config.json")
    modes = [key for key, value in settings.items() if key.startswith("pooling_mode_") and value]
    mode = {"pooling_mode_mean_tokens": MEAN, "pooling_mode_cls_token": FIRST}
    chosen = settings.get("pooling_mode") or (mode.get(modes[0]) if len(modes) == 1 else None)
    if chosen not in (MEAN, FIRST):
        return None
    length = folder / "sentence_bert_config.json"
    most = _read_json(length).get("max_seq_length") if length.is_file() else None
    return _Plan(str(folder), chosen, min(most or MOST_TOKENS, MOST_TOKENS))


def _with_library(name: str, source: Path, device: torch.device) -> Encode:
    if importlib.util.find_spec("sentence_transformers") is None:
        raise ValueError(
            f"{name!r} is a sentence-transformers model with additional layers: "
            "pip install sentence-transformers"
        )
    from sentence_transformers import SentenceTransformer

    try:
        with quiet_transformers():
            model = SentenceTransformer(str(source), device=str(device))
    except Exception as error:  # malformed files raise many types
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"{name!r}: the folder holds no model that can be loaded ({reason})"
        ) from error
    model.max_seq_length = min(model.max_seq_length or MOST_TOKENS, MOST_TOKENS)

    def encode(texts: list[str]) -> Tensor:
        vectors: Tensor = model.encode(texts, convert_to_tensor=True, show_progress_bar=False)
        return vectors

    return encode


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {file} ({error}): the encoder is incomplete") from error
