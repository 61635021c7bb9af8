"""JoCoR against its equations, written out class by class and row by row."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from discrimloss.training.methods.base import Batch, Setting
from discrimloss.training.methods.jocor import JoCoR, symmetric_divergence
from discrimloss.training.task_losses import cross_entropy, mse

SAMPLES, FEATURES, CLASSES, EPOCHS = 10, 4, 3, 8


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


INPUTS = torch.randn(SAMPLES, FEATURES, generator=generator())
TARGET = torch.randint(CLASSES, (SAMPLES,), generator=generator(1))
SETTING = Setting(
    lambda: nn.Linear(FEATURES, CLASSES), cross_entropy, SAMPLES, CLASSES, EPOCHS, TARGET
)


def joint_loss(logits: Tensor, others: Tensor, target: int, weight: float) -> Tensor:
    """Of one sample, differentiable: supervised and contrastive part."""
    first, second = logits.exp() / logits.exp().sum(), others.exp() / others.exp().sum()
    supervised = -first[target].log() - second[target].log()
    there = sum(first[k] * (first[k] / second[k]).log() for k in range(CLASSES))
    back = sum(second[k] * (second[k] / first[k]).log() for k in range(CLASSES))
    return (1 - weight) * supervised + weight * (there + back)


def test_the_divergence_by_hand() -> None:
    # p = (1/2, 1/2), q = (1/4, 3/4): (1/4)(log 2) + (-1/4)(log 2/3) = (log 3) / 4
    first = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    second = torch.tensor([[0.0, math.log(3.0)], [1.0, 2.0]])
    expected = torch.tensor([math.log(3.0) / 4, 0.0])
    torch.testing.assert_close(symmetric_divergence(first, second), expected)
    torch.testing.assert_close(symmetric_divergence(second, first), expected)


def test_the_divergence_is_computed_in_full_precision() -> None:
    first, second = torch.randn(2, 6, CLASSES, generator=generator(3)).half()
    exact = symmetric_divergence(first.double(), second.double())
    single = symmetric_divergence(first, second)
    assert (single.dtype, exact.dtype) == (torch.float32, torch.float64)
    torch.testing.assert_close(single.double(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weight", [0.9, 0.5, 0.0])
def test_several_steps(weight: float) -> None:
    torch.manual_seed(0)
    method = JoCoR(SETTING, noise_rate=0.5, gradual_epochs=2, co_regularization=weight)
    nets = [SETTING.build_network() for _ in range(2)]
    for net, own in zip(nets, method.networks, strict=True):
        net.load_state_dict(own.state_dict())
    optimizer = torch.optim.SGD(method.trainable_parameters(), lr=0.2)
    left_out = [0] * SAMPLES
    for epoch, number_kept in ((1, 10), (2, 7), (3, 5), (4, 5)):  # forget 0, 0.25, 0.5, 0.5
        method.begin_epoch(epoch)
        index = torch.randperm(SAMPLES, generator=generator(epoch))
        rows = INPUTS[index]
        answers = [net(rows) for net in nets]
        joint = [
            joint_loss(answers[0][row], answers[1][row], int(TARGET[index[row]]), weight)
            for row in range(SAMPLES)
        ]
        ranked = sorted(range(SAMPLES), key=lambda row: float(joint[row].detach()))
        expected = sum(joint[row] for row in ranked[:number_kept]) / number_kept
        for row in ranked[number_kept:]:
            left_out[int(index[row])] += 1
        expected.backward()  # one loss for both
        with torch.no_grad():
            for net in nets:
                for parameter in net.parameters():
                    parameter -= 0.2 * parameter.grad
                    parameter.grad = None

        result = method(Batch(rows, TARGET[index], index))
        result.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.testing.assert_close(result.loss.detach(), expected.detach())
        torch.testing.assert_close(result.losses, cross_entropy(answers[0], TARGET[index]).detach())
    for net, own in zip(nets, method.networks, strict=True):
        torch.testing.assert_close(own.state_dict(), net.state_dict())
    assert method.sample_scores().tolist() == pytest.approx([each / 4 for each in left_out])


def test_the_divergence_draws_the_networks_together() -> None:
    gaps = []
    for weight in (0.0, 0.5):
        torch.manual_seed(0)
        method = JoCoR(SETTING, noise_rate=0.0, co_regularization=weight)
        optimizer = torch.optim.SGD(method.trainable_parameters(), lr=0.5)
        method.begin_epoch(1)
        for _ in range(20):
            method(Batch(INPUTS, TARGET, torch.arange(SAMPLES))).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            answers = [network(INPUTS) for network in method.networks]
            gaps.append(float(symmetric_divergence(*answers).mean()))
    assert gaps[1] < 0.2 * gaps[0]


def test_what_is_recorded() -> None:
    method = JoCoR(SETTING, noise_rate=0.3)
    method.begin_epoch(2)
    assert method.hyperparameters() == {
        "noise_rate": 0.3,
        "noise_rate_source": "given",
        "gradual_epochs": 2,  # a quarter of 8
        "co_regularization": 0.5,
    }
    assert method.log_values() == pytest.approx({"noise_rate": 0.3, "forget_rate": 0.15})


@pytest.mark.parametrize("weight", [-0.1, 1.0])
def test_options_that_make_no_sense(weight: float) -> None:
    with pytest.raises(ValueError, match="co_regularization must be at least 0 and below 1"):
        JoCoR(SETTING, co_regularization=weight)


def test_a_regression_is_refused_before_a_network_is_built() -> None:
    def unwanted() -> nn.Module:
        raise AssertionError("built")

    setting = Setting(unwanted, mse, SAMPLES, None, EPOCHS, torch.zeros(SAMPLES))
    with pytest.raises(ValueError, match="'jocor' does not support regression"):
        JoCoR(setting)
