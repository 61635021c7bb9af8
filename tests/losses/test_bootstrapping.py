"""Bootstrapping, both forms, with numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from discrimloss.losses import Bootstrapping

LOGITS = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64).log()


def test_the_hard_form_by_hand() -> None:
    # beta = 0.8 of -log 0.2, the label, and 0.2 of -log 0.7, the predicted class
    loss = Bootstrapping()(LOGITS, torch.tensor([1]))
    assert float(loss) == pytest.approx(-0.8 * math.log(0.2) - 0.2 * math.log(0.7))


def test_the_soft_form_by_hand() -> None:
    loss = Bootstrapping(form="soft")(LOGITS, torch.tensor([1]))
    entropy = -sum(p * math.log(p) for p in (0.7, 0.2, 0.1))
    assert float(loss) == pytest.approx(-0.95 * math.log(0.2) + 0.05 * entropy)


def test_the_gradient_of_the_soft_form_passes_through_the_target() -> None:
    logits = torch.randn(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logits.requires_grad_()
    target = torch.tensor([0, 3, 1])
    criterion = Bootstrapping(form="soft", label_weight=0.6, reduction="sum")
    assert torch.autograd.gradcheck(lambda z: criterion(z, target), logits)
    (gradient,) = torch.autograd.grad(criterion(logits, target), logits)
    p = logits.detach().softmax(1)
    # d entropy / dz_k = -p_k (log p_k + entropy)
    entropy = -(p * p.log()).sum(1, keepdim=True)
    one_hot = torch.eye(4, dtype=torch.float64)[target]
    expected = 0.6 * (p - one_hot) - 0.4 * p * (p.log() + entropy)
    torch.testing.assert_close(gradient, expected)


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="form must be 'soft' or 'hard', not 'mixed'"):
        Bootstrapping(form="mixed")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="label_weight must be above 0 and at most 1, not 0"):
        Bootstrapping(label_weight=0.0)
