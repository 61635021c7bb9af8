from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from discrimloss.auditing.out_of_fold.candidates import feature_candidates
from discrimloss.auditing.out_of_fold.classes import ClassPredictions, out_of_fold_classes
from discrimloss.auditing.out_of_fold.verdicts import (
    OVERLAP_OR_ERRORS,
    SYSTEMATIC,
    class_verdicts,
)
from discrimloss.judging.find_label_errors import MOST_HARD, OVERLAP
from discrimloss.judging.verdicts import EASY, HARD, HARD_BELOW, INCORRECT, UNDECIDED, Verdicts

Array = npt.NDArray[np.float32]


def clusters(samples: int, seed: int = 0) -> tuple[Array, npt.NDArray[np.int64]]:
    """Three classes, three standard deviations apart."""
    generator = np.random.default_rng(seed)
    target = generator.integers(0, 3, samples)
    features = generator.normal(size=(samples, 6))
    features[np.arange(samples), target] += 3.0
    return features.astype(np.float32), target


def judged(
    features: Array, target: npt.NDArray[np.int64], classes: int
) -> tuple[ClassPredictions, Verdicts]:
    given = torch.from_numpy(target)
    candidates = feature_candidates(features, classes)[:1]
    found = out_of_fold_classes(candidates, given, classes)
    return found, class_verdicts(found, given, [f"class {place}" for place in range(classes)])


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
def test_wrong_labels_and_their_number_are_found(rate: float) -> None:
    features, target = clusters(900)
    wrong = np.arange(900) < rate * 900
    other = (target + np.random.default_rng(1).integers(1, 3, 900)) % 3
    given = np.where(wrong, other, target)
    found, verdicts = judged(features, given, 3)
    is_incorrect = verdicts.code == INCORRECT
    assert verdicts.noise_rate == pytest.approx(rate, abs=0.03)
    assert verdicts.noise_interval is not None
    assert verdicts.noise_interval[0] <= rate <= verdicts.noise_interval[1]
    assert found.rounds == (2 if rate == 0.4 else 1)
    assert (SYSTEMATIC in verdicts.notes) == (rate == 0.0)
    if rate:
        assert (is_incorrect & wrong).sum() >= 0.85 * wrong.sum()
        assert (is_incorrect & wrong).sum() >= 0.85 * is_incorrect.sum()
        assert verdicts.suggested_label is not None
        right = verdicts.suggested_label[is_incorrect & wrong] == target[is_incorrect & wrong]
        assert right.mean() > 0.9
    else:
        assert is_incorrect.mean() <= 0.02


@pytest.mark.parametrize("size", [6, 12, 20, 40])
def test_a_rare_class_is_not_wrong(size: int) -> None:
    features, target = clusters(1000)
    features[:size] = np.random.default_rng(1).normal(size=(size, 6))
    features[:size, 5] += 9.0
    target[:size] = 3
    wrong = slice(500, 550)
    target[wrong] = (target[wrong] + 1) % 3
    _, verdicts = judged(features, target, 4)
    assert (verdicts.code[:size] == INCORRECT).sum() <= 1
    assert (verdicts.code[wrong] == INCORRECT).mean() > 0.7
    is_small = any("too small to be judged: 'class 3' (6)" in note for note in verdicts.notes)
    assert is_small == (size == 6)


