"""Labels for FiftyOne: the documented layout, and the way back."""

import json
import math
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from documented_layouts import check_fiftyone
from made_verdicts import NAN, one_of_each

from discrimloss.interop.fiftyone import read_corrections, write_labels

NAMES = ["cat", "dog", "bird"]
IMAGES = ["a/0.png", "a/1.png", "b/2.jpeg", "b/3.x.png", "4.png"]
GIVEN, PREDICTED = np.array([0, 1, 1, 2, 0]), np.array([0, 1, 0, 1, 0])


def write(directory: Path, **changes: Any) -> dict[str, Any]:
    """``labels.json`` of five samples, checked."""
    arguments: dict[str, Any] = {
        "verdicts": one_of_each(),
        "images": IMAGES,
        "given_label": GIVEN,
        "predicted_label": PREDICTED,
        "class_names": NAMES,
    }
    write_labels(directory, **(arguments | changes))
    layout: dict[str, Any] = json.loads((directory / "labels.json").read_text("utf-8"))
    check_fiftyone(layout)
    return layout


# Out.


def test_the_file_by_hand(tmp_path: Path) -> None:
    layout = write(tmp_path, predicted_score=[0.5, 0.5, 0.5, 0.875, 0.5])
    assert layout["classes"] == NAMES
    assert list(layout["labels"]) == ["b/3.x", "a/0", "a/1", "4", "b/2"]  # worst first
    assert layout["labels"]["b/3.x"] == {
        "label": 2,
        "confidence": 0.25,
        "attributes": {
            "sample_index": 3,
            "verdict": "incorrect",
            "p_incorrect": 0.75,
            "score": pytest.approx(math.log(3)),
            "weight": 1.75,
            "average_loss": 0.75,
            "predicted_label": "dog",
            "predicted_score": 0.875,
        },
    }
    assert layout["labels"]["b/2"] == {  # of the unseen one little is known
        "label": 1,
        "attributes": {
            "sample_index": 2,
            "verdict": "unseen",
            "weight": 1.5,
            "predicted_label": "cat",
            "predicted_score": 0.5,
        },
    }


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_a_short_list_knows_every_class(limit: int, tmp_path: Path) -> None:
    layout = write(tmp_path, limit=limit, class_names=None, given_label=list("cbadd"))
    assert layout["classes"] == ["a", "b", "c", "d"]
    assert list(layout["labels"]) == ["b/3.x", "a/0", "a/1", "4"][:limit]


def test_names_of_samples_and_paths_as_objects(tmp_path: Path) -> None:
    layout = write(tmp_path, images=[PurePosixPath(image) for image in IMAGES], ids=list("vwxyz"))
    assert layout["labels"]["a/0"]["attributes"]["sample_id"] == "v"


# The check would notice.


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda f: f.pop("classes"), "lacks {'classes'}"),
        (lambda f: f.update(info={}), "not documented"),
        (lambda f: f.update(classes=[0, 1, 2]), "must be strings"),
        (lambda f: f.update(labels=[]), "must be an object"),
        (lambda f: f["labels"].update({"/a": f["labels"]["4"]}), "relative path"),
        (lambda f: f["labels"]["4"].update(label="cat"), "position of a class"),
        (lambda f: f["labels"]["4"].update(label=3), "one of the classes"),
        (lambda f: f["labels"]["4"].update(label=True), "position of a class"),
        (lambda f: f["labels"]["4"].update(confidence=1.5), "must be a probability"),
        (lambda f: f["labels"]["4"].update(confidence=None), "must be a probability"),
        (lambda f: f["labels"]["4"].update(tags=["easy"]), "not documented"),
        (lambda f: f["labels"]["4"]["attributes"].update(confidence=1.0), "has confidence"),
        (lambda f: f["labels"]["4"]["attributes"].update(note=None), "must have a value"),
        (lambda f: f["labels"]["4"]["attributes"].update(weight=NAN), "weight must have a value"),
        (lambda f: f["labels"]["b/2"]["attributes"].update(p_incorrect=0.5), "cannot be known"),
    ],
)
def test_the_check_notices_what_is_wrong(damage: Any, complaint: str, tmp_path: Path) -> None:
    layout = write(tmp_path)
    damage(layout)
    with pytest.raises(AssertionError, match=complaint):
        check_fiftyone(layout)


# Back.


def test_corrections_come_back_by_sample_index(tmp_path: Path) -> None:
    layout = write(tmp_path)
    path = tmp_path / "labels.json"
    assert read_corrections(path, IMAGES, GIVEN, NAMES) == {}
    layout["labels"]["b/3.x"]["label"] = 0
    layout["labels"]["a/0"] = 1  # an export without attributes
    layout["labels"]["4"] = None  # an image that lost its label
    path.write_text(json.dumps(layout))
    assert read_corrections(path, IMAGES, GIVEN, NAMES) == {0: 1, 3: 0}
    assert list(read_corrections(path, IMAGES, GIVEN, NAMES)) == [0, 3]


def test_an_export_that_names_classes_in_another_order_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    given = np.array(NAMES)[GIVEN]
    path.write_text(json.dumps({"classes": NAMES[::-1], "labels": {"a/0": 0, "a/1": 1}}))
    assert read_corrections(path, IMAGES, GIVEN, NAMES) == {0: 2}
    assert read_corrections(path, IMAGES, given) == {0: "bird"}
    path.write_text(json.dumps({"labels": {"a/0": "dog", "a/1": {"label": "cat"}}}))
    assert read_corrections(path, IMAGES, given) == {0: "dog", 1: "cat"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("no", "is not a JSON file as an export"),
        ("[]", "must hold labels"),
        ('{"labels": {"c/9": "cat"}}', "labels 'c/9', which is none of the images"),
        ('{"labels": {"4": "cow"}}', "'4' is labelled 'cow', which is not in class_names"),
        ('{"labels": {"4": ["cat", "dog"]}}', "'4' has 2 labels"),
        ('{"labels": {"4": 1}}', "has the class 1, which the file does not name"),
        ('{"classes": ["cat"], "labels": {"4": 1}}', "has the class 1, which the file does not"),
    ],
)
def test_a_file_that_does_not_fit(content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text(content)
    with pytest.raises(ValueError, match=sentence):
        read_corrections(tmp_path / "labels.json", IMAGES, GIVEN, NAMES)


# Bad input, and a file that is there.


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"images": IMAGES[:2]}, "2 images for 5 samples"),
        ({"images": ["/a.png", *IMAGES[1:]]}, "must be a path relative to the folder of images"),
        ({"images": ["../a.png", *IMAGES[1:]]}, "must be a path relative to the folder of images"),
        ({"images": ["4.jpg", *IMAGES[1:]]}, "4.jpg and 4.png"),
        (
            {"class_names": None, "given_label": [0.5] * 5, "predicted_label": None},
            "classes, not regression targets",
        ),
        ({"given_label": [0, 1, 2, 3, 0]}, "from 0 to 2, but reaches from 0 to 3"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=sentence):
        write(tmp_path / "labels", **changes)
    assert not (tmp_path / "labels").exists()


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text("somebody's work")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write(tmp_path)
    assert (tmp_path / "labels.json").read_text() == "somebody's work"
    assert len(write(tmp_path, overwrite=True)["labels"]) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["labels.json"]
