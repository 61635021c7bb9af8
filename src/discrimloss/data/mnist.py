"""MNIST, from the published idx files, compressed or not."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import torch
from torch import Tensor

from discrimloss.data.base import DataError, Split, TaskData, TensorInputs, datasets
from discrimloss.data.images import ImagePreparation
from discrimloss.data.published_files import (
    Download,
    KnownFile,
    Layout,
    RemoteFile,
    find_files,
    in_folder,
    obtained,
)

NUM_CLASSES = 10
MEAN, STD = (0.1307,), (0.3081,)

LAYOUT = Layout(
    folders=("mnist", "MNIST/raw", "mnist/MNIST/raw", "."),
    files=(
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ),
    endings=("", ".gz"),
)


MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
PUBLISHED = (
    (
        9_912_422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        47_040_016,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    (
        28_881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        60_008,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    (
        1_648_877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        7_840_016,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    (
        4_542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        10_008,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
"""Size and SHA-256 of each file of `LAYOUT`, compressed and uncompressed."""


def _remote_file(
    name: str, packed_size: int, packed_sha256: str, size: int, sha256: str
) -> RemoteFile:
    packed = KnownFile(f"{name}.gz", packed_size, f"sha256:{packed_sha256}")
    unpacked = KnownFile(name, size, f"sha256:{sha256}")
    first, *others = (
        in_folder(folder, [file]) for folder in LAYOUT.folders for file in (packed, unpacked)
    )
    return RemoteFile(
        first[0].path,
        packed.size,
        packed.checksum,
        urls=tuple(mirror + packed.path for mirror in MIRRORS),
        alternatives=tuple(others),
    )


DOWNLOAD = Download(
    tuple(_remote_file(name, *known) for name, known in zip(LAYOUT.files, PUBLISHED, strict=True))
)


@datasets.register("mnist")
@obtained(DOWNLOAD)
def load_mnist(directory: Path) -> TaskData:
    """60,000 + 10,000 handwritten digits of 28 × 28 pixels, not augmented."""
    _, _, files = find_files("mnist", directory, LAYOUT)
    return TaskData(
        train=_read_split(files, "train"),
        test=_read_split(files, "t10k"),
        num_classes=NUM_CLASSES,
        prepare=ImagePreparation(MEAN, STD, augment=False),
        input_shape=(1, 28, 28),
        class_names=tuple(str(digit) for digit in range(NUM_CLASSES)),
    )


def _read_split(files: dict[str, Path], name: str) -> Split:
    image_file, label_file = files[f"{name}-images-idx3-ubyte"], files[f"{name}-labels-idx1-ubyte"]
    images, labels = read_idx(image_file, num_dimensions=3), read_idx(label_file, num_dimensions=1)
    if images.shape[1:] != (28, 28):
        size = " x ".join(str(side) for side in images.shape[1:])
        raise DataError(f"{image_file} has images of {size} pixels, not 28 x 28: is it MNIST?")
    if len(images) != len(labels):
        raise DataError(
            f"{image_file} has {len(images):,} images, but {label_file} {len(labels):,} labels: "
            f"download both files again"
        )
    if len(labels) == 0 or labels.max() >= NUM_CLASSES:
        raise DataError(f"{label_file} has no labels or some above 9: is it MNIST?")
    return Split(TensorInputs(images[:, None]), labels.long())


def read_idx(path: Path, num_dimensions: int) -> Tensor:
    """Return a uint8 array from an idx file, which is compressed if its name ends in ``.gz``.

    An idx file has two zero bytes, the type (8 for uint8), the number of dimensions, each dimension
    as four bytes, and the values. `num_dimensions` is the expected number of dimensions.
    """
    content = _read_bytes(path)
    expected = bytes([0, 0, 8, num_dimensions])
    if content[:4] != expected:
        raise DataError(
            f"{path} begins with the bytes {content[:4].hex(' ')}, not with the "
            f"{expected.hex(' ')} of an idx file: download it again"
        )
    start = 4 + 4 * num_dimensions
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    size = torch.Size(shape).numel()
    if len(content) != start + size:
        raise DataError(
            f"{path} has {len(content):,} bytes, but its header announces {start + size:,}: "
            f"download it again"
        )
    if size == 0:
        return torch.empty(shape, dtype=torch.uint8)
    return torch.frombuffer(content, dtype=torch.uint8, offset=start).view(shape)


def _read_bytes(path: Path) -> bytearray:
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                return bytearray(file.read())
        return bytearray(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path} ({error}): download it again") from error
