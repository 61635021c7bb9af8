"""Verdicts from predictions that somebody has: what is taken, what comes back, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_verdicts import assert_same_verdicts

from discrimloss import Verdicts, find_label_errors
from discrimloss.judging.find_label_errors import FEWEST_SAMPLES, verdict_codes
from discrimloss.judging.noise_interval import noise_interval
from discrimloss.judging.verdicts import CANNOT_TELL, EASY, HARD, INCORRECT, UNDECIDED

pandas = pytest.importorskip("pandas")

NAMES = ["cat", "ant", "bee"]  # not sorted
Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]


def softmax(logits: Floats) -> Floats:
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    probabilities: Floats = exponentials / exponentials.sum(1, keepdims=True)
    return probabilities


def made(
    samples: int = 400, classes: int = 3, rate: float = 0.15, seed: int = 0, far: float = 4.0
) -> tuple[Positions, Floats, npt.NDArray[np.bool_]]:
    """Labels, logits, and which labels are wrong."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, samples)
    logits = rng.normal(size=(samples, classes))
    logits[np.arange(samples), true] += far
    is_wrong = rng.random(samples) < rate
    labels = np.where(is_wrong, (true + rng.integers(1, classes, samples)) % classes, true)
    return labels, logits, is_wrong


def made_regression(
    samples: int = 400, rate: float = 0.15, seed: int = 0
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=samples)
    true = 40 + 20 * (x + 0.2 * rng.normal(size=samples))
    is_wrong = rng.random(samples) < rate
    given_target = np.where(is_wrong, true[rng.permutation(samples)], true)
    return given_target, 40 + 20 * (1 - rate) * x, is_wrong


LABELS, LOGITS, IS_WRONG = made()
PROBABILITIES = softmax(LOGITS)
EXPECTED = find_label_errors(LABELS, pred_probs=PROBABILITIES)


# What comes back.


def test_wrong_labels_are_found_and_mended() -> None:
    is_called = EXPECTED.verdict == "incorrect"
    assert (is_called & IS_WRONG).sum() / is_called.sum() > 0.9
    assert (is_called & IS_WRONG).sum() / IS_WRONG.sum() > 0.85
    assert EXPECTED.noise_rate == pytest.approx(IS_WRONG.mean(), abs=0.02)
    assert EXPECTED.noise_interval is not None
    low, high = EXPECTED.noise_interval
    assert low <= IS_WRONG.mean() <= high
    assert EXPECTED.notes == ()
    assert EXPECTED.given_label is not None
    assert EXPECTED.given_label.tolist() == LABELS.tolist()
    assert EXPECTED.rule == "calibrated"
    assert EXPECTED.ids is None
    assert EXPECTED.weight is None


def test_the_average_loss_is_the_cross_entropy_of_the_label() -> None:
    expected = -np.log(PROBABILITIES[np.arange(len(LABELS)), LABELS])
    assert EXPECTED.average_loss is not None
    np.testing.assert_allclose(EXPECTED.average_loss, expected, rtol=1e-4)


def test_easy_is_what_the_prediction_agrees_with() -> None:
    agrees = PROBABILITIES.argmax(1) == LABELS
    others = EXPECTED.verdict != "incorrect"
    contradicted = np.where(EXPECTED.p_incorrect <= 0.1, "hard", "undecided")
    assert (EXPECTED.verdict[others] == np.where(agrees, "easy", contradicted)[others]).all()


def test_clean_labels_stay_as_they_are() -> None:
    labels, logits, _ = made(rate=0.0)
    verdicts = find_label_errors(labels, logits=logits)
    assert verdicts.counts["incorrect"] <= 2
    assert verdicts.noise_rate is not None
    assert verdicts.noise_rate < 0.01


def test_a_file_brings_them_back(tmp_path: Any) -> None:
    labels = np.array(NAMES)[LABELS]
    verdicts = find_label_errors(labels, pred_probs=PROBABILITIES, class_names=NAMES)
    verdicts.to_parquet(tmp_path / "verdicts.parquet")
    assert_same_verdicts(Verdicts.from_parquet(tmp_path / "verdicts.parquet"), verdicts)
    frame = verdicts.to_cleanlab()
    assert frame["given_label"].tolist() == labels.tolist()
    assert frame["is_label_issue"].sum() == verdicts.counts["incorrect"]


