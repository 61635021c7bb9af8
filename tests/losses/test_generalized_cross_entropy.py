"""Generalized cross-entropy against values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from discrimloss.losses import GeneralizedCrossEntropy
from discrimloss.losses.base import cross_entropy
from discrimloss.losses.generalized_cross_entropy import generalized_cross_entropy

INPUTS = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
TARGET = torch.tensor([0, 0, 1])
INDEX = torch.arange(3)
# p_y: 1 / (1 + e^-2), 1 / (1 + e), 1 / 2; to the power of 0.7; (1 - p_y^0.7) / 0.7
PREDICTIONS = torch.tensor([0.8807970780, 0.2689414214, 0.5])
POWERS = torch.tensor([0.9149831696, 0.3988048094, 0.6155722067])
EXPECTED = torch.tensor([0.1214526148, 0.8588502723, 0.5491825619])
LOSS_AT_THRESHOLD = 0.5491825619  # of p_y = 1 / 2


def gce(epochs: int = 24, **options: Any) -> GeneralizedCrossEntropy:
    return GeneralizedCrossEntropy(num_samples=3, epochs=epochs, **options)


def step(
    criterion: GeneralizedCrossEntropy, inputs: Tensor = INPUTS, index: Tensor = INDEX
) -> tuple[Tensor, Tensor]:
    """The loss, and its gradient in the logits."""
    logits = inputs.clone().requires_grad_()
    loss = criterion(logits, TARGET[index], index)
    loss.backward()
    assert logits.grad is not None
    return loss.detach(), logits.grad


def gradient_of_weighted_cross_entropy(weights: Tensor) -> Tensor:
    logits = INPUTS.clone().requires_grad_()
    (weights * cross_entropy(logits, TARGET)).mean().backward()
    assert logits.grad is not None
    return logits.grad


def test_loss_and_gradient() -> None:
    loss, gradient = step(gce())
    torch.testing.assert_close(loss, EXPECTED.mean(), rtol=1e-6, atol=0.0)
    # d L_q / d log p_y = -p_y^q: cross-entropy's gradient, so weighted
    torch.testing.assert_close(gradient, gradient_of_weighted_cross_entropy(POWERS))


def test_between_cross_entropy_and_absolute_error() -> None:
    losses = -PREDICTIONS.double().log()
    torch.testing.assert_close(generalized_cross_entropy(losses, 1e-9), losses, rtol=1e-7, atol=0.0)
    torch.testing.assert_close(generalized_cross_entropy(losses, 1.0), 1.0 - PREDICTIONS.double())


def test_an_impossible_label_has_a_finite_gradient() -> None:
    criterion = gce()
    criterion.set_epoch(1)
    certain = torch.tensor([[-300.0, 300.0]])
    loss, gradient = step(criterion, certain, torch.tensor([0]))  # p_y is 0 in single precision
    assert float(loss) == pytest.approx(1 / 0.7)
    assert gradient.tolist() == [[0.0, 0.0]]


def test_the_score_is_the_mean_over_visits() -> None:
    criterion = gce()
    criterion.set_epoch(1)
    step(criterion, INPUTS[:2], INDEX[:2])
    step(criterion, torch.zeros(1, 2), torch.tensor([1]))
    scores = criterion.sample_scores()
    assert scores is not None
    half = 0.6155722067  # 0.5^0.7
    assert scores[0].item() == pytest.approx(1 - 0.9149831696)
    assert scores[1].item() == pytest.approx(1 - (0.3988048094 + half) / 2)
    assert scores[2].isnan()


def test_truncation_by_the_schedule() -> None:
    # 24 epochs: the first decision at a third, in epoch 8, then every twelfth, 2 of them.
    criterion = gce(truncated=True)
    confident = 4.0 * torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # of every label
    kept = []
    for epoch in range(1, 15):
        criterion.set_epoch(epoch)
        kept.append(criterion.is_kept.tolist())
        # Until epoch 8 p_y are PREDICTIONS; 0.5 is not above the threshold. Then all are high,
        # which the next decision takes up.
        step(criterion, INPUTS if epoch < 8 else confident)
    everything, first_only = [True, True, True], [True, False, False]
    assert kept == [everything] * 7 + [first_only] * 2 + [everything] * 5


def test_what_is_left_out_has_a_constant_loss_and_no_gradient() -> None:
    criterion = gce(truncated=True)
    criterion.set_epoch(1)
    loss, gradient = step(criterion)
    torch.testing.assert_close(loss, EXPECTED.mean())
    torch.testing.assert_close(gradient, gradient_of_weighted_cross_entropy(POWERS))

    criterion.set_epoch(8)
    loss, gradient = step(criterion)
    expected = (float(EXPECTED[0]) + 2 * LOSS_AT_THRESHOLD) / 3
    assert float(loss) == pytest.approx(expected)
    only_first = POWERS * torch.tensor([1.0, 0.0, 0.0])
    torch.testing.assert_close(gradient, gradient_of_weighted_cross_entropy(only_first))
    assert criterion.log_values() == {"left_out": pytest.approx(2 / 3)}


def test_a_resumed_epoch_does_not_decide_again() -> None:
    criterion = gce(truncated=True)
    criterion.set_epoch(7)
    step(criterion)
    criterion.set_epoch(8)
    decided = criterion.is_kept.clone()
    step(criterion, -INPUTS)  # other answers: p_y of 0.12, 0.73 and 0.5
    resumed = gce(truncated=True)
    resumed.load_state_dict(criterion.state_dict())
    resumed.set_epoch(8)
    assert torch.equal(resumed.is_kept, decided)
    resumed.set_epoch(10)
    assert resumed.is_kept.tolist() == [False, True, False]


def test_an_unseen_sample_is_kept_and_a_double_one_counts_with_its_lower_answer() -> None:
    criterion = gce(truncated=True)
    criterion.set_epoch(7)
    inputs = torch.tensor([[3.0, 0.0], [0.0, 3.0], [3.0, 0.0]])
    criterion(inputs, TARGET[[0, 0, 1]], torch.tensor([0, 0, 1]))
    assert float(criterion.predictions[0]) == pytest.approx(1 / (1 + math.exp(3.0)))
    criterion.set_epoch(8)
    assert criterion.is_kept.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"exponent": 0.0}, "exponent"),
        ({"exponent": 1.1}, "exponent"),
        ({"exponent": math.nan}, "exponent"),
        ({"truncation_threshold": 0.0}, "truncation_threshold"),
        ({"truncation_threshold": 1.0}, "truncation_threshold"),
        ({"first_truncation": 1.5}, "first_truncation"),
        ({"truncation_interval": 0.0}, "truncation_interval"),
    ],
)
def test_refused(options: dict[str, float], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        gce(**options)


@pytest.mark.parametrize("known", [{}, {"num_samples": 3}, {"epochs": 9}])
def test_the_truncated_form_needs_the_size_and_the_length(known: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="the truncated form needs num_samples and epochs"):
        GeneralizedCrossEntropy(**known, truncated=True)


def test_hyperparameters() -> None:
    assert gce().hyperparameters() == {"exponent": 0.7, "truncated": False}
    assert gce(epochs=120, truncated=True).hyperparameters() == {
        "exponent": 0.7,
        "truncated": True,
        "truncation_threshold": 0.5,
        "first_truncated_epoch": 40,
        "truncation_interval_epochs": 10,
    }
