"""Noise rates of classes, and how certain they are."""

from __future__ import annotations

import numpy as np
import pytest

from discrimloss.judging.class_rates import class_rate, class_rates


def test_the_noisiest_class_comes_first() -> None:
    given = np.array(["b", "a", "b", "c", "a"], dtype=object)
    p_incorrect = np.array([0.2, 0.9, 0.4, 0.0, 0.5])
    found = class_rates(given, p_incorrect, 0.4, (0.3, 0.5))
    assert [(one.name, one.count) for one in found] == [("a", 2), ("b", 2), ("c", 1)]
    assert [one.rate for one in found] == pytest.approx([0.7, 0.3, 0.0])


def test_without_an_interval_of_all_labels_there_is_none_of_a_class() -> None:
    assert class_rate("a", np.array([0.5]), None, None).interval is None
    assert class_rate("a", np.array([0.5]), 0.5, None).interval is None


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("count", [1, 7, 5_000])
def test_an_interval_is_one_of_fractions_and_holds_the_rate(rate: float, count: int) -> None:
    found = class_rate("a", np.full(count, rate), 0.1, (0.0, 0.2))
    assert found.interval is not None
    low, high = found.interval
    assert 0.0 <= low <= rate + 1e-12
    assert rate - 1e-12 <= high <= 1.0


def test_one_sample_may_be_wrong_or_right() -> None:
    found = class_rate("a", np.array([0.1]), 0.1, (0.08, 0.12))
    assert found.interval is not None
    assert found.interval[1] > 0.5


def test_intervals_hold_the_truth_nine_times_of_ten() -> None:
    """Where probabilities are right, and all that is uncertain is which labels are wrong."""
    generator = np.random.default_rng(0)
    given = generator.integers(0, 60, 6_000).astype(str).astype(object)
    rate_of = dict(zip(np.unique(given), generator.uniform(0.02, 0.3, 60), strict=True))
    p_incorrect = np.array([rate_of[name] for name in given])
    p_incorrect *= generator.uniform(0.5, 1.5, len(given))
    is_wrong = generator.random(len(given)) < p_incorrect
    held = [
        one.interval is not None
        and one.interval[0] <= is_wrong[given == one.name].mean() <= one.interval[1]
        for one in class_rates(given, p_incorrect, p_incorrect.mean(), (0.14, 0.18))
    ]
    assert np.mean(held) >= 0.9
