"""Tiny datasets in the layouts of their publishers: every file as it ships, with a few samples.

Pixels are noise whose brightness grows with the class, so that a model has something to learn.
"""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

CLOTHING_CLASSES = 14
MALFORMED_FACES = (
    "61_1_20170109142408075.jpg.chip.jpg",
    "55_0_0_20170116232725357jpg.chip.jpg",
    "24_0_1_20170116220224657 .jpg.chip.jpg",
)


def classes(count: int, num_classes: int) -> np.ndarray:
    """Labels that take turns: 0, 1, …, num_classes - 1, 0, …"""
    return np.arange(count) % num_classes


def pictures(labels: np.ndarray, num_classes: int, shape: tuple[int, ...], seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(0, 128, (len(labels), *shape))
    brightness = labels * 127 // max(1, num_classes - 1)
    return (noise + brightness.reshape(-1, *[1] * len(shape))).astype(np.uint8)


def write_idx(path: Path, array: np.ndarray, compressed: bool = False) -> Path:
    sizes = b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    content = bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not compressed:
        path.write_bytes(content)
        return path
    path = path.with_name(f"{path.name}.gz")
    path.write_bytes(gzip.compress(content))
    return path


def write_mnist(
    directory: Path,
    train: int = 60,
    test: int = 20,
    compressed: bool = True,
    folder: str = "mnist",
) -> Path:
    """`directory`, now with MNIST's four idx files in `folder`."""
    for seed, (name, count) in enumerate({"train": train, "t10k": test}.items()):
        labels = classes(count, 10)
        images = pictures(labels, 10, (28, 28), seed)
        write_idx(directory / folder / f"{name}-images-idx3-ubyte", images, compressed)
        write_idx(directory / folder / f"{name}-labels-idx1-ubyte", labels, compressed)
    return directory


def write_cifar10(
    directory: Path,
    train: int = 60,
    test: int = 20,
    version: Literal["bin", "py"] = "bin",
) -> Path:
    """`directory`, now with CIFAR-10 in one of its versions; `train` must be a multiple of 5."""
    names = [f"class{number}" for number in range(10)]
    labels = classes(train, 10)
    images = pictures(labels, 10, (3, 32, 32), 0)
    batches = {
        f"data_batch_{number + 1}": (images[rows], labels[rows])
        for number, rows in enumerate(np.split(np.arange(train), 5))
    }
    test_labels = classes(test, 10)
    batches["test_batch"] = (pictures(test_labels, 10, (3, 32, 32), 1), test_labels)
    folder = directory / f"cifar-10-batches-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (pixels, targets) in batches.items():
        rows = pixels.reshape(len(targets), -1)
        if version == "bin":
            content = np.concatenate([targets[:, None].astype(np.uint8), rows], axis=1)
            content.tofile(folder / f"{name}.bin")
        else:
            batch = {b"batch_label": name.encode(), b"labels": targets.tolist(), b"data": rows}
            write_pickle(folder / name, batch)
    if version == "bin":
        (folder / "batches.meta.txt").write_text("\n".join(names) + "\n\n")
    else:
        meta = {b"num_cases_per_batch": train // 5, b"label_names": [n.encode() for n in names]}
        write_pickle(folder / "batches.meta", meta)
    return directory


def write_cifar100(
    directory: Path,
    train: int = 200,
    test: int = 100,
    version: Literal["bin", "py"] = "bin",
) -> Path:
    """`directory`, now with CIFAR-100 in one of its versions."""
    names = [f"class{number}" for number in range(100)]
    folder = directory / ("cifar-100-binary" if version == "bin" else "cifar-100-python")
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, count) in enumerate({"train": train, "test": test}.items()):
        fine = classes(count, 100)
        rows = pictures(fine, 100, (3, 32, 32), seed).reshape(count, -1)
        if version == "bin":
            heads = np.stack([fine // 5, fine], axis=1).astype(np.uint8)
            np.concatenate([heads, rows], axis=1).tofile(folder / f"{name}.bin")
        else:
            labels = {b"fine_labels": fine.tolist(), b"coarse_labels": (fine // 5).tolist()}
            write_pickle(folder / name, {b"data": rows, **labels})
    if version == "bin":
        (folder / "fine_label_names.txt").write_text("\n".join(names) + "\n")
    else:
        write_pickle(folder / "meta", {b"fine_label_names": [n.encode() for n in names]})
    return directory


def write_pickle(path: Path, content: object) -> None:
    # Protocol 2 is what the publisher's Python 2 wrote.
    path.write_bytes(pickle.dumps(content, protocol=2))


def write_cifar_n(
    directory: Path, clean: Sequence[int] | np.ndarray, dataset: str = "cifar10"
) -> Path:
    """`directory`, now with human labels in which every third is the next class.

    For ``"aggre"`` it is every tenth. `clean` are the labels of the training images.
    """
    num_classes, stem = (10, "CIFAR-10") if dataset == "cifar10" else (100, "CIFAR-100")
    truth = np.asarray(clean)

    def wrong(every: int) -> np.ndarray:
        return (truth + (np.arange(len(truth)) % every == 0)) % num_classes

    ten = ("worse_label", "random_label1", "random_label2", "random_label3")
    kinds = ten if dataset == "cifar10" else ("noisy_label",)
    labels = {"clean_label": truth, **{kind: wrong(3) for kind in kinds}}
    if dataset == "cifar10":
        labels["aggre_label"] = wrong(10)
    (directory / "cifar-n").mkdir(parents=True, exist_ok=True)
    np.savez(directory / "cifar-n" / f"{stem}_human.npz", **labels)
    return directory


def write_utkface(
    directory: Path,
    count: int = 40,
    malformed: Sequence[str] = MALFORMED_FACES,
    side: int = 40,
    folder: str = "UTKFace",
) -> Path:
    """`directory`, now with faces of 1 to 100 years, and some more under `malformed` names."""
    (directory / folder).mkdir(parents=True, exist_ok=True)
    ages = 1 + np.arange(count) * 7 % 100
    faces = pictures(ages, 101, (side, side, 3), 0)
    names = [
        f"{age}_{row % 2}_{row % 5}_2017010914{row:07d}.jpg.chip.jpg"
        for row, age in enumerate(ages)
    ]
    for name, face in zip(names, faces, strict=True):
        Image.fromarray(face).save(directory / folder / name, quality=95)
    for name in malformed:
        face = np.zeros((side, side, 3), dtype=np.uint8)
        Image.fromarray(face).save(directory / folder / name, format="JPEG")
    return directory


def write_clothing1m(
    directory: Path,
    noisy_per_class: int = 3,
    validation: int = 14,
    test: int = 14,
    size: tuple[int, int] = (48, 64),
    folder: str = "clothing1m",
) -> Path:
    """`directory`, now with a Clothing1M whose images are `size` (width, height) pixels."""
    root = directory / folder
    root.mkdir(parents=True, exist_ok=True)
    counts = {
        "noisy_train": noisy_per_class * CLOTHING_CLASSES,
        "clean_train": CLOTHING_CLASSES,
        "clean_val": validation,
        "clean_test": test,
    }
    labelled: dict[str, list[str]] = {"noisy": [], "clean": []}
    for seed, (part, count) in enumerate(counts.items()):
        targets = classes(count, CLOTHING_CLASSES)
        images = pictures(targets, CLOTHING_CLASSES, (size[1], size[0], 3), seed)
        keys = [f"images/{row % 10}/{seed}/{row},{part}.jpg" for row in range(count)]
        for key, image in zip(keys, images, strict=True):
            (root / key).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(root / key, quality=90)
        (root / f"{part}_key_list.txt").write_text("".join(f"{key}\n" for key in keys))
        labelled[part.partition("_")[0]] += [
            f"{key} {target}\n" for key, target in zip(keys, targets, strict=True)
        ]
    for kind, lines in labelled.items():
        # The published tables are not in the order of the lists.
        (root / f"{kind}_label_kv.txt").write_text("".join(reversed(lines)))
    names = "".join(f"Garment {number}\n" for number in range(CLOTHING_CLASSES))
    (root / "category_names_eng.txt").write_text(names)
    return directory
