"""Stochastic label noise in the harness: the momentum model and the corrected labels."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discrimloss.training.methods.base import Batch, Setting, methods
from discrimloss.training.methods.corrected_labels import label_weights
from discrimloss.training.methods.sln import SlnMethod, follow
from discrimloss.training.task_losses import cross_entropy

SAMPLES, CLASSES, EPOCHS = 8, 3, 6
INPUTS = torch.randn(SAMPLES, 4, generator=torch.Generator().manual_seed(1))
TARGET = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
EVERYONE = torch.arange(SAMPLES)


def sln(network: Any = lambda: nn.Linear(4, CLASSES), seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    setting = Setting(network, cross_entropy, SAMPLES, CLASSES, EPOCHS, TARGET)
    return SlnMethod(setting, **options)


def batch(index: Tensor) -> Batch:
    return Batch(INPUTS[index], TARGET[index], index)


def train(method: Any, first: int, last: int, learning_rate: float = 0.1) -> list[float]:
    """Steps `first` to `last`, two in an epoch; the losses."""
    optimizer = torch.optim.SGD(method.trainable_parameters(), learning_rate)
    losses = []
    for number in range(first, last):
        if number % 2 == 0 or number == first:
            method.train()
            method.begin_epoch(1 + number // 2)
        result = method(batch(EVERYONE[:5] if number % 2 == 0 else EVERYONE[5:]))
        result.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        method.after_step()
        losses.append(float(result.loss.detach()))
    return losses


def test_without_a_momentum_model() -> None:
    method = sln(sigma=0.2)
    assert method.hyperparameters() == {
        "sigma": 0.2,
        "momentum_decay": None,
        "correction_epoch": None,
        "correction": None,
    }
    assert method.sample_scores() is None
    assert list(methods.options("sln")) == [
        *("sigma", "momentum_model", "momentum_decay", "label_correction", "correction_epoch"),
        "correction",
    ]


def with_buffers() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES))


def test_the_momentum_model_follows() -> None:
    method = sln(with_buffers, momentum_model=True)
    averages = [value.clone() for value in method.networks[0].state_dict().values()]
    for step in range(4):
        train(method, step, step + 1)
        kept = (1 + step) / (10 + step)  # 0.1, 2 / 11, 3 / 12, ...
        values = list(method.networks[0].state_dict().values())
        averages = [
            kept * average + (1 - kept) * value if value.is_floating_point() else value.clone()
            for average, value in zip(averages, values, strict=True)
        ]
    for average, value in zip(averages, method.networks[1].state_dict().values(), strict=True):
        torch.testing.assert_close(value, average)
    assert int(method.steps) == 4
    assert not any(parameter.requires_grad for parameter in method.networks[1].parameters())
    method.eval()
    with torch.no_grad():
        assert torch.equal(method.predict(INPUTS), method.networks[1](INPUTS))
        assert not torch.equal(method.predict(INPUTS), method.networks[0](INPUTS))


def test_late_in_a_run_the_decay_is_the_papers() -> None:
    leader, follower = nn.Linear(1, 1), nn.Linear(1, 1)
    nn.init.ones_(leader.weight)
    nn.init.zeros_(follower.weight)
    follow(follower, leader, torch.tensor(100_000), 0.999)
    assert float(follower.weight.detach()) == pytest.approx(0.001, rel=1e-3)


def test_the_weights_of_labels() -> None:
    # (1 - 0.5) / 2 and (2.5 - 0.5) / 2; -1: not known
    weights = label_weights(torch.tensor([0.5, 1.0, 2.5, -1.0]))
    torch.testing.assert_close(weights, torch.tensor([0.0, 0.25, 1.0, 1.0]))
    assert label_weights(torch.tensor([-1.0, -1.0])).tolist() == [1.0, 1.0]
    assert label_weights(torch.tensor([0.5, 0.5])).tolist() == [0.0, 0.0]


def test_labels_are_corrected_by_the_momentum_models_predictions() -> None:
    # The network says of every sample that it is of class 1, and cannot learn.
    def stubborn() -> nn.Module:
        network = nn.Linear(4, CLASSES)
        nn.init.zeros_(network.weight)
        network.bias.data = torch.tensor([0.2, 0.7, 0.1]).log()
        return network

    method = sln(stubborn, sigma=0.5, momentum_model=True, label_correction=True)
    assert method.hyperparameters()["correction_epoch"] == 6  # of 6: a sixth
    train(method, 0, 8, learning_rate=0.0)
    assert method.sample_scores().isnan().all()
    assert method.loss.noise.abs().sum() > 0
    train(method, 8, 10, learning_rate=0.0)  # the epoch before: predictions are recorded
    of_label = torch.tensor([0.2, 0.7, 0.1])[TARGET]
    torch.testing.assert_close(method.sample_scores(), 1 - of_label)

    method.begin_epoch(6)
    assert method.loss.noise.abs().sum() == 0
    # losses -log(0.2), -log(0.7), -log(0.1), scaled to [0, 1]
    smallest, largest = -math.log(0.7), -math.log(0.1)
    weight = [(-math.log(p) - smallest) / (largest - smallest) for p in (0.2, 0.7, 0.1)]
    targets = [[weight[0], 1 - weight[0], 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    result = method(batch(EVERYONE))
    soft = torch.tensor(targets)[TARGET]
    expected = -(soft * torch.tensor([0.2, 0.7, 0.1]).log()).sum(1)
    torch.testing.assert_close(result.loss.detach(), expected.mean())
    # what is recorded for the next epoch is the loss of the labels as corrected
    torch.testing.assert_close(method.labels.next_loss, expected)
    in_use = method.labels.label_weight.clone()
    method.begin_epoch(6)  # resumed half-way: not corrected again
    assert torch.equal(method.labels.label_weight, in_use)
    with pytest.warns(UserWarning, match="epoch 7 begins"):
        method.begin_epoch(7)
    assert not torch.equal(method.labels.label_weight, in_use)


def test_labels_are_mixed_with_probabilities_as_for_clothing1m() -> None:
    def stubborn() -> nn.Module:
        network = nn.Linear(4, CLASSES)
        nn.init.zeros_(network.weight)
        network.bias.data = torch.tensor([0.2, 0.7, 0.1]).log()
        return network

    options = {"momentum_model": True, "label_correction": True, "correction": "probabilities"}
    method = sln(stubborn, sigma=0.2, correction_epoch=2, **options)
    train(method, 0, 2, learning_rate=0.0)  # the first epoch
    method.begin_epoch(2)
    assert method.loss.noise.abs().sum() == 0
    smallest, largest = -math.log(0.7), -math.log(0.1)
    weight = [(-math.log(p) - smallest) / (largest - smallest) for p in (0.2, 0.7, 0.1)]
    mixed = [[(1 - w) * p for p in (0.2, 0.7, 0.1)] for w in weight]
    for label in range(CLASSES):
        mixed[label][label] += weight[label]
    expected = -(torch.tensor(mixed)[TARGET] * torch.tensor([0.2, 0.7, 0.1]).log()).sum(1)
    result = method(batch(EVERYONE))
    torch.testing.assert_close(result.loss.detach(), expected.mean())
    # what weighs the labels of the next epoch is the loss of the labels as given
    as_given = -torch.tensor([0.2, 0.7, 0.1]).log()[TARGET]
    torch.testing.assert_close(method.labels.next_loss, as_given)
    assert method.hyperparameters()["correction"] == "probabilities"


@pytest.mark.parametrize("cut", [3, 7, 8, 9, 11])
def test_saved_and_loaded_it_goes_on(cut: int) -> None:
    options = {"momentum_model": True, "label_correction": True, "correction_epoch": 4}
    whole = sln(with_buffers, **options)
    losses = train(whole, 0, 12)
    stopped = sln(with_buffers, **options)
    train(stopped, 0, cut)
    resumed = sln(with_buffers, seed=3, **options)
    resumed.load_state_dict(copy.deepcopy(stopped.state_dict()))
    assert train(resumed, cut, 12) == losses[cut:]
    for key, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[key], value), key


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": -0.1}, "sigma must be 0 or more"),
        ({"momentum_decay": 1.0}, "at least 0 and below 1"),
        ({"label_correction": True}, "needs the predictions of momentum_model"),
        ({"correction_epoch": 1}, "2 or more"),
        ({"correction": "hard"}, "correction must be classes or probabilities"),
    ],
)
def test_options_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sln(**options)
