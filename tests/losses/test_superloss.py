"""SuperLoss against values worked out by hand, a search for the best confidence, and a loop."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from flat_network import Flat
from scipy.special import lambertw
from torch import Tensor, nn

from discrimloss.losses import SuperLoss
from discrimloss.losses.base import TaskLoss, cross_entropy
from discrimloss.losses.superloss import log_confidences, super_losses

LOG_2 = math.log(2.0)
NUM_SAMPLES, CLASSES, EPOCHS = 12, 3, 3


def best_values(losses: Tensor, tau: float, regularization: float) -> Tensor:
    log_confidence = log_confidences(losses, tau, regularization)
    return super_losses(losses, log_confidence, tau, regularization)


# beta / 2 = w exp(w) for a w of our choice: sigma = exp(-w), SL = lambda (2 w + w^2).
BY_HAND = [
    # beta, log sigma, SL / lambda
    (0.0, 0.0, 0.0),
    (2.0 * math.e, -1.0, 3.0),  # w = 1
    (4.0 * math.exp(2.0), -2.0, 8.0),  # w = 2
    (-LOG_2, LOG_2, LOG_2**2 - 2.0 * LOG_2),  # w = -log 2
    (-2.0 / math.e, 1.0, -1.0),  # w = -1, where the clamp begins
    (-5.0, 1.0, 1.0 - 5.0 * math.e),  # clamped
]


@pytest.mark.parametrize(("tau", "regularization"), [(0.0, 1.0), (2.5, 0.25), (1.2, 3.0)])
@pytest.mark.parametrize(("beta", "log_confidence", "value"), BY_HAND)
def test_values_by_hand(
    tau: float, regularization: float, beta: float, log_confidence: float, value: float
) -> None:
    losses = torch.tensor([tau + regularization * beta], dtype=torch.float64)
    found = log_confidences(losses, tau, regularization)
    # Next to the branch point W follows the square root of what rounding leaves of beta.
    assert found.item() == pytest.approx(log_confidence, abs=1e-7)
    value_found = super_losses(losses, found, tau, regularization).item()
    assert value_found == pytest.approx(regularization * value, abs=1e-7)


@pytest.mark.parametrize("loss", [1.9, 2.2, 2.5, 4.0, 9.0, 60.0])
def test_no_other_confidence_is_better(loss: float) -> None:
    losses = torch.tensor([loss], dtype=torch.float64)
    others = torch.linspace(-6.0, 1.0, 5001, dtype=torch.float64)
    searched = super_losses(losses, others, 2.3, 0.6)
    assert best_values(losses, 2.3, 0.6).item() == pytest.approx(searched.min().item(), abs=1e-5)
    assert log_confidences(losses, 2.3, 0.6).item() == pytest.approx(
        others[searched.argmin()].item(), abs=2e-3
    )


def test_the_gradient_is_that_of_the_whole_value() -> None:
    tau, regularization, step = 2.3, 0.7, 1e-6
    clamp = tau - 2.0 * regularization / math.e
    points = torch.tensor([0.0, 1.0, clamp - 0.01, clamp + 0.01, 2.3, 3.0, 7.0, 40.0])
    losses = points.double().requires_grad_()
    best_values(losses, tau, regularization).sum().backward()
    with torch.no_grad():
        above, below = (best_values(losses + d, tau, regularization) for d in (step, -step))
    torch.testing.assert_close(losses.grad, (above - below) / (2 * step), rtol=1e-6, atol=1e-6)
    assert losses.grad is not None
    assert losses.grad[:3].tolist() == pytest.approx([math.e] * 3)
    assert (losses.grad[1:] - losses.grad[:-1] <= 0).all()  # the larger, the less it counts


# The module, step by step.


def task(regression: bool) -> tuple[nn.Module, TaskLoss, Tensor, int | None]:
    """A network, its task loss, the targets and the number of classes."""
    generator = torch.Generator().manual_seed(2)
    torch.manual_seed(0)
    if regression:
        target = 30.0 * torch.randn(NUM_SAMPLES, generator=generator)
        return Flat(), nn.MSELoss(reduction="none"), target, None
    target = torch.randint(CLASSES, (NUM_SAMPLES,), generator=generator)
    return nn.Linear(4, CLASSES), cross_entropy, target, CLASSES


def of_losses(losses: Tensor, criterion: SuperLoss) -> Tensor:
    """SuperLoss where the predictions are the task losses."""
    values: Tensor = criterion(losses, torch.zeros(len(losses)))
    return values


def super_loss(num_classes: int | None = None, **options: Any) -> SuperLoss:
    return SuperLoss(
        num_classes=num_classes, task_loss=lambda losses, _: losses, reduction="none", **options
    )


def naive_confidence(loss: float, tau: float, regularization: float) -> float:
    beta = (loss - tau) / regularization
    return math.exp(-lambertw(max(-2.0 / math.e + 1e-15, beta) / 2.0).real)


@pytest.mark.parametrize(
    ("options", "regression"),
    [
        ({}, False),
        ({"confidence_threshold": "ema", "confidence_regularization": 0.25}, False),
        ({"confidence_threshold": "mean"}, False),
        ({"confidence_threshold": 0.9, "confidence_regularization": 2.0}, False),
        ({}, True),
        ({"confidence_threshold": "mean", "confidence_regularization": 300.0}, True),
        ({"confidence_threshold": 500.0}, True),
    ],
)
def test_steps_by_a_loop(options: dict[str, Any], regression: bool) -> None:
    network, task_loss, target, num_classes = task(regression)
    criterion = SuperLoss(NUM_SAMPLES, num_classes, task_loss=task_loss, **options)
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(NUM_SAMPLES, 4, generator=generator)
    tau_option = options.get("confidence_threshold", "ema" if regression else "log_classes")
    tau = tau_option if isinstance(tau_option, float) else math.log(CLASSES)
    seen: list[float] = []
    distrust: list[list[float]] = [[] for _ in range(NUM_SAMPLES)]
    for epoch in range(1, EPOCHS + 1):
        criterion.set_epoch(epoch)
        for index in torch.randperm(NUM_SAMPLES, generator=generator).split(5):
            losses = task_loss(network(inputs[index]), target[index])
            batch = losses.tolist()
            mean = sum(batch) / len(batch)
            if tau_option == "ema":
                tau = 0.9 * tau + 0.1 * mean if seen else mean
            seen += batch
            if tau_option == "mean":
                tau = sum(seen) / len(seen)
            relative = tau / math.log(10.0) if regression else 1.0
            weight = options.get("confidence_regularization", relative)
            confidences = [naive_confidence(loss, tau, weight) for loss in batch]
            for row, sigma in zip(index.tolist(), confidences, strict=True):
                distrust[row].append(-math.log(sigma))
            value = sum(
                (loss - tau) * sigma + weight * math.log(sigma) ** 2
                for loss, sigma in zip(batch, confidences, strict=True)
            ) / len(batch)
            weighed = (torch.tensor(confidences) * losses).mean()
            gradient = torch.autograd.grad(weighed, list(network.parameters()))

            loss = criterion(network(inputs[index]), target[index], index)
            assert loss.item() == pytest.approx(value, rel=1e-4, abs=1e-5)
            loss.backward()
            with torch.no_grad():
                for parameter, expected in zip(network.parameters(), gradient, strict=True):
                    torch.testing.assert_close(parameter.grad, expected, rtol=1e-3, atol=1e-5)
                    parameter -= (1e-3 if regression else 0.5) * expected
                    parameter.grad = None
    assert criterion.log_values()["confidence_threshold"] == pytest.approx(tau, rel=1e-5)
    assert criterion.hyperparameters()["confidence_threshold"] == tau_option
    assert criterion.hyperparameters()["confidence_regularization"] == pytest.approx(
        weight, rel=1e-5
    )
    means = torch.tensor([sum(values) / len(values) for values in distrust])
    torch.testing.assert_close(criterion.sample_scores(), means, rtol=1e-3, atol=1e-3)


def test_scores_point_to_wrong_labels() -> None:
    # The network predicts class 0 firmly; the labels of samples 1 and 3 are others.
    target = torch.tensor([0, 1, 0, 2])
    criterion = SuperLoss(num_samples=4, num_classes=CLASSES)
    index = torch.tensor([0, 1, 3])
    logits = torch.tensor([4.0, 0.0, 0.0]).expand(3, CLASSES)
    loss = criterion(logits, target[index], index)
    scores = criterion.sample_scores()
    assert scores is not None
    assert scores[0] == -1.0  # nothing is trusted more
    assert scores[2].isnan()
    # Wrong by 4 + log(1 + 2 exp(-4)), less log 3, is beta.
    expected = lambertw((4.0 + math.log1p(2.0 * math.exp(-4.0)) - math.log(3.0)) / 2.0).real
    assert scores[[1, 3]].tolist() == pytest.approx([expected] * 2, rel=1e-5)
    assert loss < cross_entropy(logits, target[index]).mean()


@pytest.mark.parametrize("threshold", ["ema", "mean"])
def test_a_loss_that_is_not_finite_moves_no_threshold(threshold: Any) -> None:
    criterion = super_loss(confidence_threshold=threshold)
    of_losses(torch.tensor([1.0, 3.0]), criterion)
    values = of_losses(torch.tensor([torch.nan, torch.inf]), criterion)
    assert not values.isfinite().any()  # a gradient scaler must see it
    assert criterion.tau == 2.0
    of_losses(torch.tensor([torch.nan, 7.0]), criterion)
    assert criterion.tau.item() == pytest.approx(2.5 if threshold == "ema" else 11.0 / 3.0)


def test_the_unit_of_a_regression_does_not_matter() -> None:
    losses = torch.tensor([0.0, 0.5, 1.0, 2.0, 50.0])
    metres, millimetres = super_loss(), super_loss()
    values = of_losses(losses, metres)
    torch.testing.assert_close(of_losses(1e6 * losses, millimetres), 1e6 * values)
    log_confidence = metres.terms(losses).log_confidence
    torch.testing.assert_close(millimetres.terms(1e6 * losses).log_confidence, log_confidence)
    assert of_losses(torch.zeros(3), super_loss()).tolist() == [0.0] * 3


def test_half_precision_losses_are_lifted() -> None:
    losses = torch.tensor([0.1, 2.0, 9.0], dtype=torch.float16)
    values = of_losses(losses, super_loss(10))
    assert values.dtype == torch.float32
    torch.testing.assert_close(values, of_losses(losses.float(), super_loss(10)))
    assert super_loss(10).half().tau.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "regression", "sentence"),
    [
        ({"confidence_regularization": 0.0}, False, "finite number above 0, not 0.0"),
        ({"confidence_regularization": -1.0}, True, "finite number above 0"),
        ({"confidence_regularization": math.nan}, False, "finite number above 0"),
        ({"confidence_threshold": math.inf}, False, "must be finite"),
        ({"confidence_threshold": "median"}, False, "one of log_classes, ema, mean, or a number"),
        ({"confidence_threshold": "log_classes"}, True, "needs classes, which a regression"),
        ({"confidence_threshold": 0.0}, True, "needs confidence_regularization"),
    ],
)
def test_values_that_make_no_sense(
    options: dict[str, Any], regression: bool, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        SuperLoss(num_classes=None if regression else CLASSES, **options)
