"""Encoders of texts that users name: of transformers, of sentence-transformers, in packages."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_text_data import write_tiny_encoder
from transformers import AutoModel, AutoTokenizer

from discrimloss.auditing.sources import text_encoder
from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.text import encoded_texts
from discrimloss.auditing.sources.text_encoder import TextEncoder
from discrimloss.auditing.sources.word_vectors import has_word_vectors, mean_word_vectors
from discrimloss.models.text_encoder import byte_tokenizer

TEXTS = ["a few words", "a text with more tokens than the model has positions " * 8, "x"]
VOCABULARY = len(byte_tokenizer())
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
OF_WORDS = {**SIZES, "vocab_size": VOCABULARY}
T5 = {"vocab_size": VOCABULARY, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1}
OF_BOTH = {f"{part}_{what}": 2 for part in ("encoder", "decoder") for what in ("layers", "ffn_dim")}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "few positions": ("Bert", {**OF_WORDS, "max_position_embeddings": 40}),
    "positions behind padding": (
        "Roberta",
        {**OF_WORDS, "max_position_embeddings": 40, "pad_token_id": 1},
    ),
    "no token types": ("DistilBert", {"vocab_size": VOCABULARY, "dim": 16, "n_heads": 2}),
    "left to right": ("Llama", OF_WORDS),
    "encoder and decoder": ("T5", {**T5, "num_heads": 2}),
    "encoder and decoder with positions": (
        "Bart",
        {"vocab_size": VOCABULARY, "d_model": 16, "max_position_embeddings": 64} | OF_BOTH | HEADS,
    ),
    "images and texts": (
        "CLIP",
        {
            "text_config": {**OF_WORDS, "eos_token_id": 2},
            "vision_config": {**SIZES, "image_size": 8, "patch_size": 4},
            "projection_dim": 16,
        },
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers(name: str, tmp_path: Path) -> None:
    kind, options = MODELS[name]
    torch.manual_seed(0)
    configuration = getattr(transformers, f"{kind}Config")(**options)
    getattr(transformers, f"{kind}Model")(configuration).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    encode = TextEncoder(str(tmp_path))
    together = encode(TEXTS)
    assert together.shape == (3, 16)
    assert np.ptp(together, axis=0).min() > 0.0
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(encode([text])[0], vector, atol=1e-5)


def write_sentence_encoder(folder: Path, pooling: dict[str, Any], place: str = "") -> Path:
    """A folder as sentence-transformers writes it: an encoder, its pooling and a norm."""
    write_tiny_encoder(folder / place)
    (folder / place / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    kinds = {"Transformer": place, "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence.models.{kind}"}
        for number, (kind, path) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


@pytest.mark.parametrize("place", ["", "0_Transformer"])
@pytest.mark.parametrize(
    ("pooling", "is_mean"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, False),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, True),
        ({"pooling_mode": "cls"}, False),
        ({"pooling_mode": "mean"}, True),
    ],
)
def test_folders_of_sentence_transformers_are_pooled_as_they_say(
    pooling: dict[str, Any], is_mean: bool, place: str, tmp_path: Path
) -> None:
    folder = write_sentence_encoder(tmp_path, pooling, place)
    tokens = AutoTokenizer.from_pretrained(folder / place)(
        TEXTS[1], truncation=True, max_length=12, return_tensors="pt"
    )
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder / place)(**tokens).last_hidden_state[0]
    expected = states.mean(0) if is_mean else states[0]
    np.testing.assert_allclose(TextEncoder(str(folder))(TEXTS)[1], expected.numpy(), atol=1e-5)


def test_other_layers_need_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_sentence_encoder(tmp_path, {"pooling_mode": "weightedmean"})
    monkeypatch.setattr(text_encoder.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SourceError, match=r"pip install sentence-transformers$"):
        TextEncoder(str(folder))


@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None, reason="not installed"
)
@pytest.mark.filterwarnings("ignore")
def test_other_layers_are_those_of_the_library(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer, models

    modules = [
        models.Transformer(str(write_tiny_encoder(tmp_path / "encoder"))),
        models.Pooling(16, pooling_mode="cls"),
        models.Dense(16, 4),
    ]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "dense"))
    found = TextEncoder(str(tmp_path / "dense"))(TEXTS)
    expected = SentenceTransformer(str(tmp_path / "dense"), device="cpu").encode(TEXTS[::2])
    np.testing.assert_allclose(found[::2], expected, atol=1e-5)


def test_a_package_has_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of pip, which need not be like that of the module, and that of the module."""
    write_tiny_encoder(tmp_path / "tiny_encoder_module" / "files" / "weights")
    (tmp_path / "tiny_encoder_module" / "__init__.py").write_text("raise RuntimeError")
    information = tmp_path / "tiny_encoder_of_pip-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tiny-encoder-of-pip\nVersion: 1.0\n"
    )
    (information / "RECORD").write_text("tiny_encoder_module/__init__.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    by_module = TextEncoder("package:tiny_encoder_module")(TEXTS)
    for name in ("tiny-encoder-of-pip", "tiny-encoder-module"):
        np.testing.assert_array_equal(TextEncoder(f"package:{name}")(TEXTS), by_module)


@pytest.mark.skipif(not has_word_vectors(), reason="wordllama is not installed")
@pytest.mark.parametrize("name", ["wordllama", "package:wordllama"])
def test_word_vectors_can_be_named(name: str) -> None:
    np.testing.assert_array_equal(encoded_texts(TEXTS, name, None, ""), mean_word_vectors(TEXTS))


def test_broken_encoders_get_a_sentence(tmp_path: Path) -> None:
    cut = write_tiny_encoder(tmp_path / "cut")
    (cut / "model.safetensors").write_bytes(b"cut")
    (tmp_path / "empty").mkdir()
    unpooled = write_sentence_encoder(tmp_path / "unpooled", {})
    (unpooled / "1_Pooling" / "config.json").unlink()
    vision = tmp_path / "vision"
    transformers.ViTModel(
        transformers.ViTConfig(**SIZES, image_size=8, patch_size=4)
    ).save_pretrained(vision)
    for name, sentence in (
        (str(cut), "neither a folder with a model"),
        (str(tmp_path / "empty"), "neither a folder with a model"),
        (str(unpooled), "the encoder is incomplete"),
        (str(vision), "not an encoder of texts: it takes images"),
        ("package:no-such-encoder", "no installed package 'no-such-encoder'"),
    ):
        with pytest.raises(SourceError, match=f"^--encoder cannot be used: .*{sentence}") as caught:
            TextEncoder(name)
        assert "\n" not in str(caught.value)
