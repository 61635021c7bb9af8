"""The sets of the robustness benchmark: texts, tables and images as tensors.

A directory of data is laid out as ``texts/NAME.csv.gz`` (columns ``text`` and ``label``),
``tables/NAME.csv.gz`` (features and ``target``) and ``images/NAME.npz`` (``images`` and
``labels``). Where the truth is known, it is in ``clean_label`` or ``clean_target``. CIFAR-10 and
its human labels are read as their publishers ship them.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from discrimloss.data.base import DataError
from discrimloss.data.cifar import load_cifar10
from discrimloss.training.seeds import derived_generator

KINDS = ("texts", "tables", "images")
MOST_ROWS = 2_500
"""Maximum number of rows that are read from a set of texts, tables or small images."""
CIFAR_TRAIN, CIFAR_TEST = 10_000, 3_000
"""Numbers of images of CIFAR-10 that are used, before a long tail is cut."""
CIFAR_SIDE = 16
TEXT_LENGTH = 16.0
"""The norm to which a text's vector is scaled: about that of 256 standardised features."""
LARGEST_FEATURE = 5.0
"""Limit of standardised features. Without it, a few outliers would dominate training."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class DataSet:
    """A set of the benchmark, by name."""

    name: str
    kind: str
    """Kind of data, one of `KINDS`."""
    is_held_out: bool
    """Whether no default and no form of DiscrimLoss was chosen on this set."""

    @property
    def is_cifar(self) -> bool:
        """Whether the set is CIFAR-10, which has a directory of its own."""
        return self.name.startswith("cifar10")

    def file(self, data: Path) -> Path:
        """Where the set is below the directory of data."""
        return data / self.kind / f"{self.name}.{'npz' if self.kind == 'images' else 'csv.gz'}"


def _named(kind: str, is_held_out: bool, names: str) -> dict[str, DataSet]:
    return {name: DataSet(name, kind, is_held_out) for name in names.split()}


SETS = {
    **_named("texts", False, "agnews_7600 banking77_corrected chaosnli_snli clinc150"),
    **_named("texts", False, "crowdtruth_cause davidson_hate hausa_news_distant md_agreement"),
    **_named("texts", False, "trec50 tweeteval_emotion vader_nyt wrench_trec"),
    **_named("texts", True, "airline_sentiment cosine_agnews_weak crowdtruth_treat"),
    **_named("texts", True, "stackoverflow20 vader_tweets wrench_youtube"),
    **_named("tables", False, "adult car letter mammographic_radiologist segment yeast"),
    **_named("tables", True, "covertype glass page_blocks spambase wine_quality"),
    **_named("images", False, "usps sign_digits32"),
    **_named("images", True, "cifar10 cifar10n_aggre cifar10n_worse"),
}


@dataclass(frozen=True)
class Samples:
    """A set in memory."""

    inputs: Tensor
    """Shape (samples, features) or (samples, channels, height, width), float32."""
    target: Tensor
    """Shape (samples,), int64: the given labels."""
    clean_target: Tensor
    """Shape (samples,), int64: the true labels if they are known, else the given labels."""
    num_classes: int
    test_rows: Tensor | None = None
    """Positions of the published test split; None if a random one is drawn."""
    is_augmented: bool = False
    """Whether training images are shifted and mirrored at random."""


def load(name: str, data: Path, cifar: Path | None) -> Samples:
    """Read a set.

    Args:
        name: a name in `SETS`.
        data: the directory of texts, tables and images.
        cifar: the directory of CIFAR-10.
    """
    data_set = SETS[name]
    if data_set.is_cifar:
        if cifar is None:
            raise DataError(f"{name} needs the directory of CIFAR-10: --cifar DIR")
        return read_cifar(cifar, name.partition("cifar10n_")[2])
    path = data_set.file(data)
    if not path.is_file():
        raise DataError(f"there is no {path}")
    return {"texts": read_texts, "tables": read_table, "images": read_images}[data_set.kind](path)


# ----------------------------------------------------------------------------------- texts


def read_texts(path: Path) -> Samples:
    """Read texts, each as the mean of its tokens' embeddings."""
    frame = _some_rows(pd.read_csv(path, keep_default_na=False), "clean_label")
    vectors = text_vectors(frame["text"].tolist())
    return _labelled(torch.from_numpy(vectors), frame, "label", "clean_label")


