"""Symmetric cross-entropy against a loop with a clipped one-hot label."""

from __future__ import annotations

import math

import pytest
import torch

from discrimloss.losses import SymmetricCrossEntropy


@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 1.0), (6.0, 0.1)])
def test_the_loss_in_a_loop(alpha: float, beta: float) -> None:
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    target = torch.tensor([0, 1, 2, 1, 0])
    criterion = SymmetricCrossEntropy(alpha=alpha, beta=beta, reduction="none")
    losses = criterion(logits, target)
    for row, label in enumerate(target.tolist()):
        p = logits[row].softmax(0).tolist()
        clipped = [1.0 if k == label else 1e-4 for k in range(3)]
        reverse = -sum(p[k] * math.log(clipped[k]) for k in range(3))
        assert float(losses[row]) == pytest.approx(-alpha * math.log(p[label]) + beta * reverse)


def test_the_papers_logarithm_of_zero() -> None:
    logits = torch.tensor([[0.25, 0.75]]).log()
    loss = SymmetricCrossEntropy(alpha=0.0, log_zero=-4.0)(logits, torch.tensor([0]))
    assert float(loss) == pytest.approx(3.0)  # 4 times 0.75


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="alpha and beta must be finite and at least 0"):
        SymmetricCrossEntropy(alpha=-1.0)
    with pytest.raises(ValueError, match="log_zero must be finite and below 0, not 1"):
        SymmetricCrossEntropy(log_zero=1.0)
