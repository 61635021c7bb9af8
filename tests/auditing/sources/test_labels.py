import numpy as np
import pandas as pd
import pytest

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.labels import read_labels


def test_texts_are_classes_in_the_order_of_their_names() -> None:
    labels = read_labels(["dog", "cat", "dog", "cat"], None)
    assert labels.class_names == ("cat", "dog")
    assert labels.target.tolist() == [1, 0, 1, 0]
    assert labels.notes == ()


def test_numbers_as_texts_are_sorted_as_numbers() -> None:
    assert read_labels(["10", "9", "2", "10"], None).class_names == ("2", "9", "10")


def test_what_is_missing_is_told_and_has_no_target() -> None:
    labels = read_labels(["a", None, "", "b", float("nan"), " ", "NA", "b"], None)
    assert labels.is_missing.tolist() == [False, True, True, False, True, True, False, False]
    assert labels.class_names == ("NA", "a", "b")
    assert labels.target.tolist() == [1, 2, 0, 2]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["b", "a", "b"], dtype="category"),
        np.array(["b", "a", "b"]),
        np.array([b"b", b"a", b"b"]),
        pd.Series(["b", "a", "b"], dtype="string"),
    ],
)
def test_texts_may_come_in_any_array(values: object) -> None:
    labels = read_labels(values, None)
    assert (labels.class_names, labels.target.tolist()) == (("a", "b"), [1, 0, 1])


def test_truth_values_are_classes() -> None:
    assert read_labels(np.array([True, False, True]), None).class_names == ("False", "True")
    assert read_labels(pd.Series([True, None, False], dtype="boolean"), None).target.tolist() == [
        1,
        0,
    ]


def test_few_whole_numbers_are_classes_and_many_are_for_a_regression() -> None:
    few, many = np.arange(300) % 100, np.arange(303) % 101
    assert read_labels(few, None).class_names == tuple(str(number) for number in range(100))
    labels = read_labels(many, None)
    assert labels.class_names == ()
    assert labels.target.tolist() == many.tolist()
    assert "101 distinct values, from 0 to 100" in labels.notes[0]
    assert read_labels(few[:299], None).class_names == ()  # below three samples each


def test_two_numbers_are_classes_however_few_samples_there_are() -> None:
    assert read_labels([0, 1], None).class_names == ("0", "1")


def test_floats_that_are_whole_count_as_whole_numbers() -> None:
    labels = read_labels([0.0, 1.0, np.nan, 1.0], None)
    assert labels.class_names == ("0", "1")
    assert labels.target.tolist() == [0, 1, 1]
    assert read_labels([0.5, 1.0, 0.5, 1.0], None).class_names == ()


def test_what_a_person_says_comes_first() -> None:
    assert read_labels([0, 1, 1], True).target.tolist() == [0.0, 1.0, 1.0]
    assert read_labels([0.5, 1.5, 0.5], False).class_names == ("0.5", "1.5")
    assert read_labels(["1.5", "2"], True).target.tolist() == [1.5, 2.0]
    assert read_labels([0, 1, 1], True).notes == ()


def test_odd_classes_are_noted() -> None:
    notes = read_labels(["cat", "cat ", "cat", "Cat", "Cat", "cat "], None).notes
    assert notes == ("'Cat', 'cat', 'cat ' count as different classes, though they look alike",)
    assert "'dog' has only one sample" in read_labels(["cat", "dog", "cat"], None).notes[0]


@pytest.mark.parametrize(
    ("values", "regression", "sentence"),
    [
        ([], None, "there are no samples"),
        ([None, ""], None, "all 2 labels are missing"),
        (["a", None], None, "only one sample has a label"),
        (["a", "a"], None, "all labels are 'a'"),
        ([2.5, 2.5], None, "all labels are 2.5"),
        (list("abcdefghijk"), None, "all 11 labels are different"),
        ([1.5, float("inf")], None, "a label is inf"),
        ([1.0, float("inf")], False, "a label is inf"),
        ([1.5, 1e300], None, "a label is 1e[+]300"),
        (["1", "x"], True, "'x' is not a number"),
        (["1", "nan"], True, "'nan' is not a number"),
    ],
)
def test_labels_that_nothing_can_learn(
    values: list[object], regression: bool | None, sentence: str
) -> None:
    with pytest.raises(SourceError, match=sentence):
        read_labels(values, regression)


def test_ages_are_regression_targets_and_codes_of_as_many_classes_are_not() -> None:
    rng = np.random.default_rng(0)
    ages = np.clip(np.round(rng.gamma(6.0, 6.5, 3000)), 17, 87).astype(int)
    assert 60 <= len(np.unique(ages)) <= 71
    labels = read_labels(ages, None)
    assert labels.class_names == ()
    assert "--no-regression reads them as classes" in labels.notes[0]
    assert len(read_labels(ages, False).class_names) == len(np.unique(ages))
    uneven = rng.dirichlet(np.full(71, 2.0))
    codes = rng.choice(71, 3000, p=uneven)
    assert len(read_labels(codes, None).class_names) == len(np.unique(codes))
    by_frequency = np.repeat(np.arange(30), np.arange(130, 100, -1))
    assert len(read_labels(by_frequency, None).class_names) == 30
    rings = np.round(rng.gamma(9.0, 1.1, 2000)).astype(int)  # 1 to about 25, one hump
    assert read_labels(rings, None).class_names == ()
    grades = np.clip(np.round(rng.normal(5.5, 1.0, 500)), 3, 9).astype(int)
    assert len(read_labels(grades, None).class_names) == len(np.unique(grades))
