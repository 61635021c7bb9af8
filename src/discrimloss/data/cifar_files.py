"""What CIFAR-10 and CIFAR-100 share: the binary and the python version, and how to prepare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from discrimloss.data.base import DataError, Split, TaskData, TensorInputs
from discrimloss.data.cifar_n import HumanLabels
from discrimloss.data.images import ImagePreparation
from discrimloss.data.layout import Layout, find_files
from discrimloss.data.restricted_pickle import as_text, read_pickled_dict

IMAGE_SHAPE = (3, 32, 32)
NUM_PIXELS = 3 * 32 * 32
CROP_PADDING = 4


@dataclass(frozen=True)
class CifarRelease:
    """One of the two datasets, in both versions that its publisher ships.

    Args:
        name: of the dataset.
        num_classes: how many there are.
        binary: files of rows: `label_bytes` bytes, the last of them the label, then the pixels.
        python: pickled dicts with ``data`` and `label_key`.
        train_files: how many of a version's files are for training; the last is for testing.
        label_bytes: how many bytes there are before the pixels of a binary row.
        label_key: where the python version has its labels.
        binary_names: the file with the names of the classes, one in a line.
        python_names: the pickled dict with the names of the classes, and their key.
        mean: of each channel over the training images.
        std: likewise.
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


def load_cifar(
    release: CifarRelease, directory: Path, *, augment: bool, human_labels: dict[str, str]
) -> TaskData:
    """Either version; both have their samples in the same order.

    Args:
        release: which dataset.
        directory: the data directory.
        augment: random crop with a border of 4 pixels and flip, for training.
        human_labels: the names of CIFAR-N's labels and their keys in its file.
    """
    layout, folder, files = find_files(release.name, directory, release.binary, release.python)
    is_binary = layout is release.binary
    read = _read_binary if is_binary else _read_python
    parts = [read(release, files[name]) for name in layout.files]
    train = _joined(parts[: release.train_files])
    return TaskData(
        train=train,
        test=_joined(parts[release.train_files :]),
        num_classes=release.num_classes,
        prepare=ImagePreparation(
            release.mean, release.std, padding=CROP_PADDING, flip=True, augment=augment
        ),
        input_shape=IMAGE_SHAPE,
        class_names=_class_names(release, folder, is_binary),
        human_labels=HumanLabels(release.name, directory, human_labels, train.target),
    )


_Rows = tuple[torch.Tensor, torch.Tensor]


def _joined(parts: Sequence[_Rows]) -> Split:
    images = torch.cat([images for images, _ in parts])
    return Split(TensorInputs(images), torch.cat([labels for _, labels in parts]))


def _read_binary(release: CifarRelease, path: Path) -> _Rows:
    content = np.fromfile(path, dtype=np.uint8)
    row_bytes = release.label_bytes + NUM_PIXELS
    if content.size == 0 or content.size % row_bytes:
        raise DataError(
            f"{path} has {content.size:,} bytes, not a multiple of the {row_bytes:,} of an image: "
            f"get it once more"
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
                f"get it once more"
            )
    pixels, labels = np.asarray(batch["data"]), np.asarray(batch[release.label_key])
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), NUM_PIXELS) or not len(labels):
        raise DataError(
            f"{path} has data of shape {pixels.shape} and type {pixels.dtype} for {len(labels)} "
            f"labels, not uint8 rows of {NUM_PIXELS:,}: get it once more"
        )
    return _checked(
        release, path, torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64))
    )


def _checked(
    release: CifarRelease, path: Path, pixels: torch.Tensor, labels: torch.Tensor
) -> _Rows:
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= release.num_classes:
        raise DataError(
            f"{path} has labels from {low} to {high}, not from 0 to {release.num_classes - 1}: "
            f"is it {release.name}?"
        )
    return pixels.reshape(-1, *IMAGE_SHAPE), labels


def _class_names(release: CifarRelease, folder: Path, is_binary: bool) -> tuple[str, ...]:
    """Names as shipped; without that file, or with too few in it, none."""
    file, key = release.python_names
    path = folder / (release.binary_names if is_binary else file)
    if not path.is_file():
        return ()
    if is_binary:
        names = path.read_text(encoding="utf-8").split()
    else:
        names = [as_text(name) for name in read_pickled_dict(path).get(key, ())]
    return tuple(names) if len(names) == release.num_classes else ()
