"""What every file is made of."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_verdicts import make_verdicts, one_of_each

import discrimloss
from discrimloss.interop.records import Label, SampleRecord, names_of_classes, sample_records


def test_a_record_by_hand() -> None:
    record = sample_records(
        one_of_each(),
        np.array([5, 6, 7, 8, 9]),
        predicted_label=["5", "6", "7", "0", "9"],
        predicted_score=[0.5, 0.5, 0.5, 0.25, 0.5],
        limit=1,
    )
    assert record == [SampleRecord(3, None, "incorrect", 0.75, 1.75, 0.75, "8", "0", 0.25)]


def test_records_come_in_the_order_of_suspicion_with_unseen_samples_last() -> None:
    generator = np.random.default_rng(5)
    probability = generator.integers(0, 4, 60) / 4
    labels = np.where(probability > 0.5, "incorrect", "easy")
    labels[::6], probability[::6] = "unseen", np.nan
    verdicts = make_verdicts(labels.tolist(), probability.tolist(), generator.random(60).tolist())
    seen = [i for i in range(60) if i % 6]
    seen.sort(key=lambda i: (-probability[i], -verdicts.average_loss[i], i))
    expected = seen + list(range(0, 60, 6))
    for limit in (None, 0, 13, 50, 55, 60, 99):
        records = sample_records(verdicts, np.arange(60), limit=limit)
        assert [record.index for record in records] == expected[:limit]
        assert [record.given_label for record in records] == [str(i) for i in expected[:limit]]


def test_names_that_the_verdicts_carry_are_used() -> None:
    verdicts = one_of_each()
    object.__setattr__(verdicts, "ids", ["a", "b", "c", "d", "e"])
    assert [record.name for record in sample_records(verdicts, range(5), limit=2)] == ["d", "a"]
    given = sample_records(verdicts, range(5), ids=[10, 11, 12, 13, 14], limit=2)
    assert [record.name for record in given] == ["13", "10"]
    assert given[0].facts()["sample_id"] == "13"


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
    records = sample_records(verdicts, labels, class_names=class_names)
    assert [record.given_label for record in records] == expected


def test_classes_that_are_numbers_are_sorted_as_numbers() -> None:
    assert names_of_classes(None, [10, 9, 2], ["1", "b", "a"]) == ["1", "2", "9", "10", "a", "b"]
    assert names_of_classes(["z", "a"], ["a"]) == ["z", "a"]


def test_files_need_no_extra() -> None:
    program = (
        "import sys, discrimloss.interop.fiftyone, discrimloss.interop.label_studio\n"
        "sys.exit(bool({'pandas', 'fiftyone', 'label_studio_sdk'} & sys.modules.keys()))"
    )
    source = Path(discrimloss.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(source)}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0
