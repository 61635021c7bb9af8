"""Stochastic label noise against a naive loop over the targets."""

from __future__ import annotations

import math

import pytest
import torch

from discrimloss.losses import StochasticLabelNoise
from discrimloss.losses.base import cross_entropy
from discrimloss.losses.stochastic_label_noise import soft_cross_entropy

SAMPLES, CLASSES = 8, 3
LOGITS = torch.randn(SAMPLES, CLASSES, generator=torch.Generator().manual_seed(1))
TARGET = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])


def test_soft_cross_entropy_by_hand() -> None:
    output = torch.tensor([[0.5, 0.25, 0.25]]).log()
    # -(1.3 log 0.5 - 0.5 log 0.25 + 0.1 log 0.25) = (1.3 - 1 + 0.2) log 2
    losses = soft_cross_entropy(output, torch.tensor([[1.3, -0.5, 0.1]]))
    torch.testing.assert_close(losses, torch.tensor([0.5 * math.log(2)]))
    assert soft_cross_entropy(output.half(), torch.eye(3)[:1]).dtype == torch.float32


def test_the_loss_is_that_of_the_label_plus_the_noise_of_the_epoch() -> None:
    criterion = StochasticLabelNoise(SAMPLES, CLASSES, sigma=0.7)
    log_p = LOGITS.log_softmax(1)
    seen = []
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        loss = criterion(LOGITS[2:6], TARGET[2:6], torch.arange(2, 6))
        noise = torch.randn(SAMPLES, CLASSES, generator=criterion.draws.generator(epoch))
        expected = 0.0
        for sample in range(2, 6):
            for label in range(CLASSES):
                target = float(TARGET[sample] == label) + 0.7 * float(noise[sample, label])
                expected -= target * float(log_p[sample, label]) / 4
        assert float(loss) == pytest.approx(expected, rel=1e-5)
        seen.append(criterion.noise.clone())
        criterion.set_epoch(epoch)  # resumed
        assert torch.equal(criterion.noise, seen[-1])
    assert not torch.equal(seen[0], seen[1])


def test_the_noise_has_the_given_deviation() -> None:
    torch.manual_seed(0)
    criterion = StochasticLabelNoise(20_000, CLASSES, sigma=0.2)  # drawn for epoch 1
    assert float(criterion.noise.std()) == pytest.approx(0.2, rel=0.02)
    assert float(criterion.noise.mean()) == pytest.approx(0.0, abs=0.005)
    assert StochasticLabelNoise(3, CLASSES).hyperparameters() == {"sigma": 0.1}


def test_without_noise_it_is_plain() -> None:
    criterion = StochasticLabelNoise(SAMPLES, CLASSES, sigma=0.0)
    loss = criterion(LOGITS, TARGET, torch.arange(SAMPLES))
    torch.testing.assert_close(loss, cross_entropy(LOGITS, TARGET).mean())


@pytest.mark.parametrize("sigma", [-0.1, math.inf, math.nan])
def test_a_deviation_that_is_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma must be 0 or more"):
        StochasticLabelNoise(SAMPLES, CLASSES, sigma=sigma)
