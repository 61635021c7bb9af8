"""DiscrimLoss on top of SuperLoss is both used by hand, one on the other."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from flat_network import Flat
from torch import Tensor, nn

from discrimloss import DiscrimLoss
from discrimloss.losses import SuperLoss, SuperLossDiscrimLoss
from discrimloss.losses.base import TaskLoss, cross_entropy

NUM_SAMPLES, CLASSES, EPOCHS = 30, 3, 4
PAPER = {"threshold": "ema", "switch_gain": 0.16, "switch_rate": 1.07, "switch_epoch": 3.0}


def task(regression: bool) -> tuple[nn.Module, TaskLoss, Tensor, int | None]:
    """A network, its task loss, the targets and the number of classes."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(1)
    if regression:
        target = 20.0 * torch.randn(NUM_SAMPLES, generator=generator)
        return Flat(), nn.MSELoss(reduction="none"), target, None
    target = torch.randint(CLASSES, (NUM_SAMPLES,), generator=generator)
    return nn.Linear(4, CLASSES), cross_entropy, target, CLASSES


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize(
    ("options", "confidence"),
    [
        ({}, {}),
        (PAPER, {}),
        (PAPER, {"threshold": "mean", "regularization": 0.5}),
        ({"variant": "released", "weight_range": (0.5, 9.0)}, {"threshold": 1.5}),
        ({"regularization": 0.1, "history_decay": 0.5, "weight_lr": 0.3}, {"regularization": 1.2}),
    ],
)
@pytest.mark.usefixtures("quick_verdicts")
def test_steps_by_hand(
    options: dict[str, Any], confidence: dict[str, Any], regression: bool
) -> None:
    network, task_loss, target, num_classes = task(regression)
    model = task(regression)[0]
    rate = 1e-3 if regression else 0.5
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(NUM_SAMPLES, 4, generator=generator)
    own = {f"confidence_{name}": value for name, value in confidence.items()}
    stack = SuperLossDiscrimLoss(
        NUM_SAMPLES, EPOCHS, num_classes, task_loss=task_loss, **options, **own
    )
    superloss = SuperLoss(num_classes=num_classes, task_loss=task_loss, reduction="none", **own)
    criterion = DiscrimLoss(NUM_SAMPLES, EPOCHS, **options)
    for epoch in range(1, EPOCHS + 1):
        stack.set_epoch(epoch)
        criterion.set_epoch(epoch)
        for index in torch.randperm(NUM_SAMPLES, generator=generator).split(10):
            stacked = stack(network(inputs[index]), target[index], index)
            robust = superloss(model(inputs[index]), target[index])
            # A loss of 0 is below the clamp here, where sigma is e: SL = -tau e + lambda.
            tau, weight = float(superloss.tau), float(superloss.regularization_now)
            assert -tau / weight <= -2.0 / math.e
            loss = criterion(robust - (weight - math.e * tau), index)
            torch.testing.assert_close(stacked, loss, rtol=1e-4, atol=1e-4)
            for stepped, value in ((network, stacked), (model, loss)):
                value.backward()
                with torch.no_grad():
                    for parameter in stepped.parameters():
                        parameter -= rate * parameter.grad
                        parameter.grad = None
    for name, value in criterion.state_dict().items():
        found = stack.state_dict()[f"criterion.{name}"]
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-4)
    assert (stack.history.verdicts().code == criterion.verdicts().code).all()
    scores = stack.sample_scores()
    torch.testing.assert_close(scores, criterion.sample_weights, rtol=1e-4, atol=1e-4)
    assert stack.log_values()["confidence_threshold"] == pytest.approx(tau, rel=1e-4)
    assert stack.log_values()["k_dyn"] == pytest.approx(criterion.k_dyn, rel=1e-3)
    used = stack.hyperparameters()
    assert {name: used[name] for name in options} == options
    assert {name: used[name] for name in own} == own


def test_what_discrimloss_gets_is_measured_from_a_perfect_prediction() -> None:
    stack = SuperLossDiscrimLoss(4, EPOCHS, CLASSES, task_loss=lambda losses, _: losses)
    losses = torch.tensor([0.0, 0.2, math.log(3.0), 6.0], requires_grad=True)
    inner = stack.inner_losses(losses, torch.zeros(4), torch.arange(4))
    # e l up to the clamp; at tau SuperLoss is 0, so -(lambda - e tau) is left.
    assert inner[:3].tolist() == pytest.approx([0.0, 0.2 * math.e, math.e * math.log(3.0) - 1.0])
    assert (inner[1:] > inner[:-1]).all()
    inner.sum().backward()
    expected = stack.task_loss.terms(losses.detach()).log_confidence.exp()
    torch.testing.assert_close(losses.grad, expected)


def test_a_threshold_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="needs classes, which a regression"):
        SuperLossDiscrimLoss(4, EPOCHS, confidence_threshold="log_classes")
