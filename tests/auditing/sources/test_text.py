"""Texts in tables: hashed n-grams, features of an encoder, and what people are shown."""

from __future__ import annotations

import collections
import inspect
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from transformers import BertModel

import discrimloss
from discrimloss.auditing.settings import audit_model
from discrimloss.auditing.sources.base import Corrections, LeftOut, SourceError, SourceOptions
from discrimloss.auditing.sources.open_source import open_source
from discrimloss.auditing.sources.text import MOST_NGRAMS, encoded_texts, hashed_ngrams
from discrimloss.models.base import TaskShape, models
from discrimloss.models.text_encoder import byte_tokenizer, new_configuration

TEXTS = ["the cat sat on the mat", "the dog sat", "a cat, a dog and a mat", "", "the dog ran"]


def saved(folder: Path, frame: pandas.DataFrame) -> str:
    frame.to_json(folder / "texts.jsonl", orient="records", lines=True)
    return str(folder / "texts.jsonl")


def docstrings() -> pandas.DataFrame:
    """Those of three modules of the standard library, with the module as label."""
    rows = [
        (text, module.__name__)
        for module in (collections, statistics, subprocess)
        for name, member in sorted(vars(module).items())
        for thing in [member, *(vars(member).values() if inspect.isclass(member) else ())]
        if callable(thing) and len(text := inspect.getdoc(thing) or "") > 40
    ]
    return pandas.DataFrame(rows, columns=["text", "label"]).drop_duplicates("text")


# n-grams.


def test_every_text_has_length_one_and_shared_ngrams_only():
    inputs = hashed_ngrams(TEXTS, 2**12)
    assert len(inputs) == len(TEXTS)
    for number, text in enumerate(TEXTS):
        row = inputs.rows(torch.tensor([number]))
        assert row["offsets"].tolist() == [0]
        length = float(row["weights"].square().sum())
        assert length == pytest.approx(1.0 if text else 0.0)
    # "ran" is in one text only, as word and in all its pieces: "the dog" is left.
    assert len(inputs.rows(torch.tensor([4]))["ids"]) <= len(inputs.rows(torch.tensor([1]))["ids"])
    ids = inputs.ids
    assert int(ids.min()) >= 0
    assert int(ids.max()) < 2**12


def test_rows_of_a_batch_are_the_rows_one_by_one():
    inputs = hashed_ngrams(TEXTS, 2**12)
    index = torch.tensor([4, 3, 0, 0, 2])
    batch = inputs.rows(index)
    singles = [inputs.rows(torch.tensor([number])) for number in index.tolist()]
    assert torch.equal(batch["ids"], torch.cat([row["ids"] for row in singles]))
    assert torch.equal(batch["weights"], torch.cat([row["weights"] for row in singles]))
    sizes = [len(row["ids"]) for row in singles]
    assert batch["offsets"].tolist() == np.cumsum([0, *sizes[:-1]]).tolist()
    chosen = inputs.select(index)
    assert len(chosen) == 5
    again = chosen.rows(torch.tensor([2, 4]))
    expected = inputs.rows(torch.tensor([0, 2]))
    assert all(torch.equal(again[name], expected[name]) for name in expected)


def test_long_texts_keep_their_most_telling_ngrams():
    generator = np.random.default_rng(0)
    words = ["".join(generator.choice(list("abcdefgh"), 6)) for _ in range(3000)]
    inputs = hashed_ngrams([" ".join(words), " ".join(words), "short text", "short text"], 2**16)
    sizes = inputs.begins.diff().tolist()
    assert sizes[:2] == [MOST_NGRAMS, MOST_NGRAMS]
    assert 0 < sizes[2] < MOST_NGRAMS


def test_ngrams_are_the_same_in_every_process():
    program = (
        "from discrimloss.auditing.sources.text import hashed_ngrams\n"
        f"inputs = hashed_ngrams({TEXTS!r}, 4096)\n"
        "print(inputs.ids.tolist(), inputs.weights.tolist())"
    )
    environment = os.environ | {
        "PYTHONPATH": str(Path(discrimloss.__file__).parents[1]),
        "PYTHONHASHSEED": "77",
    }
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    inputs = hashed_ngrams(TEXTS, 4096)
    assert finished.stdout.strip() == f"{inputs.ids.tolist()} {inputs.weights.tolist()}"


