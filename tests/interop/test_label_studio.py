"""Tasks for Label Studio: the documented layout, the order, and the way back."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from documented_layouts import check_label_studio
from made_verdicts import NAN, make_verdicts, one_of_each

from discrimloss.interop.label_studio import labeling_config, read_corrections, write_project

NAMES = ["cat", 'a "big" dog', "bird & <bee>"]
IMAGES = [f"https://example.org/{i}.png" for i in range(5)]
GIVEN, PREDICTED = [0, 1, 1, 2, 0], [0, 1, 0, 1, 0]
WORST_FIRST = [3, 0, 1, 4, 2]  # the third sample is unseen


def write(directory: Path, **changes: Any) -> list[dict[str, Any]]:
    """A project of five samples, checked; its tasks."""
    arguments: dict[str, Any] = {
        "verdicts": one_of_each(),
        "source": IMAGES,
        "given_label": GIVEN,
        "predicted_label": PREDICTED,
        "class_names": NAMES,
    }
    write_project(directory, **(arguments | changes))
    tasks: list[dict[str, Any]] = json.loads((directory / "tasks.json").read_text("utf-8"))
    check_label_studio(tasks, (directory / "labeling_config.xml").read_text("utf-8"))
    return tasks


def exported(tasks: list[dict[str, Any]], path: Path) -> Path:
    """Tasks as Label Studio exports them when nobody has looked at them yet."""
    whole = copy.deepcopy(tasks)
    for number, task in enumerate(whole, start=1):
        task |= {"id": number, "project": 1, "created_at": "2026-01-01T10:00:00Z"}
        for annotation in task["annotations"]:
            annotation |= {
                "id": 100 + number,
                "completed_by": 1,
                "was_cancelled": False,
                "created_at": "2026-01-01T10:00:00.123456Z",
                "updated_at": "2026-01-01T10:00:00.123456Z",
            }
    path.write_text(json.dumps(whole), "utf-8")
    return path


# Out.


def test_a_task_by_hand(tmp_path: Path) -> None:
    worst, *_, unseen = write(tmp_path)
    assert worst == {
        "data": {
            "image": "https://example.org/3.png",
            "sample_index": 3,
            "verdict": "incorrect",
            "p_incorrect": 0.75,
            "score": pytest.approx(math.log(3)),
            "weight": 1.75,
            "average_loss": 0.75,
            "given_label": "bird & <bee>",
        },
        "annotations": [
            {
                "result": [
                    {
                        "id": "given-3",
                        "from_name": "label",
                        "to_name": "image",
                        "type": "choices",
                        "value": {"choices": ["bird & <bee>"]},
                    }
                ]
            }
        ],
        "predictions": [
            {
                "model_version": "discrimloss",
                "score": 0.75,
                "result": [
                    {
                        "id": "predicted-3",
                        "from_name": "label",
                        "to_name": "image",
                        "type": "choices",
                        "value": {"choices": ['a "big" dog']},
                    }
                ],
            }
        ],
    }
    assert unseen["data"]["p_incorrect"] is None
    assert unseen["data"]["average_loss"] is None
    assert "score" not in unseen["predictions"][0]


@pytest.mark.parametrize("limit", [None, 0, 1, 3, 4, 5, 9])
def test_the_worst_come_first(limit: int | None, tmp_path: Path) -> None:
    tasks = write(tmp_path, limit=limit)
    assert [task["data"]["sample_index"] for task in tasks] == WORST_FIRST[:limit]
    assert [task["data"]["image"] for task in tasks] == [IMAGES[i] for i in WORST_FIRST[:limit]]


def test_scores_names_and_version_are_the_callers(tmp_path: Path) -> None:
    tasks = write(
        tmp_path,
        predicted_score=torch.tensor([0.1, 0.2, 0.3, 0.4, NAN], dtype=torch.float64),
        ids=list("abcde"),
        model_version="lenet-7",
    )
    predictions = [task["predictions"][0] for task in tasks]
    assert [one.get("score") for one in predictions] == [0.4, 0.1, 0.2, 0.0, 0.3]  # 0: p_incorrect
    assert {one["model_version"] for one in predictions} == {"lenet-7"}
    assert [task["data"]["sample_id"] for task in tasks] == ["d", "a", "b", "e", "c"]


def test_without_predictions_there_are_none(tmp_path: Path) -> None:
    assert all("predictions" not in task for task in write(tmp_path, predicted_label=None))


def test_texts_and_classes_that_are_named_by_themselves(tmp_path: Path) -> None:
    tasks = write(
        tmp_path,
        source=["Grüße", "b", "c", "d", "e"],
        medium="text",
        given_label=["10", "9", "9", "ten", "10"],
        predicted_label=None,
        class_names=None,
    )
    assert tasks[1]["data"]["text"] == "Grüße"
    assert "Grüße" in (tmp_path / "tasks.json").read_text("utf-8")
    config = (tmp_path / "labeling_config.xml").read_text("utf-8")
    offered = [line.split('"')[1] for line in config.splitlines() if "<Choice " in line]
    assert offered == ["9", "10", "ten"]


def test_a_short_list_offers_every_class(tmp_path: Path) -> None:
    write(tmp_path, class_names=None, given_label=list("abcda"), predicted_label=None, limit=1)
    config = (tmp_path / "labeling_config.xml").read_text("utf-8")
    assert config.count("<Choice ") == 4


def test_numbers_are_asked_for_as_numbers(tmp_path: Path) -> None:
    given = np.array([1.5, 2.0, 3.0, 40.25, 5.0])
    tasks = write(tmp_path, given_label=given, predicted_label=given / 2, class_names=None)
    assert tasks[0]["annotations"][0]["result"][0]["value"] == {"number": 40.25}
    assert tasks[0]["predictions"][0]["result"][0]["value"] == {"number": 20.125}
    assert '<Number name="label" toName="image"' in labeling_config("image", None)


# The check would notice.


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda t: t["data"].pop("image"), "lacks a image"),
        (lambda t: t["data"].update(image=7), "lacks a image"),
        (lambda t: t["data"].update(sample_index="3"), "sample_index must be an integer"),
        (lambda t: t["data"].update(p_incorrect=None), "p_incorrect must be a number"),
        (lambda t: t["data"].update(verdict="bad"), "verdict must be one of four"),
        (lambda t: t.update(prediction=[]), "keys that are not documented"),
        (lambda t: t.update(annotations={}), "must be a list"),
        (lambda t: t.pop("annotations"), "lacks {'annotations'}"),
        (lambda t: t["predictions"][0].update(score="high"), "score must be a number"),
        (lambda t: t["predictions"][0].update(score=NAN), "score must be a number"),
        (lambda t: t["predictions"][0].pop("model_version"), "model_version must be a string"),
        (lambda t: result(t).update(type="choice"), "type must be choices"),
        (lambda t: result(t).update(to_name="img"), "to_name"),
        (lambda t: result(t).update(from_name="labels"), "from_name"),
        (lambda t: result(t).update(id="given 3"), "id is 'given 3'"),
        (lambda t: result(t).update(id="predicted-3"), "ids of their own"),
        (lambda t: result(t).update(value={"choices": "cat"}), "choices must be a list"),
        (lambda t: result(t).update(value={"choices": ["cow"]}), "cannot be chosen"),
        (lambda t: result(t).update(value={"choice": ["cat"]}), "lacks {'choices'}"),
    ],
)
def test_the_check_notices_what_is_wrong(damage: Any, complaint: str, tmp_path: Path) -> None:
    tasks = write(tmp_path)
    damage(tasks[0])
    with pytest.raises(AssertionError, match=complaint):
        check_label_studio(tasks, (tmp_path / "labeling_config.xml").read_text("utf-8"))


def result(task: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = task["annotations"][0]["result"][0]
    return given


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<View>", "<Views>"),
        ('value="$image"', 'value="image"'),
        ('toName="image"', 'toName="text"'),
        ('choice="single"', 'choice="one"'),
        ('value="cat"', 'value="bird &amp; &lt;bee&gt;"'),
    ],
)
def test_also_in_the_configuration(old: str, new: str, tmp_path: Path) -> None:
    tasks = write(tmp_path)
    config = (tmp_path / "labeling_config.xml").read_text("utf-8")
    assert old in config
    broken = config.replace(old, new).replace(
        "</View>", "</Views>" if new == "<Views>" else "</View>"
    )
    with pytest.raises(AssertionError):
        check_label_studio(tasks, broken)


# Back.


def test_what_nobody_touched_is_no_correction(tmp_path: Path) -> None:
    path = exported(write(tmp_path), tmp_path / "export.json")
    assert read_corrections(path, NAMES) == {}


def test_corrections_come_back_by_sample_index(tmp_path: Path) -> None:
    path = exported(write(tmp_path), tmp_path / "export.json")
    tasks = json.loads(path.read_text("utf-8"))
    # The worst was edited; the next got an annotation of its own, after which somebody confirmed
    # the old one of the third; the fourth was skipped and the last one emptied.
    tasks[0]["annotations"][0]["result"][0]["value"]["choices"] = ["cat"]
    old = tasks[1]["annotations"][0]
    new = copy.deepcopy(old) | {"id": 7, "updated_at": "2026-01-02T00:00:00Z"}
    new["result"][0]["value"]["choices"] = ['a "big" dog']
    tasks[1]["annotations"] = [new, old]
    older = copy.deepcopy(tasks[2]["annotations"][0]) | {"updated_at": None}
    older["created_at"] = "2025-12-31T00:00:00"
    older["result"][0]["value"]["choices"] = ["cat"]
    tasks[2]["annotations"].append(older)
    tasks[3]["annotations"][0]["was_cancelled"] = True
    tasks[3]["annotations"][0]["result"][0]["value"]["choices"] = ["bird & <bee>"]
    tasks[4]["annotations"][0]["result"] = []
    path.write_text(json.dumps(tasks), "utf-8")
    assert read_corrections(path, NAMES) == {0: 1, 3: 0}
    assert list(read_corrections(path)) == [0, 3]
    assert read_corrections(path) == {0: 'a "big" dog', 3: "cat"}


def test_numbers_come_back_too(tmp_path: Path) -> None:
    given = np.array([1.5, 2.0, 3.1, 40.25, 5.0])
    tasks = write(tmp_path, given_label=given, predicted_label=None, class_names=None)
    tasks[0]["annotations"][0]["result"][0]["value"]["number"] = 4
    assert read_corrections(exported(tasks, tmp_path / "export.json")) == {3: 4.0}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[{", "is not a JSON file as Label Studio's export"),
        ("{}", "must hold a list of tasks"),
        ('[{"image": "a.png", "label": "cat"}]', "export as JSON, not as JSON-MIN"),
        ('[{"data": {}, "annotations": []}]', "does not come from write_project"),
    ],
)
def test_a_file_that_is_no_export(content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(content)
    with pytest.raises(ValueError, match=sentence):
        read_corrections(tmp_path / "export.json")


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        (["cow"], "sample 3 is labelled 'cow', which is not in class_names"),
        (["cat", "dog"], "sample 3 has 2 labels"),
        ([], "sample 3 has 0 labels"),
    ],
)
def test_a_label_that_cannot_be_used(choices: list[str], sentence: str, tmp_path: Path) -> None:
    tasks = write(tmp_path)
    tasks[0]["annotations"][0]["result"][0]["value"]["choices"] = choices
    with pytest.raises(ValueError, match=sentence):
        read_corrections(exported(tasks, tmp_path / "export.json"), NAMES)


def test_a_sample_that_was_imported_twice(tmp_path: Path) -> None:
    tasks = write(tmp_path)
    with pytest.raises(ValueError, match="sample 3 twice"):
        read_corrections(exported(tasks[:1] * 2, tmp_path / "export.json"), NAMES)


# Bad input, and files that are there.


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"source": IMAGES[:4]}, "source has 4 entries, but there are 5 samples"),
        ({"given_label": [0, 1]}, "given_label must have one value"),
        (
            {"predicted_label": [0, 1, 2, 3, 0]},
            "predicted_label must hold positions .* from 0 to 2",
        ),
        (
            {"given_label": ["cat", "cow", "cat", "cat", "cat"]},
            "'cow', which is not in class_names",
        ),
        ({"class_names": ["cat", "cat", "dog"]}, "class_names holds 'cat' more than once"),
        ({"class_names": None, "given_label": [0.5] * 5}, "both be classes, or both"),
        (
            {"class_names": None, "given_label": [NAN] * 5, "predicted_label": None},
            "given_label must hold finite numbers",
        ),
        (
            {"class_names": None, "given_label": ["a", None, "b", "a", "b"]},
            "given_label must hold a label for each sample, but holds None",
        ),
        ({"ids": ["a"]}, "1 ids for 5 samples"),
        ({"limit": -1}, "limit must not be negative"),
        ({"medium": "sound"}, "medium must be one of image, text, not 'sound'"),
        ({"predicted_score": [0.5]}, "predicted_score must have one value"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=sentence):
        write(tmp_path / "project", **changes)
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize("name", ["tasks.json", "labeling_config.xml"])
def test_a_file_that_is_there_stays(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("somebody's work")
    with pytest.raises(FileExistsError, match=f"{name} exists already: .* overwrite=True"):
        write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "somebody's work"
    assert len(write(tmp_path, overwrite=True)) == 5


def test_no_samples_are_no_tasks(tmp_path: Path) -> None:
    nobody = make_verdicts([], [])
    assert write(tmp_path, verdicts=nobody, source=[], given_label=[], predicted_label=None) == []
