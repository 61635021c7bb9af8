"""Forward correction, and the transition matrix that it shares with backward correction."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discrimloss.options import check_options
from discrimloss.training.methods.base import Batch, Setting, methods
from discrimloss.training.methods.forward import ForwardCorrection
from discrimloss.training.methods.transition import (
    anchor_transition,
    log_label_probability,
    symmetric_transition,
)
from discrimloss.training.task_losses import cross_entropy, mse

T = ((0.7, 0.2, 0.1), (0.0, 0.6, 0.4), (0.1, 0.1, 0.8))
P = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.2, 0.7, 0.1], [0.25, 0.5, 0.25]])
TARGET = torch.tensor([0, 2, 1, 0])
INDEX = torch.arange(4)
# (T^T p)_y: 0.7 * 0.5 + 0 * 0.3 + 0.1 * 0.2; 0.1 * 0.1 + 0.4 * 0.1 + 0.8 * 0.8;
# 0.2 * 0.2 + 0.6 * 0.7 + 0.1 * 0.1; 0.7 * 0.25 + 0 * 0.5 + 0.1 * 0.25
LABEL_PROBABILITY = [0.37, 0.69, 0.47, 0.2]
# 1 - T_yy p_y over it: 0.35, 0.64, 0.42 and 0.175 are from the class that the label says
DISTRUST = [1 - 0.35 / 0.37, 1 - 0.64 / 0.69, 1 - 0.42 / 0.47, 1 - 0.175 / 0.2]


class Answer(nn.Module):
    """Says of each class what a table of log-probabilities says, which can be learnt."""

    def __init__(self, log_probabilities: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(log_probabilities.clone())

    def forward(self, index: Tensor) -> Tensor:
        return self.table[index]


def setting(probabilities: Tensor = P, target: Tensor = TARGET, **others: Any) -> Setting:
    return Setting(
        **{
            "build_network": lambda: Answer(probabilities.log()),
            "task_losses": cross_entropy,
            "num_samples": len(target),
            "num_classes": 3,
            "epochs": 4,
            "target": target,
            **others,
        }
    )


def test_losses_by_hand() -> None:
    method = ForwardCorrection(setting(), transition=T)
    method.begin_epoch(1)
    result = method(Batch(INDEX, TARGET, INDEX))
    expected = -torch.tensor(LABEL_PROBABILITY).log()
    torch.testing.assert_close(result.loss, expected.mean())
    # the records are of the task loss
    torch.testing.assert_close(result.losses, -torch.tensor([0.5, 0.8, 0.7, 0.25]).log())
    torch.testing.assert_close(method.sample_scores(), torch.tensor(DISTRUST))


def test_the_gradient_by_hand() -> None:
    method = ForwardCorrection(setting(), transition=T)
    method.begin_epoch(1)
    method(Batch(INDEX[:1], TARGET[:1], INDEX[:1])).loss.backward()
    # d/dz of -log(sum_i p_i T_i0) is p - posterior, with posterior_i = p_i T_i0 / 0.37
    expected = torch.tensor([0.5 - 0.35 / 0.37, 0.3, 0.2 - 0.02 / 0.37])
    torch.testing.assert_close(method.networks[0].table.grad[0], expected)


@pytest.mark.parametrize(
    "options", [{"transition": ((1, 0, 0), (0, 1, 0), (0, 0, 1))}, {"noise_rate": 0.0}]
)
def test_without_noise_it_is_plain(options: dict[str, Any]) -> None:
    method = ForwardCorrection(setting(), **options)
    method.begin_epoch(1)
    result = method(Batch(INDEX, TARGET, INDEX))
    torch.testing.assert_close(result.loss, result.losses.mean(), rtol=0, atol=0)
    torch.testing.assert_close(method.sample_scores(), torch.zeros(4))


def test_a_label_that_the_network_rules_out_has_a_finite_loss() -> None:
    log_p = torch.tensor([[0.0, -400.0, -400.0]], requires_grad=True)
    only_from_the_second = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    loss = -log_label_probability(log_p, torch.tensor([1]), only_from_the_second)
    assert float(loss.detach()) == pytest.approx(400 + math.log(2))
    loss.sum().backward()
    assert log_p.grad.tolist() == [[0.0, -1.0, 0.0]]


def test_symmetric_noise() -> None:
    method = ForwardCorrection(setting(), noise_rate=0.3)
    expected = [[0.7, 0.15, 0.15], [0.15, 0.7, 0.15], [0.15, 0.15, 0.7]]
    torch.testing.assert_close(method.transition, torch.tensor(expected, dtype=torch.float64))
    assert method.hyperparameters()["transition_source"] == "noise_rate"
    assert method.log_values() == {"mean_diagonal": pytest.approx(0.7)}
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


def test_the_matrix_is_estimated_once_after_the_warm_up() -> None:
    others = {"num_samples": 9, "epochs": 10}
    target = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    predicted = PREDICTED[:9].clamp(min=1e-7)
    method = ForwardCorrection(setting(predicted, target, **others), anchor_percentile=100.0)
    assert method.hyperparameters()["warm_up_epochs"] == 2  # 15 % of 10, rounded up
    for epoch in (1, 2):
        method.begin_epoch(epoch)
        assert method.hyperparameters()["transition"] is None
        with torch.no_grad():  # only the last epoch counts
            method.networks[0].table.copy_(predicted.log() * (0.5 if epoch == 1 else 1.0))
        for rows in torch.arange(9).split(4):
            result = method(Batch(rows, target[rows], rows))
            assert torch.equal(result.loss.detach(), result.losses.mean())  # plain
    assert method.sample_scores().isnan().all()
    assert method.log_values() == {"mean_diagonal": 1.0}

    method.begin_epoch(3)
    said = method.hyperparameters()
    json.dumps(said, allow_nan=False)
    assert said["transition_source"] == "estimated"
    expected = anchor_transition(predicted, torch.tensor([3, 3, 3]), 100.0)
    torch.testing.assert_close(torch.tensor(said["transition"], dtype=torch.float64), expected)
    result = method(Batch(torch.arange(9), target, torch.arange(9)))
    noisy = (predicted.double() / predicted.double().sum(1, keepdim=True)) @ expected
    expected_loss = -noisy.gather(1, target[:, None]).log().mean()
    torch.testing.assert_close(result.loss.detach(), expected_loss.float())

    with torch.no_grad():
        method.networks[0].table.zero_()
        method.probabilities.fill_(1 / 3)
    for epoch in (3, 4):  # resumed, and the next
        method.begin_epoch(epoch)
        assert method.hyperparameters() == said


def test_wrong_labels_are_distrusted_most() -> None:
    generator = torch.Generator().manual_seed(0)
    clean = torch.arange(60) % 3
    target = clean.clone()
    target[:12] = (clean[:12] + 1) % 3
    inputs = torch.eye(3)[clean] + 0.2 * torch.randn(60, 3, generator=generator)
    torch.manual_seed(0)
    others = {"num_samples": 60, "build_network": lambda: nn.Linear(3, 3), "epochs": 12}
    method = ForwardCorrection(setting(target=target, **others), noise_rate=0.2)
    optimizer = torch.optim.SGD(method.trainable_parameters(), 3.0)
    for epoch in range(1, 13):
        method.begin_epoch(epoch)
        method(Batch(inputs, target, torch.arange(60))).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    scores = method.sample_scores()
    assert scores[:12].mean() > 3 * scores[12:].mean()
    assert scores[:12].min() > scores[12:].quantile(0.9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transition": ((1.0, 0.0), (0.0, 1.0))}, "3 rows of 3 numbers"),
        ({"transition": ((1.0, 0.0), (0, 1, 0), (0, 0, 1))}, "3 rows of 3 numbers"),
        ({"transition": ((0.5, 0.4, 0.0), (0, 1, 0), (0, 0, 1))}, "each adding up to 1"),
        ({"transition": ((1.5, -0.5, 0.0), (0, 1, 0), (0, 0, 1))}, "must be probabilities"),
        ({"transition": ((1, 0, 0), (1, 0, 0), (0, 0, 1))}, "no class is ever labelled 1"),
        ({"transition": T, "noise_rate": 0.1}, "give one of them"),
        ({"noise_rate": -0.1}, "noise_rate must be"),
        ({"noise_rate": 0.67}, "say nothing any more"),
        ({"anchor_percentile": 0.0}, "above 0 and at most 100"),
        ({"anchor_percentile": 101.0}, "above 0 and at most 100"),
        ({"warm_up_epochs": 0}, "1 or more"),
    ],
)
@pytest.mark.parametrize("name", ["forward", "backward"])
def test_options_refused(name: str, options: dict[str, Any], message: str) -> None:
    def nothing() -> nn.Module:
        raise AssertionError("built before the options were looked at")

    with pytest.raises(ValueError, match=message):
        methods.get(name)(setting(build_network=nothing), **options)


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_a_regression_is_refused(name: str) -> None:
    regression = setting(task_losses=mse, num_classes=None, target=torch.zeros(4))
    with pytest.raises(ValueError, match=f"'{name}' does not fit a regression"):
        methods.get(name)(regression)


def test_a_matrix_can_be_written_in_a_file() -> None:
    rows = [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]
    checked = check_options(methods.options("forward"), {"transition": rows}, "options", "forward")
    assert checked["transition"] == ((1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.0, 0.0, 1.0))
