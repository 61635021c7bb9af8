"""Helpers for the files of other tools: readable labels, facts about a sample, JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import LABELS, Verdicts, one_per_sample

Label = str | float
"""The name of a class, or a regression target."""


def with_readable_labels(
    verdicts: Verdicts,
    given_label: Any | None,
    predicted_label: Any | None = None,
    class_names: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
) -> Verdicts:
    """Return the verdicts with labels that are class names or regression targets.

    Args:
        verdicts: verdicts on all samples.
        given_label: labels in the data, one per sample. By default those of the verdicts. Floats
            are regression targets. Everything else is a class: its name, or its position in
            `class_names`.
        predicted_label: a model's predictions, like `given_label`. By default the suggested labels
            of the verdicts.
        class_names: names of the classes, by position.
        ids: ids of the samples. By default those of the verdicts.
    """
    given_label = verdicts.given_label if given_label is None else given_label
    if given_label is None:
        raise ValueError("these verdicts hold no labels: pass given_label, one for each sample")
    given = readable_labels(given_label, len(verdicts), class_names, "given_label")
    suggested = verdicts.suggested_label
    if predicted_label is not None:
        suggested = readable_labels(predicted_label, len(verdicts), class_names, "predicted_label")
    elif suggested is not None:
        suggested = readable_labels(
            suggested, len(verdicts), class_names, "suggested_label", may_lack=True
        )
    if suggested is not None and (suggested.dtype.kind == "f") != (given.dtype.kind == "f"):
        raise ValueError(
            "given_label and predicted_label must both be classes, or both be regression targets "
            "(floats)"
        )
    names = verdicts.ids if ids is None else ids
    if names is not None and len(names) != len(verdicts):
        raise ValueError(f"there are {len(names)} ids for {len(verdicts)} samples")
    return replace(
        verdicts,
        given_label=given,
        suggested_label=suggested,
        ids=None if names is None else [str(name) for name in names],
    )


def readable_labels(
    labels: Any,
    num_samples: int,
    class_names: Sequence[str] | None,
    name: str,
    may_lack: bool = False,
) -> npt.NDArray[Any]:
    """Return an array of class names, dtype object, or of regression targets, dtype float64.

    Args:
        labels: one per sample.
        num_samples: required number of labels.
        class_names: names of the classes by position. By default, the positions as text.
        name: name of the argument, for errors.
        may_lack: whether None is allowed among the labels.
    """
    array = one_per_sample(labels, num_samples, name)
    if array.dtype.kind == "f" and class_names is None:
        if not may_lack and not np.isfinite(array).all():
            raise ValueError(f"{name} must hold finite numbers")
        return array.astype(np.float64)
    values = array.tolist()
    if not may_lack and any(label is None for label in values):
        raise ValueError(f"{name} must hold a label for each sample, but holds None")
    known = [label for label in values if label is not None]
    if class_names is not None and known and all(isinstance(label, int) for label in known):
        lowest, highest = int(min(known)), int(max(known))
        if lowest < 0 or highest >= len(class_names):
            raise ValueError(
                f"{name} must hold positions in class_names, from 0 to {len(class_names) - 1}, "
                f"but reaches from {lowest} to {highest}"
            )
        values = [None if label is None else class_names[label] for label in values]
    readable = [None if label is None else str(label) for label in values]
    if class_names is not None:
        names = {str(one) for one in class_names}
        unknown = next((one for one in readable if one is not None and one not in names), None)
        if unknown is not None:
            raise ValueError(f"{name} holds {unknown!r}, which is not in class_names")
    return np.array(readable, dtype=object)


def worst_rows(verdicts: Verdicts, limit: int | None) -> list[int]:
    """Return at most `limit` sample indices, most suspicious first and without a visit last."""
    if limit is not None and limit < 0:
        raise ValueError(f"limit must not be negative, but is {limit}")
    return [int(index) for index in verdicts.order[:limit]]


def facts_of(verdicts: Verdicts, index: int) -> dict[str, Any]:
    """Return the values of one sample by name. All files use these names. None means unknown."""
    facts: dict[str, Any] = {"sample_index": index}
    if verdicts.ids is not None:
        facts["sample_id"] = verdicts.ids[index]
    facts["verdict"] = LABELS[verdicts.code[index]]
    for name in ("p_incorrect", "score", "weight", "average_loss"):
        facts[name] = number_or_none(getattr(verdicts, name), index)
    return facts


def number_or_none(column: npt.NDArray[Any] | None, index: int) -> float | None:
    """Return an entry of a column, or None if it is missing or NaN: JSON has no NaN."""
    value = math.nan if column is None else float(column[index])
    return value if math.isfinite(value) else None


def label_at(labels: npt.NDArray[Any] | None, index: int) -> Label | None:
    """Return a label, or None if it is unknown."""
    label = None if labels is None else labels[index]
    if isinstance(label, float):
        return float(label) if math.isfinite(label) else None
    return label if label is None else str(label)


def names_of_classes(
    class_names: Sequence[str] | None, *columns: npt.NDArray[Any] | None
) -> list[str]:
    """Return the given class names, or by default the sorted names in the columns of labels."""
    if class_names is not None:
        names = [str(name) for name in class_names]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"class_names holds {repeated!r} more than once")
        return names
    occurring = {
        str(label) for column in columns if column is not None for label in column.tolist()
    } - {"None"}
    # Names that are numbers are sorted as numbers: 2 comes before 10.
    return sorted(
        occurring, key=lambda name: (0, int(name), name) if name.isdecimal() else (1, 0, name)
    )


def label_of_choice(choice: str, class_names: Sequence[str] | None, where: str) -> str | int:
    """Return a corrected class: its position if `class_names` are given, otherwise its name."""
    if class_names is None:
        return choice
    if choice not in class_names:
        raise ValueError(f"{where} is labelled {choice!r}, which is not in class_names")
    return list(class_names).index(choice)


def write_json_files(directory: Path, files: Mapping[str, Any], overwrite: bool) -> None:
    """Write files to a directory. If one of them exists already, write none.

    Args:
        directory: created if it does not exist.
        files: contents by file name: a text, or a value to write as JSON.
        overwrite: whether to replace existing files.
    """
    existing = [name for name in files if (directory / name).exists()]
    if existing and not overwrite:
        raise FileExistsError(
            f"{directory / existing[0]} exists already: choose another directory, or pass "
            "overwrite=True to replace it"
        )
    texts = {
        name: content
        if isinstance(content, str)
        else json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1) + "\n"
        for name, content in files.items()
    }
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with atomic_write(directory / name) as unfinished:
            unfinished.write_text(text, encoding="utf-8")


def read_json(path: str | Path, written_by: str) -> Any:
    """Return the content of a JSON file, or raise an error that names the expected format."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a JSON file as {written_by} writes it: {error}") from error
