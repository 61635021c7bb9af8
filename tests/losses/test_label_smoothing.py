"""Label smoothing against a loop over samples and classes."""

from __future__ import annotations

import math

import pytest
import torch

from discrimloss.losses import LabelSmoothing


def test_the_loss_in_a_loop() -> None:
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    target = torch.tensor([0, 1, 2, 3, 0, 2])
    criterion = LabelSmoothing(6, smoothing=0.2, reduction="none")
    losses = criterion(logits, target, torch.arange(6))
    for row, (values, label) in enumerate(zip(logits.tolist(), target.tolist(), strict=True)):
        total = sum(math.exp(value) for value in values)
        expected = 0.0
        for k, value in enumerate(values):
            wanted = 0.2 / 4 + (0.8 if k == label else 0.0)
            expected -= wanted * (value - math.log(total))
        assert float(losses[row]) == pytest.approx(expected)
        score = 1 - math.exp(values[label]) / total
        assert float(criterion.sample_scores()[row]) == pytest.approx(score)


def test_without_smoothing_it_is_cross_entropy() -> None:
    loss = LabelSmoothing(smoothing=0.0)(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    assert float(loss) == pytest.approx(math.log(2))


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_wrong_smoothing(smoothing: float) -> None:
    with pytest.raises(ValueError, match="smoothing must be at least 0 and below 1"):
        LabelSmoothing(smoothing=smoothing)
