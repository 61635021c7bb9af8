"""DiscrimLoss through the method is DiscrimLoss used by hand."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from discrimloss import DiscrimLoss
from discrimloss.recipes import load_recipe
from discrimloss.training.methods.base import Batch, Setting, methods
from discrimloss.training.methods.discrimloss import DiscrimLossMethod, SuperLossDiscrimLossMethod
from discrimloss.training.task_losses import cross_entropy

NUM_SAMPLES, EPOCHS = 30, 4


def network() -> nn.Module:
    return nn.Linear(4, 3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"variant": "released"},
        {"threshold": "ema", "switch_gain": 0.4, "weight_range": (0.3, 9.0)},
        {"threshold": 0.7, "regularization": 0.1, "weight_lr": 0.5, "history_decay": 0.5},
        {
            "suppressed_epochs": 0,
            "switch_epoch": 1.5,
            "switch_rate": 2.0,
            "relative_weight_lr": 1.0,
        },
    ],
)
def test_steps_by_hand(options: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(NUM_SAMPLES, 4, generator=generator)
    target = torch.randint(3, (NUM_SAMPLES,), generator=generator)

    torch.manual_seed(1)
    setting = Setting(network, cross_entropy, NUM_SAMPLES, 3, EPOCHS, target)
    method = DiscrimLossMethod(setting, **options)
    torch.manual_seed(1)
    model = network()
    criterion = DiscrimLoss(NUM_SAMPLES, EPOCHS, **options)
    for epoch in range(1, EPOCHS + 1):
        method.begin_epoch(epoch)
        criterion.set_epoch(epoch)
        for index in torch.randperm(NUM_SAMPLES, generator=generator).split(10):
            result = method(Batch(inputs[index], target[index], index))
            losses = functional.cross_entropy(model(inputs[index]), target[index], reduction="none")
            loss = criterion(losses, index)
            assert torch.equal(result.loss, loss)
            assert torch.equal(result.losses, losses)
            for stepped, value in ((method.networks[0], result.loss), (model, loss)):
                value.backward()
                with torch.no_grad():
                    for parameter in stepped.parameters():
                        parameter -= 0.5 * parameter.grad
                        parameter.grad = None
    for name, value in criterion.state_dict().items():
        assert torch.equal(method.state_dict()[f"loss.criterion.{name}"], value), name
    assert torch.equal(method.networks[0].weight, model.weight)
    assert (method.verdicts().code == criterion.verdicts().code).all()
    assert method.log_values()["k_dyn"] == criterion.k_dyn
    used = method.hyperparameters()
    assert {name: used[name] for name in options} == options


def test_every_option_of_the_criterion_can_be_set() -> None:
    given = set(methods.options("discrimloss"))
    parameters = inspect.signature(DiscrimLoss.__init__).parameters.values()
    own = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    # What the loop decides.
    loops = {
        "reduction",
        "ids",
        "sharded",
        "process_group",
        "num_classes",
        "task",
        "steps_per_epoch",
    }
    added = {"held_out", "class_aware", "predictions"}
    assert given - added == own - loops


def trained_with_held_out(target: torch.Tensor, **options: Any) -> DiscrimLossMethod:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(NUM_SAMPLES, 4, generator=generator)
    torch.manual_seed(1)
    setting = Setting(network, cross_entropy, NUM_SAMPLES, 3, EPOCHS, target)
    method = DiscrimLossMethod(setting, **options)
    for epoch in range(1, EPOCHS + 1):
        method.begin_epoch(epoch)
        for index in torch.randperm(NUM_SAMPLES, generator=generator).split(6):
            method(Batch(inputs[index], target[index], index)).loss.backward()
            with torch.no_grad():
                for parameter in method.networks[0].parameters():
                    parameter -= 0.5 * parameter.grad
                    parameter.grad = None
    return method


def test_held_out_samples_are_watched_and_not_learned_from() -> None:
    target = torch.randint(3, (NUM_SAMPLES,), generator=torch.Generator().manual_seed(0))
    # By default the threshold and the unit of losses, one number each, are those of all samples.
    options: dict[str, Any] = {"held_out": 0.4, "threshold": 1.0, "weight_lr": 0.5}
    method = trained_with_held_out(target, **options)
    held_out = method.is_held_out
    assert 0 < held_out.sum() < NUM_SAMPLES
    relabelled = trained_with_held_out(torch.where(held_out, (target + 1) % 3, target), **options)
    assert torch.equal(relabelled.networks[0].weight, method.networks[0].weight)
    assert (method.loss.criterion.table.visits == EPOCHS).all()
    averages = [one.loss.criterion.average_losses for one in (method, relabelled)]
    assert (averages[0] != averages[1])[held_out].all()
    assert torch.equal(averages[0][~held_out], averages[1][~held_out])
    # Whoever is learned from does have an influence.
    others = trained_with_held_out(torch.where(held_out, target, (target + 1) % 3), **options)
    assert not torch.equal(others.networks[0].weight, method.networks[0].weight)


def test_everybody_in_a_batch_may_be_held_out() -> None:
    target = torch.zeros(NUM_SAMPLES, dtype=torch.int64)
    method = trained_with_held_out(target, held_out=0.999)
    assert method.is_held_out.all()
    torch.manual_seed(1)
    assert torch.equal(method.networks[0].weight, network().weight)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 2.0])
def test_a_fraction_that_is_none(fraction: float) -> None:
    target = torch.zeros(NUM_SAMPLES, dtype=torch.int64)
    setting = Setting(network, cross_entropy, NUM_SAMPLES, 3, EPOCHS, target)
    with pytest.raises(ValueError, match="held_out must be a fraction"):
        DiscrimLossMethod(setting, held_out=fraction)


def test_the_options_of_the_stack_are_those_of_both() -> None:
    own = methods.options("superloss_discrimloss")
    assert own == {**methods.options("superloss"), **methods.options("discrimloss")}


@pytest.mark.parametrize(("recipe", "stretch"), [("clothing1m", 1.0), ("clothing1m-small", 0.5)])
def test_the_paper_s_row(recipe: str, stretch: float) -> None:
    config = load_recipe(recipe, ["method=superloss_discrimloss", "hyperparameters=paper"])
    target = torch.zeros(NUM_SAMPLES, dtype=torch.int64)
    setting = Setting(network, cross_entropy, NUM_SAMPLES, 3, EPOCHS, target)
    method = SuperLossDiscrimLossMethod(setting, **config.options)
    used = method.hyperparameters()
    assert used["threshold"] == "ema"
    assert (used["suppressed_epochs"], used["switch_gain"], used["regularization"]) == (3, 0.16, 0)
    assert used["switch_epoch"] == 3 * stretch
    assert used["switch_rate"] == pytest.approx(1.07 / stretch)
    # The released step of the batch's mean with momentum, as a sample's own: 5.11 / 0.1 / 32.
    assert used["weight_lr"] == pytest.approx(1.596875, rel=1e-5)
    assert used["weight_range"] == pytest.approx((math.exp(0.459), 20.0), rel=1e-5)
    assert used["confidence_threshold"] == "log_classes"
