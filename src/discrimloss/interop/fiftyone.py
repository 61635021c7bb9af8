"""Labels for FiftyOne with verdicts as their attributes, and the corrected labels back.

The layout is ``FiftyOneImageClassificationDataset`` of FiftyOne's documentation, "Importing data
into FiftyOne" (docs.voxel51.com/user_guide/import_datasets.html): of those that hold more than a
label it is the one whose file is documented in full. Nothing of FiftyOne needs to be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from discrimloss.interop.new_files import as_json, read_json, write_new_files
from discrimloss.interop.records import (
    SampleRecord,
    are_numbers,
    label_of_choice,
    names_of_classes,
    readable_labels,
    sample_records,
)
from discrimloss.judging.verdicts import Verdicts, one_per_sample

LABELS_FILE = "labels.json"


def write_labels(
    directory: str | Path,
    verdicts: Verdicts,
    images: Sequence[str | PurePath],
    given_label: Any,
    *,
    predicted_label: Any | None = None,
    predicted_score: Any | None = None,
    class_names: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    limit: int | None = None,
    overwrite: bool = False,
) -> None:
    """Write ``labels.json``: the given labels, with verdicts as attributes.

    FiftyOne looks for the images below ``data`` beside it, or below the ``data_path`` it is told.

    Args:
        directory: where the file goes.
        verdicts: of all samples.
        images: the path of each sample's image, relative to the folder of images.
        given_label: the labels trained on, one per sample: names of classes or positions.
        predicted_label: what a model says, like `given_label`.
        predicted_score: how sure the model is.
        class_names: names of the classes, by position.
        ids: names of the samples; by default those the verdicts carry, if any.
        limit: how many images at most, worst first.
        overwrite: replace a file that is there.
    """
    records = sample_records(
        verdicts,
        given_label,
        predicted_label=predicted_label,
        predicted_score=predicted_score,
        class_names=class_names,
        ids=ids,
        limit=limit,
    )
    if are_numbers(given_label, class_names):
        raise ValueError(
            "FiftyOne's layout holds classes, not numbers: for regression write a project for "
            "Label Studio"
        )
    classes = names_of_classes(class_names, given_label)
    layout = labels_layout(records, _keys(images, len(verdicts)), classes)
    write_new_files(Path(directory), {LABELS_FILE: as_json(layout)}, overwrite)


def labels_layout(
    records: Sequence[SampleRecord], keys: Sequence[str], class_names: Sequence[str]
) -> dict[str, Any]:
    """The content of ``labels.json``.

    Args:
        records: of the samples to show, in this order.
        keys: of all samples: the relative path of each image without its ending.
        class_names: of all classes.
    """
    position = {name: place for place, name in enumerate(class_names)}
    labels = {
        keys[record.index]: _label(record, position[str(record.given_label)]) for record in records
    }
    return {"classes": list(class_names), "labels": labels}


def read_corrections(
    path: str | Path,
    images: Sequence[str | PurePath],
    given_label: Any,
    class_names: Sequence[str] | None = None,
) -> dict[int, str | int]:
    """Labels that were changed in FiftyOne, by sample index.

    Args:
        path: ``labels.json`` of an export as ``FiftyOneImageClassificationDataset``.
        images: as in `write_labels`.
        given_label: as in `write_labels`.
        class_names: as in `write_labels`; then corrected labels are positions too.
    """
    layout = read_json(path, "an export as FiftyOneImageClassificationDataset")
    if not isinstance(layout, dict) or not isinstance(layout.get("labels"), dict):
        raise ValueError(f"{path} must hold labels: export as FiftyOneImageClassificationDataset")
    keys = _keys(images, len(images))
    index_of = {key: index for index, key in enumerate(keys)}
    every = one_per_sample(given_label, len(images), "given_label")
    given = readable_labels(every, class_names, "given_label")
    corrections: dict[int, str | int] = {}
    for key, target in layout["labels"].items():
        if key not in index_of:
            raise ValueError(f"{path} labels {key!r}, which is none of the images")
        label = _name_of(target, layout.get("classes"), key)
        index = index_of[key]
        if label is not None and label != given[index]:
            corrections[index] = label_of_choice(label, class_names, f"image {key!r}")
    return dict(sorted(corrections.items()))


def _label(record: SampleRecord, target: int) -> dict[str, Any]:
    facts = record.facts()
    if record.predicted_label is not None:
        facts["predicted_label"] = record.predicted_label
        facts["predicted_score"] = record.predicted_score
    # An attribute that has no value is left out; null would be a value of no type.
    attributes = {name: value for name, value in facts.items() if value is not None}
    label: dict[str, Any] = {"label": target, "attributes": attributes}
    if record.p_incorrect is not None:
        label["confidence"] = 1.0 - record.p_incorrect
    return label


def _keys(images: Sequence[str | PurePath], num_samples: int) -> list[str]:
    """FiftyOne knows an image by its relative path without the ending."""
    if len(images) != num_samples:
        raise ValueError(f"there are {len(images)} images for {num_samples} samples")
    key_of: dict[str, PurePath] = {}
    for image in map(PurePath, images):
        if image.is_absolute() or ".." in image.parts:
            raise ValueError(f"{image} must be a path relative to the folder of images")
        key = image.with_suffix("").as_posix()
        if key in key_of:
            raise ValueError(
                f"{key_of[key]} and {image} would be one image to FiftyOne, which looks at paths "
                "without their endings: rename one of them"
            )
        key_of[key] = image
    return list(key_of)


def _name_of(target: Any, classes: Sequence[str] | None, key: str) -> str | None:
    """The class of one exported label; None where an image has none."""
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
