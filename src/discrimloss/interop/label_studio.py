"""Exports tasks to Label Studio, most suspicious first, and imports corrected labels.

The layout is that of Label Studio's documentation: "Label Studio Task Format"
(labelstud.io/guide/task_format), "Import pre-annotated data" (labelstud.io/guide/predictions) and
the tags Choices and Number (labelstud.io/tags). Label Studio need not be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, get_args
from xml.sax.saxutils import quoteattr

import numpy as np

from discrimloss.interop.exchange import (
    Label,
    facts_of,
    label_at,
    label_of_choice,
    names_of_classes,
    number_or_none,
    read_json,
    with_readable_labels,
    worst_rows,
    write_json_files,
)
from discrimloss.judging.verdicts import Verdicts, one_per_sample

Medium = Literal["image", "text"]

TASKS_FILE = "tasks.json"
CONFIG_FILE = "labeling_config.xml"
CONTROL = "label"
"""Name of the labelling tag in tasks and configuration."""


def write_project(
    directory: str | Path,
    verdicts: Verdicts,
    source: Sequence[str],
    given_label: Any | None = None,
    *,
    medium: Medium = "image",
    predicted_label: Any | None = None,
    predicted_score: Any | None = None,
    class_names: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    limit: int | None = None,
    model_version: str = "discrimloss",
    overwrite: bool = False,
) -> None:
    """Write ``tasks.json`` to import and ``labeling_config.xml``, the labelling interface.

    Args:
        directory: directory for the two files.
        verdicts: verdicts on all samples.
        source: the content of each sample: the URL of an image that Label Studio can open, or a
            text.
        given_label: labels in the data, one per sample: floats for regression, otherwise class
            names or positions in `class_names`. By default those of the verdicts.
        medium: ``"image"`` or ``"text"``.
        predicted_label: labels to show as predictions. By default the suggested labels of the
            verdicts.
        predicted_score: the model's confidence. By default `p_incorrect`, so that sorting by
            prediction score in Label Studio sorts by suspicion.
        class_names: names of the classes, by position.
        ids: ids of the samples. By default those of the verdicts.
        limit: maximum number of tasks, most suspicious first.
        model_version: the name that is shown with predictions.
        overwrite: whether to replace existing files.
    """
    _check_medium(medium)
    rows = worst_rows(verdicts, limit)
    verdicts = with_readable_labels(verdicts, given_label, predicted_label, class_names, ids)
    sources = list(source)
    if len(sources) != len(verdicts):
        raise ValueError(
            f"source has {len(sources)} entries, but there are {len(verdicts)} samples"
        )
    scores = verdicts.p_incorrect
    if predicted_score is not None:
        own = one_per_sample(predicted_score, len(verdicts), "predicted_score")
        scores = np.where(np.isnan(own), scores, own)
    tasks = [
        _task(verdicts, row, str(sources[row]), medium, number_or_none(scores, row), model_version)
        for row in rows
    ]
    given = verdicts.given_label
    classes = None
    if given is not None and given.dtype.kind != "f":
        # Offer all classes, even those that do not occur in a limited list of tasks.
        classes = names_of_classes(class_names, given, verdicts.suggested_label)
    files = {TASKS_FILE: tasks, CONFIG_FILE: labeling_config(medium, classes)}
    write_json_files(Path(directory), files, overwrite)


def _task(
    verdicts: Verdicts,
    row: int,
    source: str,
    medium: Medium,
    score: float | None,
    model_version: str,
) -> dict[str, Any]:
    """Return one task, with the given label as annotation and the suggested one as prediction."""
    given = label_at(verdicts.given_label, row)
    data = {medium: source, **facts_of(verdicts, row), "given_label": given}
    annotation = _result(given, medium, f"given-{row}")
    whole: dict[str, Any] = {"data": data, "annotations": [{"result": [annotation]}]}
    suggested = label_at(verdicts.suggested_label, row)
    if suggested is not None:
        result = _result(suggested, medium, f"predicted-{row}")
        prediction: dict[str, Any] = {"model_version": model_version, "result": [result]}
        if score is not None:
            prediction["score"] = score
        whole["predictions"] = [prediction]
    return whole


def labeling_config(
    medium: Medium, class_names: Sequence[str] | None, number_step: float = 0.01
) -> str:
    """Return the labelling interface as XML.

    Args:
        medium: ``"image"`` or ``"text"``.
        class_names: classes to choose from; None for regression targets.
        number_step: how much a click in the field for a regression target changes the number.
    """
    _check_medium(medium)
    names = f'name="{CONTROL}" toName="{medium}"'
    if class_names is None:
        control = [f'  <Number {names} step="{number_step}"/>']
    else:
        choices = [f"    <Choice value={quoteattr(name)}/>" for name in class_names]
        control = [f'  <Choices {names} choice="single">', *choices, "  </Choices>"]
    tag = medium.capitalize()
    lines = ["<View>", f'  <{tag} name="{medium}" value="${medium}"/>', *control, "</View>"]
    return "\n".join(lines) + "\n"


def read_corrections(
    path: str | Path, class_names: Sequence[str] | None = None
) -> dict[int, str | int | float]:
    """Return the labels that were changed in Label Studio, by sample index.

    If a task has several annotations, the one that was changed last counts. Skipped tasks and
    unchanged labels are left out.

    Args:
        path: a project's export in the format JSON.
        class_names: names of the classes by position, if labels are positions.
    """
    tasks = read_json(path, "Label Studio's export in the format JSON")
    if not isinstance(tasks, list):
        raise ValueError(f"{path} must hold a list of tasks: export the project as JSON")
    corrections: dict[int, str | int | float] = {}
    seen: set[int] = set()
    for exported in tasks:
        data = exported.get("data") if isinstance(exported, dict) else None
        if not isinstance(data, dict) or "annotations" not in exported:
            raise ValueError(
                f"{path} holds tasks without data and annotations: export as JSON, not as JSON-MIN"
            )
        if not {"sample_index", "given_label"} <= data.keys():
            raise ValueError(
                f"{path} holds a task without sample_index and given_label: it does not come "
                "from write_project"
            )
        index = int(data["sample_index"])
        if index in seen:
            raise ValueError(f"{path} holds sample {index} twice: delete one of the two tasks")
        seen.add(index)
        label = _last_label(exported["annotations"], f"sample {index}")
        if label is None or label == data["given_label"]:
            continue
        corrections[index] = (
            label_of_choice(label, class_names, f"sample {index}")
            if isinstance(label, str)
            else label
        )
    return dict(sorted(corrections.items()))


def _check_medium(medium: str) -> None:
    if medium not in get_args(Medium):
        raise ValueError(f"medium must be one of {', '.join(get_args(Medium))}, not {medium!r}")


def _result(label: Label | None, medium: Medium, identity: str) -> dict[str, Any]:
    kind = "choices" if isinstance(label, str) else "number"
    value = [label] if isinstance(label, str) else label
    return {
        "id": identity,
        "from_name": CONTROL,
        "to_name": medium,
        "type": kind,
        "value": {kind: value},
    }


def _last_label(annotations: Sequence[dict[str, Any]], where: str) -> Label | None:
    """Return the label of the annotation that was changed last, or None if it has none."""
    valid = [one for one in annotations if not one.get("was_cancelled")]
    for annotation in sorted(valid, key=_changed_at, reverse=True)[:1]:
        for result in annotation.get("result", []):
            if result.get("from_name") != CONTROL:
                continue
            value = result.get("value", {})
            if "number" in value:
                return float(value["number"])
            choices = value.get("choices", [])
            if len(choices) != 1:
                raise ValueError(f"{where} has {len(choices)} labels: choose one of them")
            return str(choices[0])
    return None


def _changed_at(annotation: dict[str, Any]) -> datetime:
    when = annotation.get("updated_at") or annotation.get("created_at")
    if when is None:
        return datetime.min.replace(tzinfo=timezone.utc)
    # Python 3.10 does not parse Z as UTC.
    time = datetime.fromisoformat(when.replace("Z", "+00:00"))
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
