"""Numbers are judged from made predictions, whose errors and noise are known."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from judged_labels import calibration_error, f1_score
from torch import Tensor

from discrimloss.judging.regression_noise import estimate_target_errors

SAMPLES = 3000


@dataclass(frozen=True)
class Made:
    """Numbers of which some are wrong, and what a model would say that learned from them."""

    predicted: Tensor
    true: Tensor
    given: Tensor
    is_wrong: Tensor


def made(rate: float, error_grows: bool = False) -> Made:
    generator = torch.Generator().manual_seed(2)
    true = 40.0 + 20.0 * torch.randn(SAMPLES, generator=generator)
    error = 2.0 + (0.1 * (true - 20.0).clamp(min=0.0) if error_grows else 0.0)
    is_wrong = torch.rand(SAMPLES, generator=generator) < rate
    drawn = true[torch.randperm(SAMPLES, generator=generator)]
    known = true + error * torch.randn(SAMPLES, generator=generator)
    mean = known.mean()  # of labels drawn from all, a model learns the mean
    predicted = mean + (1.0 - rate) * (known - mean)
    return Made(predicted, true, torch.where(is_wrong, drawn, true), is_wrong)


def memorised(data: Made, pull: float) -> tuple[Tensor, Tensor]:
    """Predictions pulled to the labels of those who were learned from; and who was not."""
    draw = torch.rand(SAMPLES, generator=torch.Generator().manual_seed(1))
    is_held_out = draw < 0.2
    pulled = data.given + (data.predicted - data.given) / (1.0 + pull)
    return torch.where(is_held_out, data.predicted, pulled), is_held_out


def nobody(number: int) -> Tensor:
    return torch.zeros(number, dtype=torch.bool)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("error_grows", [False, True])
@pytest.mark.parametrize("pull", [0.0, 0.5])
def test_noise_is_estimated_and_found(rate: float, error_grows: bool, pull: float) -> None:
    data = made(rate, error_grows)
    predicted, is_held_out = memorised(data, pull)
    judged = estimate_target_errors(predicted, data.given, is_held_out)
    actual = float(data.is_wrong.double().mean())
    assert judged.noise_rate == pytest.approx(actual, abs=0.03)
    assert calibration_error(judged.p_incorrect, data.is_wrong) < 0.05
    is_called = judged.p_incorrect > 0.5
    if rate == 0.0:
        assert is_called.double().mean() < 0.005
        return
    assert f1_score(is_called, data.is_wrong) > 0.75  # who is off by an error's width is not found
    far = data.is_wrong & ((data.given - data.true).abs() > 40.0)
    assert is_called[far].double().mean() > 0.98
    # A model that learned from wrong numbers stays near the mean; suggestions do not.
    found = is_called & data.is_wrong
    off, unmended = ((x - data.true)[found].abs().mean() for x in (judged.suggested, predicted))
    assert off < 0.8 * unmended


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_numbers_may_have_any_unit(unit: float) -> None:
    data = made(0.2)
    judged = estimate_target_errors(data.predicted * unit, data.given * unit, nobody(SAMPLES))
    assert judged.noise_rate == pytest.approx(float(data.is_wrong.double().mean()), abs=0.03)
    assert float((judged.suggested / unit - data.true).abs().median()) < 2.0


def test_absurd_numbers_do_not_hide_the_others() -> None:
    data = made(0.2)
    given, is_wrong = data.given.clone(), data.is_wrong.clone()
    given[:3], is_wrong[:3] = torch.tensor([1e9, -1e9, 3e5]), True
    judged = estimate_target_errors(data.predicted, given, nobody(SAMPLES))
    assert (judged.p_incorrect[:3] > 0.99).all()
    assert judged.noise_rate == pytest.approx(float(is_wrong.double().mean()), abs=0.03)
    assert f1_score(judged.p_incorrect > 0.5, is_wrong) > 0.9


@pytest.mark.parametrize("held_out", [0, 4])
def test_equal_numbers_accuse_nobody(held_out: int) -> None:
    numbers = torch.full((20,), 3.0)
    judged = estimate_target_errors(numbers, numbers, torch.arange(20) < held_out)
    assert (judged.p_incorrect < 0.5).all()
    torch.testing.assert_close(judged.suggested, numbers)


@pytest.mark.parametrize("held_out", [[False, False], [True, False], [True, True]])
def test_two_samples(held_out: list[bool]) -> None:
    judged = estimate_target_errors(
        torch.tensor([1.0, 2.0]), torch.tensor([1.1, 1.9]), torch.tensor(held_out)
    )
    assert (judged.p_incorrect < 0.5).all()
    assert judged.suggested.isfinite().all()


def test_one_sample() -> None:
    judged = estimate_target_errors(torch.tensor([1.0]), torch.tensor([1.5]), nobody(1))
    assert judged.score.isfinite().all()
    assert judged.noise_rate < 0.5