# The source.


def test_it_learns_which_module_a_docstring_is_from(tmp_path):
    frame = docstrings()
    source = open_source(SourceOptions(saved(tmp_path, frame), label="label", text="text"))
    assert source.kind == "text"
    task = source.task(tmp_path)
    config = audit_model(task)
    torch.manual_seed(0)
    model = models.get(config.name)(TaskShape(task.input_shape, task.num_classes), **config.options)
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(1))
    training, held_out = order[: -len(order) // 4], order[-len(order) // 4 :]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(12):
        losses = torch.nn.functional.cross_entropy(
            model(task.train.inputs.rows(training)), source.target[training]
        )
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()
    answer = model(task.train.inputs.rows(held_out)).argmax(dim=1)
    commonest = int(torch.bincount(source.target).max()) / len(source)
    right = float((answer == source.target[held_out]).double().mean())
    assert right > 0.5 + commonest / 2  # half way from guessing to certainty, at least


def test_rows_without_text_are_left_out_and_kept(tmp_path):
    frame = pandas.DataFrame(
        {
            "text": ["one", None, "three", " ", "five", "six"],
            "label": ["a", "c", None, "b", "b", "a"],
        }
    )
    options = SourceOptions(saved(tmp_path, frame), label="label", text="text")
    source = open_source(options)
    assert source.class_names == ("a", "b")  # "c" has no text to learn from
    assert source.ids == ("0", "4", "5")
    assert source.left_out == (
        LeftOut("1", "no text"),
        LeftOut("2", "no label"),
        LeftOut("3", "no text"),
    )
    assert source.view(1).text == "five"
    (tmp_path / "new").mkdir()
    [path] = source.write_corrected(Corrections({1: "a"}, frozenset({2})), tmp_path / "new")
    written = pandas.read_json(path, lines=True)
    assert written["label"].tolist() == ["a", "c", None, "b", "a"]
    assert written["text"].tolist() == ["one", None, "three", " ", "five"]


@pytest.mark.parametrize(
    ("frame", "text", "sentence"),
    [
        ({"text": ["a", "b"], "label": [1, 2]}, "texts", "did you mean 'text'"),
        ({"text": [None, ""], "label": [1, 2]}, "text", "'no text' in all rows"),
    ],
)
def test_a_missing_text_column_gets_a_sentence(tmp_path, frame, text, sentence):
    path = saved(tmp_path, pandas.DataFrame(frame))
    with pytest.raises(SourceError, match=sentence):
        open_source(SourceOptions(path, label="label", text=text))


# Encoders.


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    BertModel(new_configuration("bert", 16, 1)).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


def test_features_of_an_encoder_do_not_depend_on_the_batch_and_are_kept(
    tmp_path, encoder, monkeypatch
):
    texts = ["a text", "another, much longer text " * 20, "x"]
    together = encoded_texts(texts, encoder, tmp_path, "three")
    assert together.shape == (3, 16)
    for number, text in enumerate(texts):
        alone = encoded_texts([text], encoder, tmp_path, f"only {number}")
        np.testing.assert_allclose(alone[0], together[number], rtol=1e-4, atol=1e-5)
    monkeypatch.setattr("discrimloss.auditing.sources.text.TextEncoder", None)
    np.testing.assert_array_equal(encoded_texts(texts, encoder, tmp_path, "three"), together)


def test_a_source_with_an_encoder_has_features(tmp_path, encoder):
    frame = pandas.DataFrame({"text": ["one", "two", "three", "four"], "label": list("abab")})
    path = saved(tmp_path, frame)
    source = open_source(SourceOptions(path, label="label", text="text", encoder=encoder))
    task = source.task(tmp_path / "cache")
    assert audit_model(task).name == "mlp"
    assert task.input_shape == (16,)
    features = task.train.inputs.rows(torch.arange(4))
    torch.testing.assert_close(features.mean(dim=0), torch.zeros(16), atol=1e-5, rtol=0.0)


def test_an_encoder_that_is_not_there_gets_a_sentence(tmp_path):
    with pytest.raises(SourceError, match=r"--encoder cannot be used: '\./nowhere'"):
        encoded_texts(["a"], "./nowhere", tmp_path, "one")