# What is taken.


def test_logits_and_their_probabilities_give_the_same() -> None:
    by_logits = find_label_errors(LABELS, logits=LOGITS)
    np.testing.assert_allclose(by_logits.score, EXPECTED.score, atol=1e-3)
    assert by_logits.average_loss is not None
    np.testing.assert_allclose(by_logits.average_loss, EXPECTED.average_loss, rtol=1e-4)


CONTAINERS: dict[str, Any] = {
    "lists": (lambda x: x.tolist(), lambda x: x.tolist()),
    "tensors": (torch.from_numpy, lambda x: torch.from_numpy(x).requires_grad_()),
    "pandas": (pandas.Series, pandas.DataFrame),
    "nullable": (lambda x: pandas.Series(x, dtype="Int64"), pandas.DataFrame),
    "int32": (lambda x: x.astype(np.int32), lambda x: x),
    "whole floats": (lambda x: x.astype(np.float32), lambda x: x),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_any_container(kind: str) -> None:
    of_labels, of_predictions = CONTAINERS[kind]
    verdicts = find_label_errors(of_labels(LABELS), pred_probs=of_predictions(PROBABILITIES))
    assert_same_verdicts(verdicts, EXPECTED)


def test_low_precision() -> None:
    verdicts = find_label_errors(
        torch.from_numpy(LABELS), logits=torch.from_numpy(LOGITS).bfloat16()
    )
    assert np.mean(verdicts.code == EXPECTED.code) > 0.98


def named(verdicts: Verdicts) -> tuple[list[Any], list[Any]]:
    assert verdicts.given_label is not None
    assert verdicts.suggested_label is not None
    return verdicts.given_label.tolist(), verdicts.suggested_label.tolist()


@pytest.mark.parametrize("as_positions", [False, True])
@pytest.mark.parametrize("source", ["class_names", "columns"])
def test_names_of_classes(as_positions: bool, source: str) -> None:
    labels = LABELS if as_positions else np.array(NAMES)[LABELS]
    if source == "columns":
        verdicts = find_label_errors(
            labels, pred_probs=pandas.DataFrame(PROBABILITIES, columns=NAMES)
        )
    else:
        verdicts = find_label_errors(labels, pred_probs=PROBABILITIES, class_names=NAMES)
    np.testing.assert_array_equal(verdicts.code, EXPECTED.code)
    positions = named(EXPECTED)
    assert named(verdicts) == tuple([NAMES[place] for place in column] for column in positions)


def test_names_without_an_order_are_sorted_as_cleanlab_does() -> None:
    labels = np.array(sorted(NAMES))[LABELS]
    for taken in (labels, labels.tolist(), pandas.Series(labels, dtype="category")):
        verdicts = find_label_errors(taken, pred_probs=PROBABILITIES)
        np.testing.assert_array_equal(verdicts.code, EXPECTED.code)
        assert named(verdicts)[0] == labels.tolist()


def test_integers_that_are_names() -> None:
    numbers = [7, 3, 5]
    labels = np.array(numbers)[LABELS]
    verdicts = find_label_errors(labels, pred_probs=PROBABILITIES, class_names=numbers)
    np.testing.assert_array_equal(verdicts.code, EXPECTED.code)
    assert named(verdicts)[0] == labels.tolist()
    frame = pandas.DataFrame(PROBABILITIES[:, [2, 0, 1]], columns=["2", "0", "1"])
    verdicts = find_label_errors(LABELS, pred_probs=frame)  # by the text of the columns
    np.testing.assert_array_equal(verdicts.code, EXPECTED.code)
    assert named(verdicts)[0] == [str(label) for label in LABELS]


def test_truth_values() -> None:
    labels, logits, _ = made(classes=2)
    verdicts = find_label_errors(labels.astype(bool), logits=logits)
    assert_same_verdicts(verdicts, find_label_errors(labels, logits=logits))


def test_ids() -> None:
    ids = [f"image {number}" for number in range(len(LABELS))]
    assert find_label_errors(LABELS, pred_probs=PROBABILITIES, ids=ids).ids == ids
    series = pandas.Series(LABELS, index=ids)
    assert find_label_errors(series, pred_probs=PROBABILITIES).ids == ids
    frame = pandas.DataFrame(PROBABILITIES, index=ids)
    assert find_label_errors(series, pred_probs=frame).ids == ids
    with pytest.raises(ValueError, match="different indexes"):
        find_label_errors(series, pred_probs=frame.iloc[::-1])
    with pytest.raises(ValueError, match="3 ids for 400 labels"):
        find_label_errors(LABELS, pred_probs=PROBABILITIES, ids=ids[:3])


def test_probabilities_of_zero_are_taken() -> None:
    votes = np.round(PROBABILITIES, 1)
    votes[np.arange(len(votes)), votes.argmax(1)] += 1.0 - votes.sum(1)
    assert (votes == 0.0).sum() > 100
    verdicts = find_label_errors(LABELS, pred_probs=votes)
    assert np.isfinite(verdicts.score).all()
    assert verdicts.noise_rate == pytest.approx(IS_WRONG.mean(), abs=0.04)


# Regression.


def test_regression_targets() -> None:
    targets, predicted, is_wrong = made_regression()
    verdicts = find_label_errors(targets, predictions=predicted)
    is_called = verdicts.verdict == "incorrect"
    assert (is_called & is_wrong).sum() / is_called.sum() > 0.8
    assert verdicts.noise_rate == pytest.approx(is_wrong.mean(), abs=0.04)
    assert verdicts.noise_interval is not None
    assert verdicts.average_loss is not None
    np.testing.assert_allclose(verdicts.average_loss, abs(targets - predicted), rtol=1e-5)
    assert verdicts.given_label is not None
    assert verdicts.given_label.dtype == np.float64
    np.testing.assert_array_equal(verdicts.given_label, targets)
    errors = abs(targets - predicted)
    within = errors <= 2 * np.median(errors)
    assert np.mean((verdicts.verdict == "easy") == (within & ~is_called)) > 0.99
    for taken in (predicted[:, None], torch.from_numpy(predicted), pandas.Series(predicted)):
        assert_same_verdicts(find_label_errors(pandas.Series(targets), predictions=taken), verdicts)


def test_predictions_that_do_not_correlate_cannot_tell() -> None:
    rng = np.random.default_rng(0)
    verdicts = find_label_errors(rng.normal(size=200), predictions=rng.normal(size=200))
    assert verdicts.noise_rate is None
    assert verdicts.noise_interval is None
    assert verdicts.counts["incorrect"] == 0
    assert verdicts.notes == (CANNOT_TELL,)
    again = Verdicts.from_pandas(verdicts.to_pandas())
    assert again.noise_rate is None
    assert "noise rate unknown" in repr(again)


def regression(samples: int, rate: float, deviation: float, seed: int) -> Verdicts:
    """Verdicts from predictions with this error; a fraction of the targets is shuffled."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=samples)
    predicted = (true + deviation * rng.normal(size=samples)) * (1 - rate) / (1 + deviation**2)
    is_wrong = rng.random(samples) < rate
    targets = np.where(is_wrong, rng.permutation(true), true)
    return find_label_errors(targets, predictions=predicted)


@pytest.mark.parametrize("seed", range(3))
def test_good_predictions_of_clean_targets_leave_room_for_little_noise(seed: int) -> None:
    verdicts = regression(samples=500, rate=0.0, deviation=0.3, seed=seed)
    assert verdicts.noise_rate == pytest.approx(0.0, abs=0.01)
    assert verdicts.noise_interval is not None
    assert verdicts.noise_interval[1] < 0.05
    assert verdicts.notes == ()


@pytest.mark.parametrize(("samples", "rate"), [(40, 0.0), (40, 0.3), (200, 0.3)])
@pytest.mark.parametrize("seed", range(3))
def test_an_interval_that_says_nothing_is_not_given(samples: int, rate: float, seed: int) -> None:
    verdicts = regression(samples, rate, deviation=2.0, seed=seed)
    if verdicts.noise_interval is None:
        assert verdicts.noise_rate is None
        assert verdicts.notes == (CANNOT_TELL,)
    else:
        low, high = verdicts.noise_interval
        assert low <= rate <= high <= low + 0.5


def test_a_very_uncertain_noise_rate_has_no_interval() -> None:
    p_incorrect = torch.full((1000,), 0.3, dtype=torch.float64)
    assert noise_interval(p_incorrect, variance=0.1**2) is not None
    assert noise_interval(p_incorrect, variance=0.2**2) is None
    assert noise_interval(p_incorrect, variance=0.1**2, highest_plausible=0.8) is None


@pytest.mark.parametrize(("wrong", "low"), [(0.002, 0.0), (0.01, 0.0), (0.1, 0.06)])
def test_the_interval_begins_at_0_if_all_labels_may_be_correct(wrong: float, low: float) -> None:
    p_incorrect = torch.full((2000,), 1e-4, dtype=torch.float64)
    p_incorrect[: round(2000 * wrong)] = 0.99
    interval = noise_interval(p_incorrect, variance=0.0)
    assert interval is not None
    assert interval[0] == pytest.approx(low, abs=0.01)
    assert (interval[0] == 0.0) == (low == 0.0)
    assert interval[1] > wrong


# Notes.


def test_predictions_that_know_nothing_of_the_labels_cannot_tell() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice(3, 300, p=[0.8, 0.1, 0.1])
    verdicts = find_label_errors(labels, pred_probs=np.full((300, 3), 1 / 3))
    assert verdicts.noise_rate is None
    guesses = find_label_errors(labels, logits=rng.normal(size=(300, 3)) + np.array([2.0, 0, 0]))
    assert guesses.noise_rate is None
    assert guesses.noise_interval is None
    assert guesses.notes[-1] == CANNOT_TELL


def test_rare_classes_can_tell_although_the_prediction_is_always_the_frequent_one() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(1000) < 0.05).astype(int)
    logits = np.stack([np.full(1000, 4.0), 2.0 * labels + rng.normal(size=1000)], 1)
    assert (logits.argmax(1) == 0).mean() > 0.98
    assert find_label_errors(labels, logits=logits).noise_rate is not None


def test_a_small_class_has_a_note() -> None:
    labels, logits, _ = made(rate=0.0)
    keep = (labels != 2) | (np.cumsum(labels == 2) <= 3)
    verdicts = find_label_errors(labels[keep], logits=logits[keep], class_names=NAMES)
    assert [note.partition(":")[0] for note in verdicts.notes] == [
        f"Class 'bee' has 3 of {keep.sum()} labels"
    ]


def test_predictions_that_know_every_label_have_a_note() -> None:
    verdicts = find_label_errors(LABELS, pred_probs=np.eye(3)[LABELS])
    assert "out of sample" in verdicts.notes[0]
    targets = made_regression()[0]
    assert "out of sample" in find_label_errors(targets, predictions=targets).notes[0]


# What is refused.


def changed(array: Any, place: Any, value: Any) -> Any:
    copy = array.copy()
    copy[place] = value
    return copy


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "pass one of pred_probs, logits and predictions, but got none of them"),
        ({"pred_probs": PROBABILITIES, "logits": LOGITS}, "but got pred_probs and logits"),
        ({"pred_probs": PROBABILITIES[1:]}, r"shape \(400, classes\).* but have \(399, 3\)"),
        ({"logits": LOGITS[:, 0]}, r"shape \(400, classes\).* but have \(400,\)"),
        ({"logits": LOGITS[:, :1]}, "at least two columns"),
        ({"pred_probs": LOGITS}, "pred_probs of sample .* are negative: pass the output .* logits"),
        ({"pred_probs": 2 * PROBABILITIES}, "pred_probs of sample 0 sum to 2, not to 1"),
        ({"pred_probs": changed(PROBABILITIES, 5, np.nan)}, "pred_probs of sample 5 are not fin"),
        ({"logits": changed(LOGITS, (7, 1), np.inf)}, "logits of sample 7 are not finite"),
        ({"logits": np.full((400, 3), "x")}, "logits must contain numbers"),
        ({"logits": LOGITS[:, :2]}, "the label 2 of sample .* is not one of the classes 0, 1: "),
        ({"logits": np.pad(LOGITS, ((0, 0), (0, 1)))}, "no label names the class 3"),
        (
            {"pred_probs": np.pad(PROBABILITIES, ((0, 0), (0, 1)))},
            "Leave out its column of pred_probs and divide each row by its new sum",
        ),
        ({"logits": LOGITS, "class_names": ["a", "b"]}, "name 2 classes, but logits have 3"),
        ({"logits": LOGITS, "class_names": ["a", "b", "a"]}, "hold 'a' more than once"),
        ({"predictions": LOGITS}, r"shape \(400,\), one for each label, but have \(400, 3\)"),
        ({"predictions": LOGITS[:, 0], "class_names": NAMES}, "predictions= is for regression"),
        ({"predictions": changed(LOGITS[:, 0], 3, np.nan)}, "predictions of sample 3 are not fin"),
    ],
)
def test_predictions_that_do_not_fit(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        find_label_errors(LABELS, **arguments)


WORDS = np.array(NAMES, dtype=object)[LABELS]


@pytest.mark.parametrize(
    ("labels", "arguments", "sentence"),
    [
        (LABELS[:, None], {}, r"labels must have the shape \(samples,\), but have \(400, 1\)"),
        (changed(WORDS, 4, None), {}, "the label of sample 4 is missing"),
        (changed(WORDS, 4, float("nan")), {}, "the label of sample 4 is missing"),
        (pandas.Series(LABELS, dtype="Int64").mask(LABELS == 1), {}, "of sample .* is missing"),
        (changed(LABELS.astype(float), 2, np.nan), {}, "the label of sample 2 is missing"),
        (LABELS + 0.5, {}, "labels are fractions: .* regression needs predictions="),
        (LABELS + 1, {}, "the label 3 of sample .* is not one of the classes 0, 1, 2"),
        (LABELS - 1, {}, "the label -1 of sample"),
        (changed(WORDS, 9, "dog"), {}, "labels name 4 classes and logits have 3 columns"),
        (
            changed(WORDS, 9, "dog"),
            {"class_names": NAMES},
            "the label 'dog' of sample 9 is not one",
        ),
        (np.where(LABELS == 2, 1, LABELS), {"class_names": NAMES}, "no label names .* 'bee'"),
    ],
)
def test_labels_that_do_not_fit(labels: Any, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        find_label_errors(labels, logits=LOGITS, **arguments)


def test_regression_targets_that_are_no_numbers() -> None:
    with pytest.raises(ValueError, match="labels must contain numbers"):
        find_label_errors(WORDS, predictions=LOGITS[:, 0])
    with pytest.raises(ValueError, match="labels of sample 0 are not finite"):
        find_label_errors(changed(LOGITS[:, 0], 0, np.inf), predictions=LOGITS[:, 0])


def test_too_few_labels() -> None:
    some = slice(FEWEST_SAMPLES - 1)
    for arguments in ({"logits": LOGITS[some]}, {"predictions": LOGITS[some, 0]}):
        with pytest.raises(ValueError, match=r"29 labels are too few .*: 30 are needed"):
            find_label_errors(LABELS[some], **arguments)


# What always holds.


@settings(max_examples=12)
@given(
    samples=st.integers(FEWEST_SAMPLES, 120),
    classes=st.integers(2, 4),
    rate=st.floats(0.0, 0.6),
    far=st.floats(0.0, 8.0),
    seed=st.integers(0, 1000),
)
def test_invariants_of_classes(
    samples: int, classes: int, rate: float, far: float, seed: int
) -> None:
    labels, logits, _ = made(samples, classes, rate, seed, far)
    labels[:classes] = np.arange(classes)  # every class occurs
    verdicts = find_label_errors(labels, logits=logits)
    check_invariants(verdicts)
    assert (verdicts.given_label == labels).all()


@settings(max_examples=12)
@given(
    samples=st.integers(FEWEST_SAMPLES, 120),
    rate=st.floats(0.0, 0.6),
    step=st.sampled_from([0.0, 5.0, 40.0]),
    seed=st.integers(0, 1000),
)
def test_invariants_of_regression(samples: int, rate: float, step: float, seed: int) -> None:
    targets, predicted, _ = made_regression(samples, rate, seed)
    if step:  # targets with many ties
        targets = step * np.round(targets / step)
    check_invariants(find_label_errors(targets, predictions=predicted))


def check_invariants(verdicts: Verdicts) -> None:
    is_incorrect = verdicts.verdict == "incorrect"
    assert (verdicts.suggested_label != verdicts.given_label)[is_incorrect].all()
    np.testing.assert_array_equal(is_incorrect, verdicts.p_incorrect > 0.5)
    assert (np.diff(verdicts.score[verdicts.order]) <= 0).all()
    p = verdicts.p_incorrect.astype(np.float64)
    score = np.clip(verdicts.score.astype(np.float64), -100, 100)
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-score)), atol=1e-6)
    if verdicts.noise_rate is not None:
        assert verdicts.noise_rate == pytest.approx(p.mean(), abs=1e-6)
        assert verdicts.noise_interval is not None
        low, high = verdicts.noise_interval
        assert 0.0 <= low <= verdicts.noise_rate + 1e-9
        assert verdicts.noise_rate - 1e-9 <= high <= 1.0


# The interval.


@pytest.mark.parametrize(("classes", "rate"), [(2, 0.2), (4, 0.15)])
def test_the_interval_holds_the_truth_in_nine_of_ten_sets(classes: int, rate: float) -> None:
    hits, widths = 0, []
    for seed in range(16):
        labels, logits, is_wrong = made(300, classes, rate, seed, far=3.0)
        interval = find_label_errors(labels, logits=logits).noise_interval
        assert interval is not None
        hits += interval[0] <= is_wrong.mean() <= interval[1]
        widths.append(interval[1] - interval[0])
    assert hits >= 13
    assert np.mean(widths) < 0.17


def test_the_interval_of_a_regression_does_too() -> None:
    hits, widths = 0, []
    for seed in range(16):
        targets, predicted, is_wrong = made_regression(600, 0.15, seed)
        interval = find_label_errors(targets, predictions=predicted).noise_interval
        assert interval is not None
        hits += interval[0] <= is_wrong.mean() <= interval[1]
        widths.append(interval[1] - interval[0])
    assert hits >= 13
    assert np.mean(widths) < 0.17


def test_more_samples_make_it_narrower() -> None:
    widths = []
    for samples in (60, 2000):
        labels, logits, _ = made(samples, far=2.0)
        interval = find_label_errors(labels, logits=logits).noise_interval
        assert interval is not None
        widths.append(interval[1] - interval[0])
    assert widths[1] < 0.8 * widths[0]


def test_a_label_is_hard_only_where_it_is_probably_right() -> None:
    agrees = torch.tensor([True, False, False, False, True])
    p_incorrect = np.array([0.3, 0.05, 0.3, 0.7, 0.7], np.float32)
    codes = verdict_codes(agrees, p_incorrect, True)
    assert list(codes) == [EASY, HARD, UNDECIDED, INCORRECT, INCORRECT]
    can_tell = torch.tensor([True, False, True, True, True])
    codes = verdict_codes(agrees, p_incorrect, can_tell)
    assert list(codes) == [EASY, UNDECIDED, UNDECIDED, INCORRECT, INCORRECT]


def test_nothing_is_hard_where_predictions_say_nothing() -> None:
    labels, logits, _ = made()
    verdicts = find_label_errors(labels, logits=np.random.default_rng(9).permutation(logits))
    assert CANNOT_TELL in verdicts.notes
    assert verdicts.counts["hard"] == 0
    assert verdicts.counts["undecided"] > 100


def test_where_nothing_can_be_told_no_probability_is_high() -> None:
    rng = np.random.default_rng(0)
    verdicts = find_label_errors(rng.integers(0, 4, 800), logits=rng.normal(size=(800, 4)))
    assert verdicts.noise_rate is None
    assert verdicts.counts["incorrect"] == 0
    assert 0.0 < verdicts.p_incorrect.mean() <= 0.1001
