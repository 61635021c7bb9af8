"""SOP against plain numbers: the loss, and the steps of both noise terms by hand."""

from __future__ import annotations

import math

import pytest
import torch

from discrimloss.losses import SparseOverParameterization


def test_a_step_by_hand() -> None:
    criterion = SparseOverParameterization(2, 2, u_lr=0.5, v_lr=0.25)
    criterion.u.fill_(0.4)
    criterion.v.fill_(0.3)
    p = 0.3  # of the label, 0; the network predicts 1
    logits = torch.tensor([[p, 1 - p]], dtype=torch.float64).log().requires_grad_()
    loss = criterion(logits, torch.tensor([0]), torch.tensor([1]))

    u, v = 0.4, 0.3
    label, other = p + u**2, (1 - p) - v**2
    cross_entropy = -math.log(label / (label + other))
    # One-hot prediction (0, 1) with the terms, minus the label (1, 0): (u^2 - 1, 1 - v^2)
    error = (u**2 - 1) ** 2 + (1 - v**2) ** 2
    assert float(loss.detach()) == pytest.approx(cross_entropy + error)

    u_slope = 2 * u * (-1 / label + 1 / (label + other)) + 4 * u * (u**2 - 1)
    v_slope = -4 * v * (1 - v**2)  # the cross-entropy counts v as a constant
    assert float(criterion.u[1]) == pytest.approx(u - 0.5 * u_slope)
    assert float(criterion.v[1, 1]) == pytest.approx(v - 0.25 * v_slope)
    assert criterion.v[1, 0] == 0.3  # not for the label's own class
    assert criterion.u[0] == 0.4  # not in the batch
    assert criterion.sample_scores().isnan().tolist() == [True, False]

    loss.backward()
    assert logits.grad is not None
    slope = -1 / label + 1 / (label + other)  # of the label's probability; the other's is 1 / sum
    expected = p * (1 - p) * (slope - 1 / (label + other))
    assert logits.grad[0].tolist() == pytest.approx([expected, -expected])


def test_a_step_goes_with_one_over_the_batch_size() -> None:
    logits = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    steps = []
    for rows in (1, 2):
        criterion = SparseOverParameterization(2, 2)
        criterion.u.fill_(0.4)
        criterion.v.fill_(0.3)
        criterion(logits.expand(rows, 2), torch.zeros(rows, dtype=torch.int64), torch.arange(rows))
        steps.append((0.4 - float(criterion.u[0]), 0.3 - float(criterion.v[0, 1])))
    assert steps[0] == pytest.approx([2 * step for step in steps[1]])


def test_the_term_of_a_contradicted_label_grows() -> None:
    criterion = SparseOverParameterization(2, 2, u_lr=1.0)
    logits = torch.tensor([[4.0, 0.0], [4.0, 0.0]])
    for _ in range(60):
        criterion(logits, torch.tensor([0, 1]), torch.tensor([0, 1]))
    right, wrong = criterion.sample_scores().tolist()
    assert right < 1e-6
    assert wrong > 0.9


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="u_lr and v_lr must be finite and at least 0"):
        SparseOverParameterization(2, 2, v_lr=-1.0)
