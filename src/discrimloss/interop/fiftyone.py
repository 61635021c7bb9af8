"""Exports labels to FiftyOne with verdicts as attributes, and imports corrected labels.

The layout is ``FiftyOneImageClassificationDataset`` of FiftyOne's documentation, "Importing data
into FiftyOne" (docs.voxel51.com/user_guide/import_datasets.html). It is the only layout with
attributes whose file is fully documented. FiftyOne need not be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy.typing as npt

from discrimloss.interop.exchange import (
    facts_of,
    label_at,
    label_of_choice,
    names_of_classes,
    number_or_none,
    read_json,
    readable_labels,
    with_readable_labels,
    worst_rows,
    write_json_files,
)
from discrimloss.judging.verdicts import Verdicts, one_per_sample

LABELS_FILE = "labels.json"


def write_labels(
    directory: str | Path,
    verdicts: Verdicts,
    images: Sequence[str | PurePath],
    given_label: Any | None = None,
    *,
    predicted_label: Any | None = None,
    predicted_score: Any | None = None,
    class_names: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    limit: int | None = None,
    overwrite: bool = False,
) -> None:
    """Write ``labels.json``: the given labels, with verdicts as attributes.

    FiftyOne looks for the images in the folder ``data`` next to this file, or in the folder that is
    passed to FiftyOne as ``data_path``.

    Args:
        directory: directory for the file.
        verdicts: verdicts on all samples.
        images: the path of each sample's image, relative to the folder of images.
        given_label: labels in the data, one per sample: class names or positions. By default those
            of the verdicts.
        predicted_label: a model's predictions. By default the suggested labels of the verdicts.
        predicted_score: the model's confidence in each prediction, one per sample.
        class_names: names of the classes, by position.
        ids: ids of the samples. By default those of the verdicts.
        limit: maximum number of images, most suspicious first.
        overwrite: whether to replace an existing file.
    """
    rows = worst_rows(verdicts, limit)
    verdicts = with_readable_labels(verdicts, given_label, predicted_label, class_names, ids)
    given = verdicts.given_label
    if given is None or given.dtype.kind == "f":
        raise ValueError(
            "FiftyOne's layout holds classes, not regression targets: write a project for Label "
            "Studio instead"
        )
    scores = None
    if predicted_score is not None:
        scores = one_per_sample(predicted_score, len(verdicts), "predicted_score")
    classes = names_of_classes(class_names, given)
    keys = _keys(images, len(verdicts))
    labels = {
        keys[row]: _label(verdicts, row, classes.index(str(given[row])), scores) for row in rows
    }
    layout = {"classes": classes, "labels": labels}
    write_json_files(Path(directory), {LABELS_FILE: layout}, overwrite)


def read_corrections(
    path: str | Path,
    images: Sequence[str | PurePath],
    given_label: Any,
    class_names: Sequence[str] | None = None,
) -> dict[int, str | int]:
    """Return the labels that were changed in FiftyOne, by sample index.

    Args:
        path: ``labels.json`` of an export as ``FiftyOneImageClassificationDataset``.
        images: as in `write_labels`.
        given_label: as in `write_labels`.
        class_names: as in `write_labels`. If given, the corrected labels are positions, too.
    """
    layout = read_json(path, "an export as FiftyOneImageClassificationDataset")
    if not isinstance(layout, dict) or not isinstance(layout.get("labels"), dict):
        raise ValueError(f"{path} must hold labels: export as FiftyOneImageClassificationDataset")
    keys = _keys(images, len(images))
    index_of = {key: index for index, key in enumerate(keys)}
    given = readable_labels(given_label, len(images), class_names, "given_label").tolist()
    corrections: dict[int, str | int] = {}
    for key, target in layout["labels"].items():
        if key not in index_of:
            raise ValueError(f"{path} labels {key!r}, which is none of the images")
        label = _name_of(target, layout.get("classes"), key)
        index = index_of[key]
        if label is not None and label != given[index]:
            corrections[index] = label_of_choice(label, class_names, f"image {key!r}")
    return dict(sorted(corrections.items()))


def _label(
    verdicts: Verdicts, row: int, target: int, scores: npt.NDArray[Any] | None
) -> dict[str, Any]:
    facts = facts_of(verdicts, row)
    suggested = label_at(verdicts.suggested_label, row)
    if suggested is not None:
        facts["predicted_label"] = suggested
        facts["predicted_score"] = number_or_none(scores, row)
    # Attributes without a value are left out, because null has no type.
    attributes = {name: value for name, value in facts.items() if value is not None}
    label: dict[str, Any] = {"label": target, "attributes": attributes}
    if facts["p_incorrect"] is not None:
        label["confidence"] = 1.0 - facts["p_incorrect"]
    return label


def _keys(images: Sequence[str | PurePath], num_samples: int) -> list[str]:
    """Return FiftyOne's key of each image: its relative path without the suffix."""
    if len(images) != num_samples:
        raise ValueError(f"there are {len(images)} images for {num_samples} samples")
    key_of: dict[str, PurePath] = {}
    for image in map(PurePath, images):
        if image.is_absolute() or ".." in image.parts:
            raise ValueError(f"{image} must be a path relative to the folder of images")
        key = image.with_suffix("").as_posix()
        if key in key_of:
            raise ValueError(
                f"FiftyOne cannot distinguish {key_of[key]} and {image}, because it reads paths "
                "without their suffix: rename one of them"
            )
        key_of[key] = image
    return list(key_of)


def _name_of(target: Any, classes: Sequence[str] | None, key: str) -> str | None:
    """Return the class of one exported label, or None if the image has none."""
    if isinstance(target, list):
        raise ValueError(f"image {key!r} has {len(target)} labels: choose one of them")
    if isinstance(target, dict):
        target = target.get("label")
    if target is None or isinstance(target, str):
        return target
    if classes is None or not 0 <= target < len(classes):
        raise ValueError(f"image {key!r} has the class {target}, which the file does not name")
    name: str = classes[target]
    return name