def text_vectors(texts: list[str]) -> Array:
    """Return the mean of wordllama's embeddings of the tokens, shape (texts, 256).

    Its two files are read directly, so the package need not be imported.
    """
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # cells run side by side already
    package = _package_folder("wordllama")
    weights = load_file(package / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer_file = package / "tokenizers" / "l2_supercat_tokenizer_config.json"
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    vectors = np.zeros((len(texts), weights.shape[1]), np.float32)
    for row, tokens in enumerate(tokenizer.encode_batch(texts, add_special_tokens=False)):
        if tokens.ids:
            vectors[row] = weights[tokens.ids].mean(axis=0, dtype=np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Array = TEXT_LENGTH * vectors / np.maximum(norms, 1e-9)
    return scaled


def _package_folder(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise DataError(f"texts need {name}: pip install -c constraints.txt '.[bench]'")
    return Path(found.origin).parent


# ---------------------------------------------------------------------------------- tables


def read_table(path: Path) -> Samples:
    """Read a table as standardised columns. Categories are one-hot."""
    frame = _some_rows(pd.read_csv(path), "clean_target")
    features = frame.drop(columns=["target", "clean_target"], errors="ignore")
    return _labelled(torch.from_numpy(columns(features)), frame, "target", "clean_target")


def columns(features: pd.DataFrame) -> Array:
    """Return standardised columns.

    A missing number becomes the median. A missing category is 0 in all of its columns.
    """
    filled = features.fillna(features.median(numeric_only=True))
    values = pd.get_dummies(filled, dtype=float).fillna(0.0).to_numpy(np.float32)
    standardised = (values - values.mean(axis=0)) / (values.std(axis=0) + 1e-6)
    cut: Array = standardised.clip(-LARGEST_FEATURE, LARGEST_FEATURE)
    return cut


def _some_rows(frame: pd.DataFrame, truth: str) -> pd.DataFrame:
    """Return at most `MOST_ROWS` rows whose truth is known, the same ones in every run."""
    if truth in frame:
        frame = frame[frame[truth].notna() & (frame[truth].astype(str) != "")]
    return frame.iloc[_chosen(len(frame), MOST_ROWS).numpy()]


def _labelled(inputs: Tensor, frame: pd.DataFrame, label: str, truth: str) -> Samples:
    given = frame[label].astype(str)
    clean = frame[truth].astype(str) if truth in frame else given
    names = sorted({*given, *clean})
    place = {name: position for position, name in enumerate(names)}
    target, clean_target = (
        torch.tensor([place[name] for name in labels]) for labels in (given, clean)
    )
    return Samples(inputs, target, clean_target, len(names))


# ---------------------------------------------------------------------------------- images


def read_images(path: Path) -> Samples:
    """Small images, one or three channels."""
    with np.load(path) as arrays:
        pixels, labels = torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"])
    rows = _chosen(len(labels), MOST_ROWS)
    pixels = pixels[rows][:, None] if pixels.dim() == 3 else pixels[rows].permute(0, 3, 1, 2)
    target = labels[rows].long()
    return Samples(standardised(pixels.float()), target, target, int(target.max()) + 1)


def read_cifar(directory: Path, human_labels: str = "") -> Samples:
    """Some images of CIFAR-10 at half their side, with the published or human labels.

    Args:
        directory: where CIFAR-10 is.
        human_labels: name of CIFAR-10N's labels for the training images; empty for the published.
    """
    task = load_cifar10(directory)
    assert task.test is not None
    train_rows = _chosen(len(task.train), CIFAR_TRAIN)
    test_rows = _chosen(len(task.test), CIFAR_TEST)
    train, test = task.train.select(train_rows), task.test.select(test_rows)
    clean_target = torch.cat([train.target, test.target])
    target = clean_target.clone()
    if human_labels:
        assert task.human_labels is not None
        target[: len(train)] = task.human_labels(human_labels)[train_rows]
    pixels = [part.inputs.rows(torch.arange(len(part))) for part in (train, test)]
    images = functional.adaptive_avg_pool2d(torch.cat(pixels).float(), CIFAR_SIDE)
    last = torch.arange(len(train), len(target))
    return Samples(standardised(images), target, clean_target, 10, last, is_augmented=True)


def standardised(pixels: Tensor) -> Tensor:
    """Pixels with mean 0 and standard deviation 1 in each channel."""
    mean, spread = pixels.mean((0, 2, 3), keepdim=True), pixels.std((0, 2, 3), keepdim=True)
    return ((pixels - mean) / spread).contiguous(memory_format=torch.channels_last)


def _chosen(size: int, most: int) -> Tensor:
    """Positions of the rows that are taken: some at random, the same in every run."""
    if most >= size:
        return torch.arange(size)
    return torch.randperm(size, generator=derived_generator(0, "chosen"))[:most].sort().values
