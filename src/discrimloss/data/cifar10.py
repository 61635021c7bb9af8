"""CIFAR-10, in the binary or the python version, with CIFAR-10N's human labels."""

from __future__ import annotations

from pathlib import Path

from discrimloss.data.base import TaskData, datasets
from discrimloss.data.cifar_download import cifar_download
from discrimloss.data.cifar_files import CifarRelease, load_cifar
from discrimloss.data.layout import Layout
from discrimloss.data.obtain import KnownFile, obtained

CIFAR10 = CifarRelease(
    name="cifar10",
    num_classes=10,
    binary=Layout(
        folders=("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10", "."),
        files=(*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"),
    ),
    python=Layout(
        folders=("cifar-10-batches-py", "cifar10/cifar-10-batches-py", "cifar10", "."),
        files=(*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"),
    ),
    train_files=5,
    label_bytes=1,
    label_key="labels",
    binary_names="batches.meta.txt",
    python_names=("batches.meta", "label_names"),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)

HUMAN_LABELS = {
    "clean": "clean_label",
    "aggre": "aggre_label",
    "worse": "worse_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
}


BINARY_SHA256 = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
)
PYTHON_MD5 = (
    "c99cafc152244af753f735de768cd75f",
    "d4bba439e000b95fd0a9bffe97cbabec",
    "54ebc095f3ab1f0389bbae665268c751",
    "634d18415352ddfa80567beed471001a",
    "482c414d41f54cd18b22e5b47cb7c3cb",
    "40351d587109b95175f43aff81a1287e",
)
DOWNLOAD = cifar_download(
    CIFAR10,
    archive=KnownFile(
        "cifar-10-binary.tar.gz", 170_052_171, "md5:c32a1d4ab5d03f1284b67883e8d87530"
    ),
    binary=(
        KnownFile(name, 30_730_000, f"sha256:{digest}")
        for name, digest in zip(CIFAR10.binary.files, BINARY_SHA256, strict=True)
    ),
    python=(
        KnownFile(name, checksum=f"md5:{digest}")
        for name, digest in zip(CIFAR10.python.files, PYTHON_MD5, strict=True)
    ),
)


@datasets.register("cifar10")
@obtained(DOWNLOAD)
def load_cifar10(directory: Path, *, augment: bool = True) -> TaskData:
    """50,000 + 10,000 photographs of 32 × 32 pixels in 10 classes.

    Args:
        directory: the data directory.
        augment: random crop with a border of 4 pixels and flip, for training.
    """
    return load_cifar(CIFAR10, directory, augment=augment, human_labels=HUMAN_LABELS)
