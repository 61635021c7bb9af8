"""CIFAR-100, in the binary or the python version, with CIFAR-100N's human labels."""

from __future__ import annotations

from pathlib import Path

from discrimloss.data.base import TaskData, datasets
from discrimloss.data.cifar_download import cifar_download
from discrimloss.data.cifar_files import CifarRelease, load_cifar
from discrimloss.data.layout import Layout
from discrimloss.data.obtain import KnownFile, obtained

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
)

HUMAN_LABELS = {"clean": "clean_label", "noisy": "noisy_label"}


DOWNLOAD = cifar_download(
    CIFAR100,
    archive=KnownFile(
        "cifar-100-binary.tar.gz", 168_513_733, "md5:03b5dce01913d631647c71ecec9e9cb8"
    ),
    binary=(
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
    python=(
        KnownFile("train", checksum="md5:16019d7e3df5f24257cddd939b257f8d"),
        KnownFile("test", checksum="md5:f0ef6b0ae62326f3e7ffdfab6717acfc"),
    ),
)


@datasets.register("cifar100")
@obtained(DOWNLOAD)
def load_cifar100(directory: Path, *, augment: bool = True) -> TaskData:
    """50,000 + 10,000 photographs of 32 × 32 pixels in 100 classes.

    Args:
        directory: the data directory.
        augment: random crop with a border of 4 pixels and flip, for training.
    """
    return load_cifar(CIFAR100, directory, augment=augment, human_labels=HUMAN_LABELS)
