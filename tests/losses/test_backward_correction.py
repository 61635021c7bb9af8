"""Backward correction: values by hand, and what makes it right on average."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from discrimloss.losses import BackwardCorrection
from discrimloss.losses.backward_correction import backward_losses, invertible
from discrimloss.losses.base import cross_entropy

T = ((0.5, 0.5, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
INVERSE = [[2.0, -1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
P = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])
TARGET = torch.tensor([0, 1])
INDEX = torch.arange(2)
LOG2 = math.log(2.0)


def backward(**options: Any) -> BackwardCorrection:
    criterion = BackwardCorrection(num_samples=2, num_classes=3, epochs=4, **options)
    criterion.set_targets(TARGET)
    return criterion


def test_losses_by_hand() -> None:
    criterion = backward(transition=T, reduction="none")
    losses = criterion(P.log(), TARGET, INDEX)
    # 2 * log 2 - 1 * log 4 = 0 for the first, 1 * log 2 for the second
    torch.testing.assert_close(losses, torch.tensor([0.0, LOG2]))
    # the label 0 is always right; of the label 1, 0.5 / (0.5 * 0.25 + 0.5) is
    torch.testing.assert_close(criterion.sample_scores(), torch.tensor([0.0, 1 - 0.5 / 0.625]))


def test_the_gradient_by_hand() -> None:
    logits = P[:1].log().requires_grad_()
    backward(transition=T)(logits, TARGET[:1], INDEX[:1]).backward()
    # rows of the inverse add up to 1, so d/dz is p - row y of the inverse
    expected = P[0] - torch.tensor(INVERSE[0])
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad[0], expected)


def test_without_noise_it_is_plain() -> None:
    loss = backward(noise_rate=0.0)(P.log(), TARGET, INDEX)
    torch.testing.assert_close(loss, cross_entropy(P.log(), TARGET).mean(), rtol=0, atol=0)


def test_on_average_over_the_noise_it_is_the_loss_of_the_true_class() -> None:
    generator = torch.Generator().manual_seed(0)
    transition = torch.rand(4, 4, generator=generator, dtype=torch.float64) + 2 * torch.eye(4)
    transition /= transition.sum(1, keepdim=True)
    log_p = torch.randn(1, 4, generator=generator, dtype=torch.float64).log_softmax(1)
    labels = torch.arange(4)
    inverse = torch.linalg.inv(transition)
    corrected = backward_losses(log_p.expand(4, 4), labels, inverse, 1e-7)
    for true_class in range(4):
        mean = sum(float(transition[true_class, label] * corrected[label]) for label in range(4))
        assert mean == pytest.approx(-float(log_p[0, true_class]))
    assert (corrected - -log_p[0]).abs().max() > 0.1  # and it is not the loss of the label


def test_the_loss_has_a_bound() -> None:
    inverse = torch.tensor(INVERSE)
    log_p = torch.tensor([[0.0, -1000.0, -1000.0]], requires_grad=True)
    loss = backward_losses(log_p, torch.tensor([0]), inverse, 1e-7)
    assert float(loss.detach()) == pytest.approx(math.log(1e-7), rel=1e-5)  # 2 * 0 - 1 * 16.1
    loss.sum().backward()
    assert log_p.grad.tolist() == [[-2.0, 0.0, 0.0]]  # nothing to gain from less than 1e-7
    loss = backward_losses(log_p, torch.tensor([0]), inverse, 0.01)
    assert float(loss.detach()) == pytest.approx(math.log(0.01))


def test_a_singular_matrix_is_refused() -> None:
    for singular in (((0.5, 0.5, 0.0), (0.5, 0.5, 0.0), (0.0, 0.0, 1.0)), ((1 / 3,) * 3,) * 3):
        with pytest.raises(ValueError, match="can be inverted, but this one has a condition"):
            backward(transition=singular)
    with pytest.raises(ValueError, match="can be inverted"):
        backward(noise_rate=2 / 3 - 1e-8)
    with pytest.raises(ValueError, match="above 0 and below 1"):
        backward(smallest_probability=0.0)


def test_an_estimate_is_mixed_with_as_little_of_the_identity_as_it_takes() -> None:
    fine = torch.tensor(T, dtype=torch.float64)
    assert torch.equal(invertible(fine), fine)
    # (1 - a) / C + a I has the eigenvalues 1 and a: a condition number of 1 / a
    nothing_known = torch.full((3, 3), 1 / 3, dtype=torch.float64)
    mixed = invertible(nothing_known, largest_condition=19.9)
    torch.testing.assert_close(mixed, 0.94 * nothing_known + 0.06 * torch.eye(3).double())


def test_an_estimated_matrix_is_inverted_from_the_next_epoch_on() -> None:
    probabilities = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3]])
    criterion = backward(anchor_percentile=100.0)
    criterion.set_epoch(1)
    criterion(probabilities.log(), TARGET, INDEX)
    assert torch.equal(criterion.inverse, torch.eye(3).double())
    criterion.set_epoch(2)
    # the third class is the likeliest in the second row: T is singular, and mixed
    rows = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.3, 0.4, 0.3]]).double()
    assert float(torch.linalg.cond(criterion.transition)) <= 100
    torch.testing.assert_close(criterion.transition, invertible(rows), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(criterion.inverse @ criterion.transition, torch.eye(3).double())
    loss = criterion(probabilities.log(), TARGET, INDEX)
    expected = (criterion.inverse.float()[TARGET] * -probabilities.log()).sum(1).mean()
    torch.testing.assert_close(loss, expected)
