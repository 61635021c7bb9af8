"""Targets are judged by made predictions whose errors have a known size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discrimloss.judging.target_density import ScaledTargets, fit_target_noise, never_wrong

SAMPLES = 2000


@pytest.mark.parametrize("by_rank", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_noise_is_estimated_with_the_predicted_scale(by_rank: bool, rate: float) -> None:
    rng = np.random.default_rng(0)
    centre = 50.0 + 10.0 * rng.normal(size=SAMPLES)
    log_scale = rng.normal(size=SAMPLES) * 0.7
    true = centre + np.exp(log_scale) * rng.normal(size=SAMPLES)
    is_wrong = rng.random(SAMPLES) < rate
    given = np.where(is_wrong, true[rng.permutation(SAMPLES)], true)
    scaled = ScaledTargets(given, by_rank)
    found = fit_target_noise(scaled, np.interp(centre, *_map(given, scaled)), log_scale)
    assert found.p_incorrect.mean() == pytest.approx(is_wrong.mean(), abs=0.02)
    interval = found.noise_interval()
    assert interval is not None
    assert interval[0] <= is_wrong.mean() <= interval[1] + 1e-9
    assert found.fraction_found() > 0.5
    if rate:
        called = found.score > 0.0
        assert is_wrong[called].mean() > 0.9
        assert called[is_wrong].mean() > 0.6
    plain = fit_target_noise(scaled, np.interp(centre, *_map(given, scaled)))
    assert plain.gain < found.gain  # the size of the errors is worth knowing


def _map(given: np.ndarray, scaled: ScaledTargets) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(given)
    return given[order], scaled.target[order]


@pytest.mark.parametrize("by_rank", [False, True])
def test_scaled_targets_go_back(by_rank: bool) -> None:
    given = np.random.default_rng(0).gamma(2.0, 100.0, 500)
    scaled = ScaledTargets(given, by_rank)
    np.testing.assert_allclose(scaled.back(scaled.target), given, rtol=1e-6)


def test_the_density_of_targets_is_that_of_their_distribution() -> None:
    given = np.random.default_rng(0).normal(size=5000)
    scaled = ScaledTargets(given, by_rank=False)
    expected = -0.5 * (scaled.target**2 + math.log(2 * math.pi))
    near = np.abs(scaled.target) < 2.0
    assert np.abs(scaled.log_density - expected)[near].max() < 0.2


def test_predictions_that_say_nothing_find_nothing() -> None:
    rng = np.random.default_rng(0)
    found = fit_target_noise(ScaledTargets(rng.normal(size=500), True), np.zeros(500))
    assert found.fraction_found() < 0.1
    assert found.gain < 0.1


def test_never_wrong_keeps_the_order() -> None:
    score = np.array([3.0, -1.0, 0.5])
    assert (never_wrong(score) < -19.0).all()
    assert never_wrong(score).argsort().tolist() == score.argsort().tolist()
