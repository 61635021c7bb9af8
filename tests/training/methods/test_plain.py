"""The task loss alone, with a history that looks on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from discrimloss.training.methods.base import Batch, Setting
from discrimloss.training.methods.plain import Plain
from discrimloss.training.task_losses import cross_entropy

INPUTS = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
TARGET = torch.tensor([0, 0, 1])


def identity() -> nn.Module:
    network = nn.Linear(2, 2, bias=False)
    nn.init.eye_(network.weight)
    return network


def plain(history: bool = True) -> Plain:
    setting = Setting(identity, cross_entropy, 3, 2, 5, TARGET)
    return Plain(setting, history=history)


@pytest.mark.parametrize("history", [True, False])
def test_loss_and_gradient_are_those_of_the_mean(history: bool) -> None:
    method = plain(history)
    method.begin_epoch(1)
    result = method(Batch(INPUTS, TARGET, torch.tensor([0, 1, 2])))
    # log(1 + e^-2), log(1 + e), log 2
    expected = torch.tensor([0.1269280110, 1.3132616875, 0.6931471806])
    torch.testing.assert_close(result.losses, expected)
    torch.testing.assert_close(result.loss, expected.mean())
    result.loss.backward()
    reference = identity()
    nn.functional.cross_entropy(reference(INPUTS), TARGET).backward()
    torch.testing.assert_close(method.networks[0].weight.grad, reference.weight.grad)


def test_the_history_averages_the_losses_and_weighs_nothing() -> None:
    method = plain()
    index = torch.tensor([2, 0])
    seen = []
    for epoch in (1, 2):
        method.begin_epoch(epoch)
        result = method(Batch(epoch * INPUTS[index], TARGET[index], index))
        seen.append(result.losses)
    assert method.history is not None
    # h = 0.1 l1, then 0.09 l1 + 0.1 l2, corrected by 1 - 0.9^2
    expected = (0.09 * seen[0] + 0.1 * seen[1]) / 0.19
    torch.testing.assert_close(method.history.average_losses[index], expected)
    assert method.history.average_losses[1].isnan()
    assert method.history.sample_weights.tolist() == [1.0, 1.0, 1.0]
    verdicts = method.verdicts()
    assert verdicts is not None
    assert verdicts.counts["unseen"] == 1


def test_without_history_it_says_nothing() -> None:
    method = plain(history=False)
    assert method.verdicts() is None
    others = [key for key in method.state_dict() if not key.startswith("networks.")]
    assert others == ["loss.epoch_count"]
