"""The comparison is fair, repeatable, and blind to clean labels."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from discrimloss.demo.experiment import (
    VALUE_NAMES,
    NoisyDigits,
    demo_config,
    mean_and_std,
    run_experiment,
    train_digits,
)
from discrimloss.training.run import prepare_run


def test_the_digits_are_those_of_scikit_learn_and_no_test_image_is_trained_on() -> None:
    digits = NoisyDigits(demo_config("plain", 1, 0.4, 2))
    pixels, labels = load_digits(return_X_y=True)
    assert digits.images.shape == (1348, 8, 8)
    assert np.array_equal(digits.images.reshape(-1, 64) * 16, pixels[digits.rows])
    assert np.array_equal(digits.labels.clean_target.numpy(), labels[digits.rows])
    assert int(digits.labels.is_wrong.sum()) == 539
    assert digits.task.test is not None
    rest = sorted(set(range(1797)) - set(digits.rows.tolist()))
    assert sorted(digits.task.test.target.tolist()) == sorted(labels[rest].tolist())


def test_a_seed_decides_the_split_and_the_wrong_labels() -> None:
    once, again, other = (NoisyDigits(demo_config("plain", seed, 0.4, 2)) for seed in (1, 1, 2))
    assert np.array_equal(once.rows, again.rows)
    assert torch.equal(once.labels.target, again.labels.target)
    assert not np.array_equal(once.rows, other.rows)
    assert not torch.equal(once.labels.target, other.labels.target)


def test_both_methods_get_the_same_start_and_labels_and_settings() -> None:
    plain, ours = (demo_config(method, 1, 0.4, 3) for method in ("plain", "discrimloss"))
    assert replace(plain, method="discrimloss") == ours
    first, second = (prepare_run(config, Path()) for config in (plain, ours))
    assert torch.equal(first.labels.target, second.labels.target)
    weights = (prepared.method.networks[0].state_dict() for prepared in (first, second))
    for one, other in zip(*(each.values() for each in weights), strict=True):
        assert torch.equal(one, other)


def test_training_is_blind_to_clean_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    config = demo_config("discrimloss", 1, 0.4, 2)
    _, honest = train_digits(config)
    from discrimloss.training import run

    made: Any = run.make_labels

    def without_truth(*arguments: Any) -> Any:
        labels = made(*arguments)
        return replace(labels, clean_target=torch.zeros_like(labels.clean_target))

    monkeypatch.setattr(run, "make_labels", without_truth)
    _, blind = train_digits(config)
    assert honest.average_loss is not None
    assert np.array_equal(honest.average_loss, blind.average_loss)
    assert np.array_equal(honest.p_incorrect, blind.p_incorrect)


def test_a_label_that_is_called_incorrect_gets_another_one() -> None:
    _, verdicts = train_digits(demo_config("discrimloss", 1, 0.4, 6))
    flagged = verdicts.verdict == "incorrect"
    assert flagged.any()
    assert verdicts.given_label is not None
    assert verdicts.suggested_label is not None
    assert (verdicts.given_label[flagged] != verdicts.suggested_label[flagged]).all()


def test_a_seed_does_not_depend_on_the_seeds_before_it() -> None:
    ended: list[None] = []
    together = run_experiment(0.4, 2, [3, 4], lambda: ended.append(None))
    assert together.values[1:] == run_experiment(0.4, 2, [4]).values
    assert together.first.digits.config.seed == 3
    assert len(ended) == 4


def test_without_wrong_labels_recall_is_undefined() -> None:
    values = run_experiment(0.0, 3, [0]).values[0]
    assert values.wrong_labels == 0
    assert values.recall is None
    assert values.true_noise_rate == 0.0


def test_mean_and_spread_leave_out_what_is_undefined() -> None:
    assert mean_and_std([1.0, None, 4.0, 7.0]) == (4.0, 3.0)
    assert mean_and_std([1.0]) == (1.0, None)
    assert mean_and_std([None]) == (None, None)


def test_discrimloss_finds_most_wrong_labels_and_learns_more() -> None:
    # As long as the demo: in half the time, cross-entropy has not yet learned the wrong labels.
    results = run_experiment(0.4, 40, [0, 1])
    mean = {name: mean_and_std(results.per_seed(name))[0] or 0.0 for name in VALUE_NAMES}
    assert mean["recall"] > 0.9
    assert mean["precision"] > 0.9
    assert abs(mean["estimated_noise_rate"] - mean["true_noise_rate"]) < 0.04
    assert mean["discrimloss_accuracy"] > mean["cross_entropy_accuracy"]
