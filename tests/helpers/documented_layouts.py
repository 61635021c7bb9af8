"""What Label Studio and FiftyOne document of the files they import, as strict checks.

Written by hand from their pages (see the modules under test). A check raises AssertionError with
the place of what is wrong.
"""

import math
import re
from typing import Any
from xml.etree import ElementTree

VERDICTS = {"easy", "hard", "incorrect", "unseen"}


def expect(condition: bool, where: str, what: str) -> None:
    if not condition:
        raise AssertionError(f"{where}: {what}")


def is_number(value: Any) -> bool:
    """bool is an int to Python, but not to JSON."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_probability(value: Any) -> bool:
    return is_number(value) and 0.0 <= value <= 1.0


def check_keys(value: Any, where: str, required: set[str], optional: set[str]) -> None:
    expect(isinstance(value, dict), where, "must be an object")
    expect(value.keys() >= required, where, f"lacks {required - value.keys()}")
    expect(value.keys() <= required | optional, where, "has keys that are not documented")


# Label Studio.


def check_label_studio(tasks: Any, config: str) -> None:
    """A list of tasks that fits the labelling configuration."""
    control, to_name, medium, choices = read_config(config)
    expect(isinstance(tasks, list), "tasks", "must be a list")
    identities: list[str] = []
    for number, task in enumerate(tasks):
        where = f"task {number}"
        check_keys(task, where, {"data", "annotations"}, {"predictions", "meta"})
        expect(isinstance(task["data"], dict), f"{where}.data", "must be an object")
        expect(isinstance(task["data"].get(medium), str), f"{where}.data", f"lacks a {medium}")
        check_facts(task["data"], f"{where}.data", unknown_is_none=True)
        for kind in ("annotations", "predictions"):
            listed = task.get(kind, [])
            expect(isinstance(listed, list), f"{where}.{kind}", "must be a list")
            for one in listed:
                check_labelling(one, f"{where}.{kind}", kind)
                for result in one["result"]:
                    check_result(result, f"{where}.{kind}.result", control, to_name, choices)
                    identities.append(result["id"])
    expect(len(set(identities)) == len(identities), "tasks", "results must have ids of their own")


def check_labelling(one: Any, where: str, kind: str) -> None:
    optional = {"model_version", "score"} if kind == "predictions" else {"was_cancelled"}
    check_keys(one, where, {"result"}, optional)
    expect(isinstance(one["result"], list), where, "result must be a list")
    if kind == "predictions":
        expect(isinstance(one.get("model_version"), str), where, "model_version must be a string")
        expect("score" not in one or is_number(one["score"]), where, "score must be a number")


def check_result(
    result: Any, where: str, control: str, to_name: str, choices: list[str] | None
) -> None:
    check_keys(result, where, {"id", "from_name", "to_name", "type", "value"}, set())
    identity = result["id"]
    expect(isinstance(identity, str), where, "id must be a string")
    expect(re.fullmatch("[A-Za-z0-9_-]+", identity) is not None, where, f"id is {identity!r}")
    expect(result["from_name"] == control, where, "from_name must be the labelling tag's name")
    expect(result["to_name"] == to_name, where, "to_name must be the object tag's name")
    kind = "number" if choices is None else "choices"
    expect(result["type"] == kind, where, f"type must be {kind}")
    check_keys(result["value"], f"{where}.value", {kind}, set())
    value = result["value"][kind]
    if choices is None:
        expect(is_number(value), where, "number must be a number")
    else:
        expect(isinstance(value, list), where, "choices must be a list")
        expect(len(value) == 1, where, "one choice, as the configuration says")
        expect(all(choice in choices for choice in value), where, f"{value} cannot be chosen")


def read_config(config: str) -> tuple[str, str, str, list[str] | None]:
    """Names of the labelling tag, the object tag and the task's data, and what can be chosen."""
    view = ElementTree.fromstring(config)
    expect(view.tag == "View", "config", "must be a View")
    objects = [tag for tag in view if tag.tag in ("Image", "Text")]
    controls = [tag for tag in view if tag.tag in ("Choices", "Number")]
    expect(len(objects) == 1, "config", "must show one thing")
    expect(len(controls) == 1, "config", "must ask for one thing")
    expect(len(view) == 2, "config", "has tags that are not documented")
    value = objects[0].attrib["value"]
    expect(value.startswith("$"), "config", "must show a variable of the task")
    control = controls[0]
    expect(control.attrib["toName"] == objects[0].attrib["name"], "config", "toName names nothing")
    choices = None
    if control.tag == "Choices":
        expect(control.attrib["choice"] in ("single", "multiple"), "config", "choice is wrong")
        expect(all(tag.tag == "Choice" for tag in control), "config", "not all are choices")
        choices = [tag.attrib["value"] for tag in control]
        expect(len(set(choices)) == len(choices), "config", "offers a choice twice")
    return control.attrib["name"], objects[0].attrib["name"], value[1:], choices


# FiftyOne.


def check_fiftyone(layout: Any) -> None:
    """``labels.json`` of a FiftyOneImageClassificationDataset, in its form with attributes."""
    check_keys(layout, "labels.json", {"classes", "labels"}, set())
    classes, labels = layout["classes"], layout["labels"]
    expect(isinstance(classes, list), "classes", "must be a list")
    expect(all(isinstance(name, str) for name in classes), "classes", "must be strings")
    expect(isinstance(labels, dict), "labels", "must be an object")
    for key, label in labels.items():
        expect(not key.startswith("/"), key, "must be a relative path")
        check_keys(label, key, {"label"}, {"confidence", "attributes"})
        target = label["label"]
        expect(type(target) is int, key, "label must be the position of a class")
        expect(0 <= target < len(classes), key, "label must be one of the classes")
        if "confidence" in label:
            expect(is_probability(label["confidence"]), key, "confidence must be a probability")
        attributes = label.get("attributes", {})
        expect(isinstance(attributes, dict), key, "attributes must be an object")
        for name, value in attributes.items():
            # These are fields of every label already.
            expect(name not in ("id", "label", "tags", "confidence", "logits"), key, f"has {name}")
            expect(isinstance(value, str) or is_number(value), key, f"{name} must have a value")
        check_facts(attributes, key, unknown_is_none=False)


# Both.


def check_facts(facts: dict[str, Any], where: str, unknown_is_none: bool) -> None:
    """What we add under names of our own."""
    expect(type(facts.get("sample_index")) is int, where, "sample_index must be an integer")
    expect(facts.get("verdict") in VERDICTS, where, "verdict must be one of four")
    expect(is_number(facts.get("weight")), where, "weight must be a number")
    expect(isinstance(facts.get("sample_id", ""), str), where, "sample_id must be a string")
    for name in ("p_incorrect", "average_loss"):
        if facts["verdict"] != "unseen":
            expect(is_number(facts.get(name)), where, f"{name} must be a number")
        else:
            expect((name in facts) == unknown_is_none, where, f"{name} cannot be known")
            expect(facts.get(name) is None, where, f"{name} cannot be known")
