"""Mixup: the mixture and its loss by hand, and with every method."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from discrimloss.options import OptionError
from discrimloss.recipes import load_recipe
from discrimloss.training.methods import methods
from discrimloss.training.methods.base import Batch, Setting
from discrimloss.training.methods.plain import Plain
from discrimloss.training.mixup import mixed, mixture_weight
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.task_losses import cross_entropy

SAMPLES, CLASSES = 6, 3
TARGET = torch.tensor([0, 1, 2, 0, 1, 2])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


INPUTS = torch.randn(SAMPLES, 4, generator=generator(1))
BATCH = Batch(INPUTS, TARGET, torch.arange(SAMPLES))


class Counted(nn.Linear):
    calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(inputs)


def test_weights_are_at_least_one_half_and_follow_the_beta_distribution() -> None:
    drawn = torch.tensor([mixture_weight(1.0, generator(seed)) for seed in range(400)])
    assert float(drawn.min()) >= 0.5
    assert float(drawn.mean()) == pytest.approx(0.75, abs=0.02)  # uniform, folded: 0.5 to 1
    near_one = torch.tensor([mixture_weight(0.1, generator(seed)) for seed in range(400)])
    assert float(near_one.mean()) > 0.9


def test_the_loss_is_that_of_both_labels_by_their_weights() -> None:
    setting = Setting(lambda: Counted(4, CLASSES), cross_entropy, SAMPLES, CLASSES, 3, TARGET)
    method = Plain(setting)
    method.begin_epoch(1)
    batch = mixed(BATCH, 1.0, generator())
    assert batch.mixture is not None
    weight, order = batch.mixture.weight, batch.mixture.index
    assert sorted(order.tolist()) == list(range(SAMPLES))
    torch.testing.assert_close(batch.inputs, weight * INPUTS + (1 - weight) * INPUTS[order])
    network = method.networks[0]
    result = method(batch)
    assert network.calls == 1
    output = network(batch.inputs)
    own, other = cross_entropy(output, TARGET), cross_entropy(output, TARGET[order])
    torch.testing.assert_close(result.loss, (weight * own + (1 - weight) * other).mean())
    assert method.history is not None
    torch.testing.assert_close(method.history.average_losses, own.detach())
    assert "forward" not in vars(network)


@pytest.mark.parametrize("name", methods.names())
def test_every_method_trains_on_mixtures(name: str) -> None:
    setting = Setting(lambda: Counted(4, CLASSES), cross_entropy, SAMPLES, CLASSES, 3, TARGET)
    method = methods.get(name)(setting)
    for epoch in (1, 2, 3):
        method.begin_epoch(epoch)
        result = method(mixed(BATCH, 1.0, generator(epoch)))
        result.loss.backward()
        method.after_backward()
        method.after_step()
        assert result.loss.isfinite()
    assert method.networks[0].calls == 3  # once for both samples of the rows
    verdicts = method.verdicts()
    assert verdicts is None or len(verdicts) == SAMPLES


def test_a_run_with_mixup_is_the_same_every_time() -> None:
    settings = ["method=plain", "mixup=0.3", "train_size=100", "epochs=2", "threads=1"]
    config = load_recipe("digits", settings)
    summaries = [run_training(RunRequest(config, Path(), None)) for _ in range(2)]
    assert summaries[0]["test"] == summaries[1]["test"]


def test_texts_cannot_be_mixed() -> None:
    with pytest.raises(OptionError, match="inputs that are real numbers"):
        mixed(Batch({"ids": TARGET}, TARGET, TARGET), 0.2, generator())
    with pytest.raises(OptionError, match="mixup must be 0 or more"):
        load_recipe("digits", ["mixup=-1"])
