"""Forward correction, and the transition matrix that it shares with backward correction."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discrimloss.losses import ForwardCorrection
from discrimloss.losses.base import cross_entropy, loss_classes
from discrimloss.losses.transition import (
    anchor_transition,
    log_label_probability,
    symmetric_transition,
)
from discrimloss.options import check_options

T = ((0.7, 0.2, 0.1), (0.0, 0.6, 0.4), (0.1, 0.1, 0.8))
P = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.2, 0.7, 0.1], [0.25, 0.5, 0.25]])
TARGET = torch.tensor([0, 2, 1, 0])
INDEX = torch.arange(4)
# (T^T p)_y: 0.7 * 0.5 + 0 * 0.3 + 0.1 * 0.2; 0.1 * 0.1 + 0.4 * 0.1 + 0.8 * 0.8;
# 0.2 * 0.2 + 0.6 * 0.7 + 0.1 * 0.1; 0.7 * 0.25 + 0 * 0.5 + 0.1 * 0.25
LABEL_PROBABILITY = [0.37, 0.69, 0.47, 0.2]
# 1 - T_yy p_y over it: 0.35, 0.64, 0.42 and 0.175 are from the class that the label says
DISTRUST = [1 - 0.35 / 0.37, 1 - 0.64 / 0.69, 1 - 0.42 / 0.47, 1 - 0.175 / 0.2]


def forward(target: Tensor = TARGET, epochs: int = 4, **options: Any) -> ForwardCorrection:
    criterion = ForwardCorrection(len(target), num_classes=3, epochs=epochs, **options)
    criterion.set_targets(target)
    return criterion


def test_losses_by_hand() -> None:
    criterion = forward(transition=T, reduction="none")
    losses = criterion(P.log(), TARGET, INDEX)
    torch.testing.assert_close(losses, -torch.tensor(LABEL_PROBABILITY).log())
    torch.testing.assert_close(criterion.sample_scores(), torch.tensor(DISTRUST))


def test_the_gradient_by_hand() -> None:
    logits = P[:1].log().requires_grad_()
    forward(transition=T)(logits, TARGET[:1], INDEX[:1]).backward()
    # d/dz of -log(sum_i p_i T_i0) is p - posterior, with posterior_i = p_i T_i0 / 0.37
    expected = torch.tensor([0.5 - 0.35 / 0.37, 0.3, 0.2 - 0.02 / 0.37])
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad[0], expected)


@pytest.mark.parametrize(
    "options", [{"transition": ((1, 0, 0), (0, 1, 0), (0, 0, 1))}, {"noise_rate": 0.0}]
)
def test_without_noise_it_is_plain(options: dict[str, Any]) -> None:
    criterion = forward(**options)
    loss = criterion(P.log(), TARGET, INDEX)
    torch.testing.assert_close(loss, cross_entropy(P.log(), TARGET).mean(), rtol=0, atol=0)
    torch.testing.assert_close(criterion.sample_scores(), torch.zeros(4))


def test_a_label_that_the_network_rules_out_has_a_finite_loss() -> None:
    log_p = torch.tensor([[0.0, -400.0, -400.0]], requires_grad=True)
    only_from_the_second = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    loss = -log_label_probability(log_p, torch.tensor([1]), only_from_the_second)
    assert float(loss.detach()) == pytest.approx(400 + math.log(2))
    loss.sum().backward()
    assert log_p.grad.tolist() == [[0.0, -1.0, 0.0]]


def test_symmetric_noise() -> None:
    criterion = forward(noise_rate=0.3)
    expected = [[0.7, 0.15, 0.15], [0.15, 0.7, 0.15], [0.15, 0.15, 0.7]]
    torch.testing.assert_close(criterion.transition, torch.tensor(expected, dtype=torch.float64))
    assert criterion.hyperparameters()["transition_source"] == "noise_rate"
    assert criterion.hyperparameters()["noise_rate"] == pytest.approx(0.3)
    assert criterion.log_values() == {"mean_diagonal": pytest.approx(0.7)}
    with pytest.raises(ValueError, match=r"noise_rate must be at least 0 and below 0.6667"):
        symmetric_transition(3, 0.67)


# Ten samples of three labels; the likeliest of a class is an outlier that is too sure.
PREDICTED = torch.tensor(
    [
        [0.99, 0.01, 0.00],
        [0.70, 0.20, 0.10],
        [0.60, 0.30, 0.10],
        [0.02, 0.97, 0.01],
        [0.20, 0.60, 0.20],
        [0.30, 0.40, 0.30],
        [0.01, 0.01, 0.98],
        [0.10, 0.10, 0.80],
        [0.25, 0.05, 0.70],
        [0.00, 0.00, 0.00],  # not seen
    ]
)
COUNTS = torch.tensor([3, 3, 4])


def test_anchors_are_the_likeliest_samples() -> None:
    floor = 1e-7  # in place of the 0, so that no label is impossible
    expected = torch.tensor([[0.99, 0.01, floor], [0.02, 0.97, 0.01], [0.01, 0.01, 0.98]])
    estimate = anchor_transition(PREDICTED, COUNTS, 100.0)
    torch.testing.assert_close(estimate.float(), expected, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(estimate.sum(1), torch.ones(3, dtype=torch.float64))


def test_a_percentile_passes_over_outliers() -> None:
    # a tenth of the nine seen: one is passed over
    expected = torch.tensor([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])
    estimate = anchor_transition(PREDICTED, COUNTS, 90.0)
    torch.testing.assert_close(estimate.float(), expected)
    # two: more than half of the first two classes, but not of the third
    expected = torch.tensor([[0.99, 0.01, 1e-7], [0.02, 0.97, 0.01], [0.25, 0.05, 0.7]])
    estimate = anchor_transition(PREDICTED, COUNTS, 78.0)
    torch.testing.assert_close(estimate.float(), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("are_labels_given", [True, False])
def test_the_matrix_is_estimated_once_after_the_warm_up(are_labels_given: bool) -> None:
    target = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    predicted = PREDICTED[:9].clamp(min=1e-7)
    criterion = ForwardCorrection(9, 3, epochs=10, anchor_percentile=100.0)
    if are_labels_given:
        criterion.set_targets(target)
    assert criterion.hyperparameters()["warm_up_epochs"] == 2  # 15 % of 10, rounded up
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        assert criterion.hyperparameters()["transition"] is None
        logits = predicted.log() * (0.5 if epoch == 1 else 1.0)  # only the last epoch counts
        for rows in torch.arange(9).split(4):
            loss = criterion(logits[rows], target[rows], rows)
            assert torch.equal(loss, cross_entropy(logits[rows], target[rows]).mean())  # plain
    scores = criterion.sample_scores()
    assert scores is not None
    assert scores.isnan().all()
    assert criterion.log_values() == {"mean_diagonal": 1.0}

    criterion.set_epoch(3)
    values = criterion.hyperparameters()
    json.dumps(values, allow_nan=False)
    assert values["transition_source"] == "estimated"
    expected = anchor_transition(predicted, torch.tensor([3, 3, 3]), 100.0)
    torch.testing.assert_close(torch.tensor(values["transition"], dtype=torch.float64), expected)
    loss = criterion(predicted.log(), target, torch.arange(9))
    noisy = (predicted.double() / predicted.double().sum(1, keepdim=True)) @ expected
    expected_loss = -noisy.gather(1, target[:, None]).log().mean()
    torch.testing.assert_close(loss, expected_loss.float())

    criterion.probabilities.fill_(1 / 3)
    for epoch in (3, 4):  # resumed, and the next
        criterion.set_epoch(epoch)
        assert criterion.hyperparameters() == values


def test_wrong_labels_are_distrusted_most() -> None:
    generator = torch.Generator().manual_seed(0)
    clean = torch.arange(60) % 3
    target = clean.clone()
    target[:12] = (clean[:12] + 1) % 3
    inputs = torch.eye(3)[clean] + 0.2 * torch.randn(60, 3, generator=generator)
    torch.manual_seed(0)
    network = nn.Linear(3, 3)
    criterion = forward(target, epochs=12, noise_rate=0.2)
    optimizer = torch.optim.SGD(network.parameters(), 3.0)
    for epoch in range(1, 13):
        criterion.set_epoch(epoch)
        criterion(network(inputs), target, torch.arange(60)).backward()
        optimizer.step()
        optimizer.zero_grad()
    scores = criterion.sample_scores()
    assert scores is not None
    assert scores[:12].mean() > 3 * scores[12:].mean()
    assert scores[:12].min() > scores[12:].quantile(0.9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transition": ((1.0, 0.0), (0.0, 1.0))}, "3 rows of 3 numbers"),
        ({"transition": ((1.0, 0.0), (0, 1, 0), (0, 0, 1))}, "3 rows of 3 numbers"),
        ({"transition": ((0.5, 0.4, 0.0), (0, 1, 0), (0, 0, 1))}, "probabilities that sum to 1"),
        ({"transition": ((1.5, -0.5, 0.0), (0, 1, 0), (0, 0, 1))}, "must contain probabilities"),
        (
            {"transition": ((1, 0, 0), (1, 0, 0), (0, 0, 1))},
            "samples have this label|can be inverted",
        ),
        ({"transition": T, "noise_rate": 0.1}, "pass only one of them"),
        ({"noise_rate": -0.1}, "noise_rate must be"),
        ({"noise_rate": 0.67}, "carry no information"),
        ({"anchor_percentile": 0.0}, "above 0 and at most 100"),
        ({"anchor_percentile": 101.0}, "above 0 and at most 100"),
        ({"warm_up_epochs": 0}, "1 or more"),
    ],
)
@pytest.mark.parametrize("name", ["forward", "backward"])
def test_options_refused(name: str, options: dict[str, Any], message: str) -> None:
    loss_class: Any = loss_classes.get(name)
    with pytest.raises(ValueError, match=message):
        loss_class(4, 3, 4, **options).set_targets(TARGET)


def test_a_label_that_never_occurs_may_be_impossible() -> None:
    impossible_one = ((0.5, 0.0, 0.5), (0.5, 0.0, 0.5), (0.0, 0.0, 1.0))
    forward(torch.tensor([0, 2, 0, 2]), transition=impossible_one)


def test_an_estimate_needs_the_length_of_the_run() -> None:
    with pytest.raises(ValueError, match="pass epochs"):
        ForwardCorrection(4, 3)
    assert ForwardCorrection(4, 3, noise_rate=0.1).warm_up_epochs == 0


def test_a_matrix_can_be_written_in_a_file() -> None:
    rows = [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]
    options = ForwardCorrection.options()
    checked = check_options(options, {"transition": rows}, "options", "forward")
    assert checked["transition"] == ((1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.0, 0.0, 1.0))