def overlapping(
    distance: float,
) -> tuple[Array, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Features of three classes, their labels, and which of them are wrong: a fifth."""
    generator = np.random.default_rng(0)
    target = generator.integers(0, 3, 1500)
    features = generator.normal(size=(1500, 6)).astype(np.float32)
    features[np.arange(1500), target] += distance
    wrong = generator.random(1500) < 0.2
    return features, np.where(wrong, (target + 1) % 3, target), wrong


def test_what_is_called_hard_is_right() -> None:
    features, given, wrong = overlapping(3.0)
    _, verdicts = judged(features, given, 3)
    hard, undecided = verdicts.code == HARD, verdicts.code == UNDECIDED
    assert verdicts.p_incorrect[hard].max() <= HARD_BELOW < verdicts.p_incorrect[undecided].min()
    assert hard.sum() >= 20
    assert wrong[hard].mean() < 0.1 < wrong[undecided].mean()


def test_nothing_is_hard_where_many_labels_would_be() -> None:
    features, given, wrong = overlapping(2.0)
    found, verdicts = judged(features, given, 3)
    contradicted = found.log_probabilities.argmax(1).numpy() != given
    doubtful = contradicted & (verdicts.code != INCORRECT)
    assert doubtful.mean() > MOST_HARD
    assert (verdicts.code[doubtful] == UNDECIDED).all()
    assert wrong[doubtful].mean() > 0.1  # they are not safe
    assert OVERLAP.format(100 * doubtful.mean()) in verdicts.notes


def test_many_contradictions_that_need_no_wrong_label_are_noted_as_such() -> None:
    features, given, _ = overlapping(2.0)
    found, _ = judged(features, given, 3)
    few = replace(
        found.errors, score=found.errors.score.clamp(max=-8.0), noise_interval=(0.0, 0.01)
    )
    target = torch.from_numpy(given)
    verdicts = class_verdicts(replace(found, errors=few), target, ["a", "b", "c"])
    contradicted = float((found.log_probabilities.argmax(1) != target).float().mean())
    assert OVERLAP_OR_ERRORS.format(100 * contradicted) in verdicts.notes
    assert SYSTEMATIC not in verdicts.notes
    assert verdicts.noise_interval == (0.0, contradicted)


def test_nothing_is_hard_where_errors_do_not_show() -> None:
    features, target = clusters(900)
    found, verdicts = judged(features, target, 3)  # clean, but nothing tells that
    assert SYSTEMATIC in verdicts.notes
    contradicted = (found.log_probabilities.argmax(1).numpy() != target) & (
        verdicts.code != INCORRECT
    )
    assert contradicted.sum() > 0
    assert (verdicts.code[contradicted] == UNDECIDED).all()
    assert verdicts.noise_interval is not None
    assert verdicts.noise_interval[1] >= contradicted.mean() - 1e-6


def test_a_small_class_is_never_called_incorrect() -> None:
    features, target = clusters(600)
    target[:4] = 3  # samples of the other classes
    _, verdicts = judged(features, target, 4)
    assert (verdicts.code[:4] != INCORRECT).all()
    assert (verdicts.p_incorrect[:4] <= 0.5).all()
    assert verdicts.order[:4].max() < 4  # but they stay at the top


def test_classes_that_inputs_do_not_tell_apart_are_confused_and_not_wrong() -> None:
    features, target = clusters(1200)
    target = np.where((target == 2) & (np.arange(1200) % 2 == 0), 3, target)
    _, verdicts = judged(features, target, 4)
    assert (verdicts.code == INCORRECT).mean() < 0.03
    assert any("'class 2' and 'class 3'" in note for note in verdicts.notes)


def test_a_rare_class_of_mostly_wrong_labels_is_not_confused() -> None:
    features, true = clusters(3000)
    is_used = (true == 0) | ((true == 1) & (np.cumsum(true == 1) <= 25))
    features, true = features[is_used], true[is_used]
    is_wrong = np.random.default_rng(0).random(len(true)) < 0.1
    _, verdicts = judged(features, np.where(is_wrong, 1 - true, true), 2)
    assert (verdicts.code[is_wrong] == INCORRECT).mean() > 0.7
    assert not any("tell these classes apart" in note for note in verdicts.notes)


def test_predictions_by_chance_call_nothing_incorrect() -> None:
    features, target = clusters(300)
    _, verdicts = judged(features, np.random.default_rng(2).permutation(target), 3)
    assert (verdicts.code != INCORRECT).all()
    assert verdicts.noise_rate is None
    assert any("no better than chance" in note for note in verdicts.notes)


def test_eight_samples_are_too_few() -> None:
    features, target = clusters(8)
    _, verdicts = judged(features, target, 3)
    assert (verdicts.code != INCORRECT).all()
    assert verdicts.noise_rate is None
    assert verdicts.notes[0].startswith("8 samples are too few")


def test_the_most_suspicious_labels_have_another_class_as_suggestion() -> None:
    features, target = clusters(900)
    _, verdicts = judged(features, target, 3)
    assert verdicts.suggested_label is not None
    top = verdicts.order[:100]
    assert (verdicts.suggested_label[top] != target[top]).all()
    rest = verdicts.order[100:]
    trusted = rest[verdicts.code[rest] == EASY]
    np.testing.assert_array_equal(verdicts.suggested_label[trusted], target[trusted])
