"""DiscrimLoss on top of SuperLoss is both used by hand, one on the other."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from flat_network import Flat
from torch import nn

from discrimloss import DiscrimLoss
from discrimloss.recipes import load_recipe
from discrimloss.training.methods.base import Batch, Setting, methods
from discrimloss.training.methods.confidence import SuperLoss
from discrimloss.training.methods.superloss_discrimloss import SuperLossDiscrimLossMethod
from discrimloss.training.task_losses import cross_entropy, mse

NUM_SAMPLES, CLASSES, EPOCHS = 30, 3, 4
PAPER = {"threshold": "ema", "switch_gain": 0.16, "switch_rate": 1.07, "switch_epoch": 3.0}


def task(regression: bool) -> Setting:
    generator = torch.Generator().manual_seed(0)
    if regression:
        target = 20.0 * torch.randn(NUM_SAMPLES, generator=generator)
        return Setting(Flat, mse, NUM_SAMPLES, None, EPOCHS, target)
    target = torch.randint(CLASSES, (NUM_SAMPLES,), generator=generator)
    return Setting(
        lambda: nn.Linear(4, CLASSES), cross_entropy, NUM_SAMPLES, CLASSES, EPOCHS, target
    )


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
    setting = task(regression)
    rate = 1e-3 if regression else 0.5
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(NUM_SAMPLES, 4, generator=generator)
    torch.manual_seed(1)
    own = {f"confidence_{name}": value for name, value in confidence.items()}
    method = SuperLossDiscrimLossMethod(setting, **options, **own)
    torch.manual_seed(1)
    model = setting.build_network()
    superloss = SuperLoss(setting.num_classes, **confidence)
    criterion = DiscrimLoss(NUM_SAMPLES, EPOCHS, **options)
    for epoch in range(1, EPOCHS + 1):
        method.begin_epoch(epoch)
        criterion.set_epoch(epoch)
        for index in torch.randperm(NUM_SAMPLES, generator=generator).split(10):
            result = method(Batch(inputs[index], setting.target[index], index))
            losses = setting.task_losses(model(inputs[index]), setting.target[index])
            robust = superloss(losses).values
            # A loss of 0 is below the clamp here, where sigma is e: SL = -tau e + lambda.
            tau, weight = float(superloss.tau), float(superloss.regularization_now)
            assert -tau / weight <= -2.0 / math.e
            loss = criterion(robust - (weight - math.e * tau), index)
            torch.testing.assert_close(result.loss, loss, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(result.losses, losses.detach(), rtol=1e-4, atol=1e-4)
            for stepped, value in ((method.networks[0], result.loss), (model, loss)):
                value.backward()
                with torch.no_grad():
                    for parameter in stepped.parameters():
                        parameter -= rate * parameter.grad
                        parameter.grad = None
    for name, value in criterion.state_dict().items():
        found = method.state_dict()[f"criterion.{name}"]
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-4)
    assert (method.verdicts().code == criterion.verdicts().code).all()
    torch.testing.assert_close(
        method.sample_scores(), criterion.sample_weights, rtol=1e-4, atol=1e-4
    )
    assert method.log_values()["confidence_threshold"] == pytest.approx(tau, rel=1e-4)
    assert method.log_values()["k_dyn"] == pytest.approx(criterion.k_dyn, rel=1e-3)
    used = method.hyperparameters()
    assert {name: used[name] for name in options} == options
    assert {name: used[name] for name in own} == own


def test_what_discrimloss_gets_is_measured_from_a_perfect_answer() -> None:
    method = SuperLossDiscrimLossMethod(task(regression=False))
    losses = torch.tensor([0.0, 0.2, math.log(3.0), 6.0], requires_grad=True)
    inner = method.inner_losses(losses)
    # e l up to the clamp; at tau SuperLoss is 0, so -(lambda - e tau) is left.
    assert inner[:3].tolist() == pytest.approx([0.0, 0.2 * math.e, math.e * math.log(3.0) - 1.0])
    assert (inner[1:] > inner[:-1]).all()
    inner.sum().backward()
    expected = method.superloss.terms(losses.detach()).log_confidence.exp()
    torch.testing.assert_close(losses.grad, expected)


def test_its_options_are_those_of_both() -> None:
    own = methods.options("superloss_discrimloss")
    assert own == {**methods.options("superloss"), **methods.options("discrimloss")}


@pytest.mark.parametrize(("recipe", "stretch"), [("clothing1m", 1.0), ("clothing1m-small", 0.5)])
def test_the_paper_s_row(recipe: str, stretch: float) -> None:
    config = load_recipe(recipe, ["method=superloss_discrimloss", "hyperparameters=paper"])
    method = SuperLossDiscrimLossMethod(task(regression=False), **config.options)
    used = method.hyperparameters()
    assert used["threshold"] == "ema"
    assert (used["suppressed_epochs"], used["switch_gain"], used["regularization"]) == (3, 0.16, 0)
    assert used["switch_epoch"] == 3 * stretch
    assert used["switch_rate"] == pytest.approx(1.07 / stretch)
    # The released step of the batch's mean with momentum, as a sample's own: 5.11 / 0.1 / 32.
    assert used["weight_lr"] == pytest.approx(1.596875, rel=1e-5)
    assert used["weight_range"] == pytest.approx((math.exp(0.459), 20.0), rel=1e-5)
    assert used["confidence_threshold"] == "log_classes"


def test_a_threshold_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="does not fit a regression"):
        SuperLossDiscrimLossMethod(task(regression=True), confidence_threshold="log_classes")
