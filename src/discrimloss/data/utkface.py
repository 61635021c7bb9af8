"""UTKFace: faces with the age in the file name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch

from discrimloss.data.base import DataError, Prepare, Split, TaskData, datasets
from discrimloss.data.images import ImagePreparation, SharedRows, decode_all
from discrimloss.data.published_files import ByHand, KnownFile, listed, no_data, obtained
from discrimloss.data.scale_crop import ScaleCropPreparation
from discrimloss.options import OptionError

FOLDERS = ("UTKFace", "utkface", "UTKFace/UTKFace", ".")
PARTS = ("part1", "part2", "part3")
NAME = re.compile(r"(?P<age>\d{1,3})_[01]_[0-4]_\d+(\.jpg\.chip)?\.jpg")
"""Age, gender, race, date and time. Aligned and cropped faces have ``chip`` in the name."""

TEST_FRACTION = 0.1
NORMALIZATION = {
    "centred": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
"""Mean and standard deviation of the channels."""
NAMES_IN_A_NOTE = 5


BY_HAND = ByHand(
    "follow the links at https://susanqq.github.io/UTKFace/ to the aligned and cropped faces "
    "(UTKFace.tar.gz on Google Drive; for non-commercial research only) and unpack them into the "
    "data directory, so that it has the faces in a folder UTKFace",
    forms=tuple((KnownFile(folder),) for folder in FOLDERS if folder != "."),
)


@datasets.register("utkface")
@obtained(BY_HAND)
def load_utkface(
    directory: Path,
    *,
    size: int = 128,
    split_seed: int = 0,
    augment: bool = True,
    crop: Literal["shift", "scale"] = "shift",
    normalization: Literal["centred", "imagenet"] = "centred",
) -> TaskData:
    """23,708 faces from 1 to 116 years, to predict their age: 90 % for training, 10 % for testing.

    Five of the published file names are malformed. These files and unreadable images are left out
    and listed in the notes. All faces are decoded into memory, 49 kB each at 128 × 128. To
    keep them for later runs, set the environment variable ``DISCRIMLOSS_CACHE`` to a directory.

    Args:
        directory: the data directory.
        size: side of the scaled faces.
        split_seed: seed that selects the faces for testing.
        augment: whether to crop training faces and mirror them with probability 0.5.
        crop: ``"shift"`` moves a face by up to a sixteenth of its side, which does not change the
            apparent age. ``"scale"`` crops a window of random size, as in the authors' released
            code (`ScaleCropPreparation`).
        normalization: ``"centred"`` scales pixels to -1 … 1. ``"imagenet"`` is for weights
            pretrained on ImageNet.
    """
    if size < 1:
        raise OptionError(f"data.size must be at least 1, not {size}")
    named, malformed = split_by_name(find_faces(directory))
    decoded = decode_all(named, size)
    unreadable = [path for path, ok in zip(named, decoded.readable.tolist(), strict=True) if not ok]
    ages = torch.tensor([_age(path) for path in named])[decoded.readable]
    if len(ages) < 2:
        raise DataError(
            f"no utkface data in {directory}: of {len(named) + len(malformed):,} files "
            f"{len(malformed):,} are not named age_gender_race_date.jpg.chip.jpg and "
            f"{len(unreadable):,} are not images"
        )
    order = torch.randperm(len(ages), generator=torch.Generator().manual_seed(split_seed))
    num_test = max(1, round(TEST_FRACTION * len(ages)))
    everything = Split(SharedRows(decoded.pixels, torch.arange(len(ages))), ages)
    return TaskData(
        train=everything.select(order[num_test:]),
        test=everything.select(order[:num_test]),
        num_classes=None,
        prepare=_preparation(size, augment, crop, *NORMALIZATION[normalization]),
        input_shape=(3, size, size),
        notes=(
            *_note(malformed, "not named age_gender_race_date.jpg.chip.jpg"),
            *_note(unreadable, "not readable as an image"),
        ),
    )


def _preparation(
    size: int, augment: bool, crop: str, mean: tuple[float, ...], std: tuple[float, ...]
) -> Prepare:
    if augment and crop == "scale":
        return ScaleCropPreparation(mean, std)
    return ImagePreparation(mean, std, padding=size // 16, flip=True, augment=augment)


def find_faces(directory: Path) -> list[Path]:
    """Return all image files, sorted by name, or raise a `DataError` if there is none."""
    for folder in FOLDERS:
        whole = directory / folder
        for places in ([whole], [whole / part for part in PARTS]):
            faces = [path for place in places for path in place.glob("*.jpg")]
            if faces:
                return sorted(faces, key=lambda path: (path.parent.name, path.name))
    looked = f"for *.jpg in {listed(FOLDERS)}, and in the folders {', '.join(PARTS)} of these"
    raise DataError(no_data("utkface", directory, looked))


def split_by_name(faces: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return the files with a published name, and the others."""
    named = [path for path in faces if NAME.fullmatch(path.name)]
    return named, [path for path in faces if not NAME.fullmatch(path.name)]


def _age(path: Path) -> float:
    return float(path.name.partition("_")[0])


def _note(skipped: Sequence[Path], reason: str) -> list[str]:
    if not skipped:
        return []
    names = ", ".join(repr(path.name) for path in skipped[:NAMES_IN_A_NOTE])
    more = len(skipped) - NAMES_IN_A_NOTE
    files = "file" if len(skipped) == 1 else "files"
    return [
        f"{len(skipped):,} {files} left out, {reason}: {names}{f' and {more:,} more' * (more > 0)}"
    ]
