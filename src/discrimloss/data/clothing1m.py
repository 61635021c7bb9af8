"""Clothing1M: a million photos from online shops, with labels from the surrounding text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from discrimloss.data.base import DataError, Split, TaskData, datasets
from discrimloss.data.images import ImageFiles, ImagePreparation
from discrimloss.data.published_files import (
    ByHand,
    KnownFile,
    Layout,
    find_files,
    in_folder,
    obtained,
)
from discrimloss.data.whole_images import WholeImageFiles, WindowPreparation
from discrimloss.options import OptionError

NUM_CLASSES = 14
MEAN, STD = (0.6959, 0.6537, 0.6371), (0.3113, 0.3192, 0.3214)

ROOTS = ("clothing1m", "Clothing1M", "clothing1M", ".")
LAYOUT = Layout(
    # The annotations are in a separate archive, which may be unpacked into a folder.
    folders=tuple(str(Path(root, sub)) for root in ROOTS for sub in ("", "annotations")),
    files=(
        "noisy_train_key_list.txt",
        "noisy_label_kv.txt",
        "clean_val_key_list.txt",
        "clean_test_key_list.txt",
        "clean_label_kv.txt",
    ),
)
CLASS_NAMES = "category_names_eng.txt"
IMAGES = "images"


BY_HAND = ByHand(
    "its authors give it to those who sign an agreement (academic use only): send them an e-mail "
    "as https://github.com/Cysu/noisy_label describes, then unpack the images and the annotations "
    "into a folder clothing1m of the data directory",
    forms=tuple(
        in_folder(folder, [KnownFile(name) for name in LAYOUT.files]) for folder in LAYOUT.folders
    ),
)


@datasets.register("clothing1m")
@obtained(BY_HAND)
def load_clothing1m(
    directory: Path,
    *,
    per_class: int = 18_976,
    split_seed: int = 0,
    resize: int = 256,
    crop: int = 224,
    crop_from: Literal["square", "image"] = "square",
    augment: bool = True,
) -> TaskData:
    """Photographs of clothes in 14 classes: noisy labels for training, clean ones for evaluation.

    The training classes are balanced: by default, each noisy class is reduced to the size of the
    smallest one, which gives 265,664 images in total. The validation and test images have clean
    labels.

    Args:
        directory: the data directory.
        per_class: number of images of each noisy class. A smaller class is used completely, and a
            note says so.
        split_seed: seed for drawing the training images.
        resize: length of the shorter side of an image after scaling.
        crop: side of the square window that the model gets. It is centred for evaluation, and at a
            random position for training.
        crop_from: where the training window may lie. ``"square"``: within the central square of the
            image. ``"image"``: anywhere in the scaled image, as in the authors' released code.
        augment: whether to augment training images: random position of the window, and flip.
    """
    if per_class < 1:
        raise OptionError(f"data.per_class must be at least 1, not {per_class}")
    if not 1 <= crop <= resize:
        raise OptionError(f"data.crop must be from 1 to data.resize ({resize}), not {crop}")
    _, annotations, files = find_files("clothing1m", directory, LAYOUT)
    images = _image_folder(_root(annotations))

    def split(keys_file: str, labels_file: str) -> Split:
        keys = _read_lines(files[keys_file])
        target = _targets(keys, files[keys_file], files[labels_file])
        files_of = ImageFiles if crop_from == "square" else WholeImageFiles
        inputs = files_of(images, tuple(key.removeprefix(f"{IMAGES}/") for key in keys), resize)
        if not (images / inputs.names[0]).is_file():  # fail before the first epoch
            raise DataError(
                f"clothing1m has no image {images / inputs.names[0]}, the first of {keys_file}: "
                f"unpack the image archives into {images}"
            )
        return Split(inputs, target)

    everything = split("noisy_train_key_list.txt", "noisy_label_kv.txt")
    class_names = _class_names(annotations / CLASS_NAMES)
    generator = torch.Generator().manual_seed(split_seed)
    return TaskData(
        train=everything.select(balanced_sample(everything.target, per_class, generator)),
        validation=split("clean_val_key_list.txt", "clean_label_kv.txt"),
        test=split("clean_test_key_list.txt", "clean_label_kv.txt"),
        num_classes=NUM_CLASSES,
        prepare=(
            ImagePreparation(MEAN, STD, size=crop, flip=True, augment=augment)
            if crop_from == "square"
            else WindowPreparation(MEAN, STD, crop, augment)
        ),
        input_shape=(3, crop, crop),
        class_names=class_names,
        train_labels_are_clean=False,
        notes=_small_classes(everything.target, per_class, class_names),
    )


def balanced_sample(target: Tensor, per_class: int, generator: torch.Generator) -> Tensor:
    """Return the rows of a subset in which no class has more than `per_class` samples.

    The rows are in ascending order.

    Args:
        target: shape (samples,), int64.
        per_class: number of samples drawn at random from each class. A smaller class is used
            completely.
        generator: the random generator.
    """
    shuffled = torch.randperm(len(target), generator=generator)
    classes, order = target[shuffled].sort(stable=True)
    place_in_class = torch.arange(len(target)) - torch.searchsorted(classes, classes)
    return shuffled[order[place_in_class < per_class]].sort().values


def read_labels(path: Path) -> dict[str, int]:
    """Return the label of each image. Each line of the file has an image name and a class."""
    labels = {}
    for number, line in enumerate(_read_lines(path), start=1):
        key, _, label = line.replace("\t", " ").rpartition(" ")
        if not (key and label.isdecimal() and int(label) < NUM_CLASSES):
            raise DataError(
                f"line {number} of {path} must be a file name and a class from 0 to "
                f"{NUM_CLASSES - 1}, not {line[:60]!r}"
            )
        labels[key.rstrip()] = int(label)
    return labels


def _read_lines(path: Path) -> list[str]:
    lines = [line.strip() for line in path.read_text("utf-8", "replace").splitlines()]
    return [line for line in lines if line]


def _targets(keys: Sequence[str], keys_file: Path, labels_file: Path) -> Tensor:
    if not keys:
        raise DataError(f"{keys_file} lists no images: download it again")
    labels = read_labels(labels_file)
    unlabelled = next((key for key in keys if key not in labels), None)
    if unlabelled is not None:
        raise DataError(
            f"{keys_file} lists {unlabelled}, which has no label in {labels_file}: "
            f"download both files again"
        )
    return torch.tensor([labels[key] for key in keys])


def _root(annotations: Path) -> Path:
    return annotations.parent if annotations.name == "annotations" else annotations


def _image_folder(root: Path) -> Path:
    """Return the folder that has the image folders ``0``, ``1`` and so on.

    It is ``images``, as in the key lists, or the root if the archives were extracted there.
    """
    return root if (root / "0").is_dir() and not (root / IMAGES).is_dir() else root / IMAGES


def _class_names(path: Path) -> tuple[str, ...]:
    names = _read_lines(path) if path.is_file() else []
    return tuple(names) if len(names) == NUM_CLASSES else ()


def _small_classes(target: Tensor, per_class: int, class_names: Sequence[str]) -> tuple[str, ...]:
    counts = torch.bincount(target, minlength=NUM_CLASSES).tolist()
    names = class_names or [f"class {number}" for number in range(NUM_CLASSES)]
    small = [
        f"{name} {count:,}" for name, count in zip(names, counts, strict=True) if count < per_class
    ]
    if not small:
        return ()
    return (f"not balanced: fewer than {per_class:,} noisy images of {', '.join(small)}",)
