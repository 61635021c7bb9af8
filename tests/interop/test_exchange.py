"""What every file is made of."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_verdicts import NAN, make_verdicts, one_of_each

import discrimloss
from discrimloss import Verdicts
from discrimloss.interop.exchange import (
    Label,
    facts_of,
    label_at,
    names_of_classes,
    with_readable_labels,
    worst_rows,
)


def labels_of(verdicts: Verdicts) -> list[Any]:
    assert verdicts.given_label is not None
    return verdicts.given_label.tolist()


def test_rows_come_worst_first_with_unseen_samples_last() -> None:
    generator = np.random.default_rng(5)
    probability = generator.integers(0, 4, 60) / 4
    labels = np.where(probability > 0.5, "incorrect", "easy")
    labels[::6], probability[::6] = "unseen", np.nan
    verdicts = make_verdicts(labels.tolist(), probability.tolist(), generator.random(60).tolist())
    losses = verdicts.average_loss
    assert losses is not None
    seen = [i for i in range(60) if i % 6]
    seen.sort(key=lambda i: (-probability[i], -losses[i], i))
    expected = seen + list(range(0, 60, 6))
    for limit in (None, 0, 13, 50, 55, 60, 99):
        assert worst_rows(verdicts, limit) == expected[:limit]


def test_facts_by_hand() -> None:
    verdicts = with_readable_labels(one_of_each(), np.arange(5), ids=[10, 11, 12, 13, 14])
    assert facts_of(verdicts, 3) == {
        "sample_index": 3,
        "sample_id": "13",
        "verdict": "incorrect",
        "p_incorrect": 0.75,
        "score": pytest.approx(np.log(3)),
        "weight": 1.75,
        "average_loss": 0.75,
    }
    unseen = facts_of(replace(one_of_each(), weight=None), 2)
    assert unseen == {
        "sample_index": 2,
        "verdict": "unseen",
        "p_incorrect": None,
        "score": None,
        "weight": None,
        "average_loss": None,
    }


def test_what_the_verdicts_carry_is_used_unless_it_is_passed() -> None:
    verdicts = replace(
        one_of_each(),
        given_label=["a", "b", "a", "b", "a"],
        suggested_label=["a", "b", None, "a", "a"],
        ids=list("vwxyz"),
    )
    own = with_readable_labels(verdicts, None)
    assert labels_of(own) == ["a", "b", "a", "b", "a"]
    assert [label_at(own.suggested_label, row) for row in (2, 3)] == [None, "a"]
    assert own.ids == list("vwxyz")
    passed = with_readable_labels(verdicts, [4, 5, 6, 7, 8], [4, 5, 6, 0, 8], ids=range(5))
    assert labels_of(passed) == ["4", "5", "6", "7", "8"]
    assert label_at(passed.suggested_label, 3) == "0"
    assert passed.ids == ["0", "1", "2", "3", "4"]


def test_regression_targets_of_the_verdicts() -> None:
    targets = np.array([0.5, 1.0, 1.5, 2.0, 2.5])
    verdicts = replace(
        one_of_each(), given_label=targets, suggested_label=changed_at(targets, 2, NAN)
    )
    readable = with_readable_labels(verdicts, None)
    assert labels_of(readable) == targets.tolist()
    assert [label_at(readable.suggested_label, row) for row in (0, 2)] == [0.5, None]


def changed_at(array: Any, place: int, value: float) -> Any:
    copy = array.copy()
    copy[place] = value
    return copy


def test_verdicts_without_labels_need_them() -> None:
    with pytest.raises(ValueError, match="hold no labels: pass given_label"):
        with_readable_labels(one_of_each(), None)


@pytest.mark.parametrize(
    ("labels", "class_names", "expected"),
    [
        (["b", "a"], None, ["b", "a"]),
        ([1, 0], None, ["1", "0"]),
        ([1, 0], ["x", "y"], ["y", "x"]),
        ([True, False], ["x", "y"], ["y", "x"]),
        (["y", "x"], ["x", "y"], ["y", "x"]),
        ([1.5, 0.0], None, [1.5, 0.0]),
        (np.array([1.5, 0.25], dtype=np.float16), None, [1.5, 0.25]),
    ],
)
def test_labels_as_people_read_them(
    labels: list[Label], class_names: list[str] | None, expected: list[Label]
) -> None:
    verdicts = make_verdicts(["easy", "easy"], [0.5, 0.0])
    assert labels_of(with_readable_labels(verdicts, labels, None, class_names)) == expected


def test_classes_that_are_numbers_are_sorted_as_numbers() -> None:
    columns = np.array([10, 9, 2]), np.array(["1", "b", None, "a"], dtype=object)
    assert names_of_classes(None, *columns) == ["1", "2", "9", "10", "a", "b"]
    assert names_of_classes(["z", "a"], np.array(["a"])) == ["z", "a"]


def test_files_need_no_extra() -> None:
    program = (
        "import sys, discrimloss.interop.fiftyone, discrimloss.interop.label_studio\n"
        "sys.exit(bool({'pandas', 'fiftyone', 'label_studio_sdk'} & sys.modules.keys()))"
    )
    source = Path(discrimloss.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(source)}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0
