"""CIFAR-10 and CIFAR-100, in the binary or the python version, with CIFAR-N's human labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from discrimloss.data.base import DataError, Split, TaskData, TensorInputs, datasets
from discrimloss.data.images import ImagePreparation
from discrimloss.data.label_file import read_label_file
from discrimloss.data.published_files import (
    Download,
    KnownFile,
    Layout,
    RemoteFile,
    find_files,
    how_to_get,
    in_folder,
    listed,
    obtained,
)
from discrimloss.data.restricted_pickle import as_text, read_pickled_dict
from discrimloss.options import OptionError, did_you_mean

IMAGE_SHAPE = (3, 32, 32)
NUM_PIXELS = 3 * 32 * 32
CROP_PADDING = 4

PUBLISHER = "https://www.cs.toronto.edu/~kriz/"
HUMAN_LABELS_PUBLISHER = "https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data/"
TERMS = (
    "publications with CIFAR should cite Krizhevsky (2009); the human labels, "
    "CIFAR-N, are CC BY-NC 4.0, not for commercial use."
)
HUMAN_FOLDERS = ("cifar-n", "CIFAR-N", ".")
HUMAN_ENDINGS = (".npz", ".pt")
CLEAN_KEY = "clean_label"


@dataclass(frozen=True)
class CifarRelease:
    """One of the two datasets, in both versions that its publisher ships.

    Args:
        name: name of the dataset.
        num_classes: number of classes.
        binary: layout of the binary version. Each row of a file has `label_bytes` bytes, of which
            the last is the label, and then the pixels.
        python: layout of the python version: pickled dicts with the keys ``data`` and `label_key`.
        train_files: number of training files in each version. The last file is for testing.
        label_bytes: number of bytes before the pixels of a binary row.
        label_key: key of the labels in the python version.
        binary_names: file with the class names, one per line, in the binary version.
        python_names: file with a pickled dict in the python version, and the key of the class names
            in it.
        mean: mean of each channel over the training images.
        std: standard deviation of each channel over the training images.
        archive: the published archive of the binary version.
        binary_files: the files in the archive, without their folder.
        python_files: the files of the python version, without their folder.
        human_file: name of CIFAR-N's file, without its ending.
        human_labels: names of CIFAR-N's labels and their keys in that file.
    """

    name: str
    num_classes: int
    binary: Layout
    python: Layout
    train_files: int
    label_bytes: int
    label_key: str
    binary_names: str
    python_names: tuple[str, str]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    archive: KnownFile
    binary_files: tuple[KnownFile, ...]
    python_files: tuple[KnownFile, ...]
    human_file: str
    human_labels: Mapping[str, str]

    def download(self) -> Download:
        """Return the files to download: the binary version and the human labels.

        An existing python version replaces the binary one.
        """
        first, *others = (
            in_folder(folder, files)
            for layout, files in (
                (self.binary, self.binary_files),
                (self.python, self.python_files),
            )
            for folder in layout.folders
        )
        images = RemoteFile(
            self.archive.path,
            self.archive.size,
            self.archive.checksum,
            urls=(PUBLISHER + self.archive.path,),
            contents=first,
            alternatives=tuple(others),
        )
        # There is no published checksum. Instead, the loader compares the clean labels in the file
        # with those of the images.
        path = f"{HUMAN_FOLDERS[0]}/{self.human_file}.pt"
        places = [
            in_folder(folder, [KnownFile(f"{self.human_file}{ending}")])
            for folder, ending in product(HUMAN_FOLDERS, HUMAN_ENDINGS)
        ]
        human_labels = RemoteFile(
            path,
            urls=(f"{HUMAN_LABELS_PUBLISHER}{self.human_file}.pt",),
            alternatives=tuple(form for form in places if form[0].path != path),
            optional=True,
        )
        return Download((images, human_labels), TERMS)


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_BINARY_SHA256 = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
)
_PYTHON_MD5 = (
    "c99cafc152244af753f735de768cd75f",
    "d4bba439e000b95fd0a9bffe97cbabec",
    "54ebc095f3ab1f0389bbae665268c751",
    "634d18415352ddfa80567beed471001a",
    "482c414d41f54cd18b22e5b47cb7c3cb",
    "40351d587109b95175f43aff81a1287e",
)
CIFAR10 = CifarRelease(
    name="cifar10",
    num_classes=10,
    binary=Layout(
        folders=("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10", "."),
        files=(*(f"{batch}.bin" for batch in _BATCHES), "test_batch.bin"),
    ),
    python=Layout(
        folders=("cifar-10-batches-py", "cifar10/cifar-10-batches-py", "cifar10", "."),
        files=(*_BATCHES, "test_batch"),
    ),
    train_files=5,
    label_bytes=1,
    label_key="labels",
    binary_names="batches.meta.txt",
    python_names=("batches.meta", "label_names"),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    archive=KnownFile(
        "cifar-10-binary.tar.gz", 170_052_171, "md5:c32a1d4ab5d03f1284b67883e8d87530"
    ),
    binary_files=tuple(
        KnownFile(f"{name}.bin", 30_730_000, f"sha256:{digest}")
        for name, digest in zip((*_BATCHES, "test_batch"), _BINARY_SHA256, strict=True)
    ),
    python_files=tuple(
        KnownFile(name, checksum=f"md5:{digest}")
        for name, digest in zip((*_BATCHES, "test_batch"), _PYTHON_MD5, strict=True)
    ),
    human_file="CIFAR-10_human",
    human_labels={
        "clean": "clean_label",
        "aggre": "aggre_label",
        "worse": "worse_label",
        "random1": "random_label1",
        "random2": "random_label2",
        "random3": "random_label3",
    },
)
CIFAR100 = CifarRelease(
    name="cifar100",
    num_classes=100,
    binary=Layout(
        folders=("cifar-100-binary", "cifar100/cifar-100-binary", "cifar100", "."),
        files=("train.bin", "test.bin"),
    ),
    python=Layout(
        folders=("cifar-100-python", "cifar100/cifar-100-python", "cifar100", "."),
        files=("train", "test"),
    ),
    train_files=1,
    label_bytes=2,  # the coarse label, then the fine one
    label_key="fine_labels",
    binary_names="fine_label_names.txt",
    python_names=("meta", "fine_label_names"),
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    archive=KnownFile(
        "cifar-100-binary.tar.gz", 168_513_733, "md5:03b5dce01913d631647c71ecec9e9cb8"
    ),
    binary_files=(
        KnownFile(
            "train.bin",
            153_700_000,
            "sha256:f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
        ),
        KnownFile(
            "test.bin",
            30_740_000,
            "sha256:d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
        ),
    ),
    python_files=(
        KnownFile("train", checksum="md5:16019d7e3df5f24257cddd939b257f8d"),
        KnownFile("test", checksum="md5:f0ef6b0ae62326f3e7ffdfab6717acfc"),
    ),
    human_file="CIFAR-100_human",
    human_labels={"clean": "clean_label", "noisy": "noisy_label"},
)


@datasets.register("cifar10")
@obtained(CIFAR10.download())
def load_cifar10(
    directory: Path,
    *,
    augment: bool = True,
    std: tuple[float, float, float] = CIFAR10.std,
) -> TaskData:
    """50,000 + 10,000 photographs of 32 × 32 pixels in 10 classes.

    Args:
        directory: the data directory.
        augment: whether to augment training images: random crop with padding 4, and flip.
        std: divisors of red, green and blue, where white is 1. The default is the standard
            deviation over all training pixels. Much published code, including that of DiscrimLoss,
            uses 0.2023, 0.1994 and 0.2010: the mean over the images of their standard deviations.
    """
    if min(std) <= 0.0:
        raise OptionError(f"data.std must have three numbers above 0, not {list(std)}")
    return load_cifar(replace(CIFAR10, std=std), directory, augment)


@datasets.register("cifar100")
@obtained(CIFAR100.download())
def load_cifar100(directory: Path, *, augment: bool = True) -> TaskData:
    """50,000 + 10,000 photographs of 32 × 32 pixels in 100 classes.

    Args:
        directory: the data directory.
        augment: whether to augment training images: random crop with padding 4, and flip.
    """
    return load_cifar(CIFAR100, directory, augment)


def load_cifar(release: CifarRelease, directory: Path, augment: bool) -> TaskData:
    """Read the version that exists. Both versions have the samples in the same order."""
    layout, folder, files = find_files(release.name, directory, release.binary, release.python)
    is_binary = layout is release.binary
    read = _read_binary if is_binary else _read_python
    rows = [read(release, files[name]) for name in layout.files]
    train = _joined(rows[: release.train_files])
    return TaskData(
        train=train,
        test=_joined(rows[release.train_files :]),
        num_classes=release.num_classes,
        prepare=ImagePreparation(
            release.mean, release.std, padding=CROP_PADDING, flip=True, augment=augment
        ),
        input_shape=IMAGE_SHAPE,
        class_names=_class_names(release, folder, is_binary),
        human_labels=HumanLabels(release, directory, train.target),
    )


_Rows = tuple[Tensor, Tensor]


def _joined(rows: Sequence[_Rows]) -> Split:
    images = torch.cat([images for images, _ in rows])
    return Split(TensorInputs(images), torch.cat([labels for _, labels in rows]))


def _read_binary(release: CifarRelease, path: Path) -> _Rows:
    content = np.fromfile(path, dtype=np.uint8)
    row_bytes = release.label_bytes + NUM_PIXELS
    if content.size == 0 or content.size % row_bytes:
        raise DataError(
            f"{path} has {content.size:,} bytes, not a multiple of the {row_bytes:,} of an image: "
            f"download it again"
        )
    rows = torch.from_numpy(content).view(-1, row_bytes)
    labels = rows[:, release.label_bytes - 1].long()
    return _checked(release, path, rows[:, release.label_bytes :], labels)


def _read_python(release: CifarRelease, path: Path) -> _Rows:
    batch = read_pickled_dict(path)
    for key in ("data", release.label_key):
        if key not in batch:
            raise DataError(
                f"{path} has no {key!r}, as published, but {', '.join(batch) or 'nothing'}: "
                f"download it again"
            )
    pixels, labels = np.asarray(batch["data"]), np.asarray(batch[release.label_key])
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), NUM_PIXELS) or not len(labels):
        raise DataError(
            f"{path} has data of shape {pixels.shape} and type {pixels.dtype} for {len(labels)} "
            f"labels, not uint8 rows of {NUM_PIXELS:,}: download it again"
        )
    return _checked(
        release, path, torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64))
    )


def _checked(release: CifarRelease, path: Path, pixels: Tensor, labels: Tensor) -> _Rows:
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= release.num_classes:
        raise DataError(
            f"{path} has labels from {low} to {high}, not from 0 to {release.num_classes - 1}: "
            f"is it {release.name}?"
        )
    return pixels.reshape(-1, *IMAGE_SHAPE), labels


def _class_names(release: CifarRelease, folder: Path, is_binary: bool) -> tuple[str, ...]:
    """Return the published class names. Empty if the file is missing or has too few names."""
    file, key = release.python_names
    path = folder / (release.binary_names if is_binary else file)
    if not path.is_file():
        return ()
    if is_binary:
        names = path.read_text(encoding="utf-8").split()
    else:
        names = [as_text(name) for name in read_pickled_dict(path).get(key, ())]
    return tuple(names) if len(names) == release.num_classes else ()


@dataclass(frozen=True)
class HumanLabels:
    """Reads CIFAR-N's labels by name, on demand.

    The labels are in the order of CIFAR's binary and python versions, not in the order of
    TensorFlow Datasets. As a check, the clean labels in the file must equal those of the images.

    Args:
        release: CIFAR-10 or CIFAR-100.
        directory: the data directory.
        clean_target: shape (train,): the labels of the training images.
    """

    release: CifarRelease
    directory: Path
    clean_target: Tensor

    def __call__(self, name: str) -> Tensor:
        """Return the labels of this name, shape (train,), int64."""
        keys, dataset = self.release.human_labels, self.release.name
        if name not in keys:
            hint = did_you_mean(name, keys)
            raise OptionError(f"{dataset} has no human labels {name!r}: {hint}")
        path = self._find()
        if not torch.equal(read_label_file(path, CLEAN_KEY), self.clean_target):
            raise DataError(
                f"the clean labels in {path} are not those of the {len(self.clean_target):,} "
                f"training images of {dataset}: it belongs to other images or another order"
            )
        labels = read_label_file(path, keys[name])
        if len(labels) != len(self.clean_target):
            raise DataError(
                f"{keys[name]!r} in {path} has {len(labels):,} labels for "
                f"{len(self.clean_target):,} training images: download it again"
            )
        return labels

    def _find(self) -> Path:
        names = [f"{self.release.human_file}{ending}" for ending in HUMAN_ENDINGS]
        for folder, name in product(HUMAN_FOLDERS, names):
            if (self.directory / folder / name).is_file():
                return self.directory / folder / name
        raise DataError(
            f"no human labels for {self.release.name} in {self.directory}: looked for "
            f"{' or '.join(names)} in {listed(HUMAN_FOLDERS)}; {how_to_get(self.release.name)}"
        )
