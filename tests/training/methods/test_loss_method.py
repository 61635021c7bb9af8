"""The adapter: a loss of `discrimloss.losses` as a method of the harness."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn

from discrimloss.losses.base import loss_classes
from discrimloss.training.methods.base import Batch, Setting, methods
from discrimloss.training.methods.loss_method import LossMethod
from discrimloss.training.task_losses import cross_entropy

NUM_SAMPLES, CLASSES, EPOCHS = 12, 3, 5
TARGET = torch.arange(NUM_SAMPLES) % CLASSES


def setting(build_network: Any = lambda: nn.Linear(4, CLASSES)) -> Setting:
    return Setting(build_network, cross_entropy, NUM_SAMPLES, CLASSES, EPOCHS, TARGET)


@pytest.mark.parametrize("name", loss_classes.names())
class TestEveryLoss:
    def test_its_options_are_those_of_the_loss(self, name: str) -> None:
        of_loss, of_method = loss_classes.get(name).options(), methods.options(name)
        assert of_loss.items() <= of_method.items()
        assert not {"reduction", "task_loss", "num_samples", "epochs"} & set(of_method)
        text = inspect.getdoc(methods.get(name)) or ""
        assert inspect.getdoc(loss_classes.get(name)) in text

    def test_the_network_does_not_depend_on_the_loss(self, name: str) -> None:
        torch.manual_seed(3)
        network = nn.Linear(4, CLASSES)
        torch.manual_seed(3)
        method = methods.get(name)(setting())
        assert isinstance(method, LossMethod)
        assert torch.equal(method.networks[0].weight, network.weight)

    def test_it_is_the_loss_of_a_plain_loop(self, name: str) -> None:
        loss_class: Any = loss_classes.get(name)
        known = {"num_samples": NUM_SAMPLES, "num_classes": CLASSES, "epochs": EPOCHS}
        arguments = inspect.signature(loss_class).parameters
        torch.manual_seed(3)
        network = nn.Linear(4, CLASSES)
        criterion = loss_class(**{key: known[key] for key in known if key in arguments})
        torch.manual_seed(3)
        method = methods.get(name)(setting())
        inputs = torch.randn(NUM_SAMPLES, 4, generator=torch.Generator().manual_seed(0))
        for epoch in (1, 2):
            criterion.set_epoch(epoch)
            method.begin_epoch(epoch)
            for index in torch.arange(NUM_SAMPLES).split(5):
                loss = criterion(network(inputs[index]), TARGET[index], index)
                result = method(Batch(inputs[index], TARGET[index], index))
                assert torch.equal(result.loss, loss)
        for key, value in criterion.state_dict().items():
            assert torch.equal(method.state_dict()[f"loss.{key}"], value), key


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("elr", {"regularization": -1.0}, "regularization must be finite"),
        ("forward", {"noise_rate": 0.67}, "noise_rate must be"),
        (
            "forward",
            {"transition": ((1, 0, 0), (1, 0, 0), (0, 0, 1))},
            "a probability of 0, but some samples",
        ),
        ("discrimloss", {"switch_gain": -1.0}, "switch_gain must be"),
        ("discrimloss", {"held_out": 1.0}, "held_out must be"),
        ("sln", {"sigma": -1.0}, "sigma must be"),
        ("sln", {"momentum_decay": 1.0}, "momentum_decay must be"),
    ],
)
def test_an_option_is_refused_before_a_network_is_built(
    name: str, options: dict[str, Any], message: str
) -> None:
    def build() -> nn.Module:
        raise AssertionError("built before the options were checked")

    with pytest.raises(ValueError, match=message):
        methods.get(name)(setting(build), **options)
