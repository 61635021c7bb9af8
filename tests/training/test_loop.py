"""The loop does what a loop written by hand does, to the last bit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from lively_task import lively_config
from run_comparison import history_of
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from discrimloss import DiscrimLoss
from discrimloss.data import noise
from discrimloss.data.base import datasets
from discrimloss.models.base import TaskShape, models
from discrimloss.recipes import load_recipe
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.seeds import derived_generator, derived_seed

pytestmark = pytest.mark.usefixtures("lively", "quick_verdicts")
EPOCHS, SEED = 2, 3


class ByHand:
    """Classification with SGD, momentum and a cosine schedule, one step after the other."""

    def __init__(self, config: Any, criterion: str) -> None:
        self.task = datasets.get(config.data.name)(Path())
        self.target = noise.symmetric(
            self.task.train.target,
            config.noise.rate,
            derived_generator(SEED, "noise"),
            self.task.num_classes,
        ).target
        torch.manual_seed(derived_seed(SEED, "model"))
        shape = TaskShape(self.task.input_shape, self.task.num_classes)
        self.model: nn.Module = models.get(config.model.name)(shape)
        torch.manual_seed(derived_seed(SEED, "steps", 0))
        self.criterion = DiscrimLoss(len(self.target), EPOCHS)
        self.uses_criterion = criterion == "discrimloss"
        self.batch_size, self.rate = config.batch_size, config.optimizer.learning_rate
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), self.rate, 0.9, weight_decay=config.optimizer.weight_decay
        )
        self.train_losses: list[float] = []
        self.test_accuracies: list[float] = []

    def train(self) -> None:
        for epoch in range(1, EPOCHS + 1):
            self.criterion.set_epoch(epoch)
            self.model.train()
            generator = derived_generator(SEED, "order", epoch)
            order = torch.randperm(len(self.target), generator=generator)
            batches = order.split(self.batch_size)
            total = 0.0
            for step, index in enumerate(batches):
                passed = epoch - 1 + step / len(batches)
                for group in self.optimizer.param_groups:
                    group["lr"] = self.rate * 0.5 * (1 + math.cos(math.pi * passed / EPOCHS))
                losses = self.losses_of(
                    index, derived_generator(SEED, "augmentation", epoch, step, 0)
                )
                loss = self.criterion(losses, index) if self.uses_criterion else losses.mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += float(losses.detach().double().sum())
            self.train_losses.append(total / len(self.target))
            self.test_accuracies.append(self.test_accuracy())

    def losses_of(self, index: Tensor, generator: torch.Generator) -> Tensor:
        inputs = self.task.prepare(self.task.train.inputs.rows(index), generator)
        return functional.cross_entropy(self.model(inputs), self.target[index], reduction="none")

    @torch.no_grad()
    def test_accuracy(self) -> float:
        self.model.eval()
        inputs = self.task.test.inputs.rows(torch.arange(len(self.task.test)))
        right = self.model(inputs).argmax(1) == self.task.test.target
        return 100.0 * int(right.sum()) / len(right)


@pytest.mark.parametrize("method", ["plain", "discrimloss"])
@pytest.mark.parametrize("task", ["digits", "lively"])
def test_the_loop_equals_one_by_hand(task: str, method: str, tmp_path: Path) -> None:
    settings = (f"method={method}", f"epochs={EPOCHS}", f"seed={SEED}", "tensorboard=false")
    config = load_recipe("digits", settings) if task == "digits" else lively_config(*settings)
    run_training(RunRequest(config, Path(), tmp_path / "run"))
    by_hand = ByHand(config, method)
    by_hand.train()

    state = load_file(tmp_path / "run" / "checkpoint" / "model.safetensors")
    for name, value in by_hand.model.state_dict().items():
        assert torch.equal(state[f"networks.0.{name}"], value), name
    if method == "discrimloss":
        for name, value in by_hand.criterion.state_dict().items():
            assert torch.equal(state[f"loss.criterion.{name}"], value), name
    history = history_of(tmp_path / "run")
    assert [float(row["train_loss"]) for row in history] == pytest.approx(by_hand.train_losses)
    assert [float(row["test_accuracy"]) for row in history] == by_hand.test_accuracies


def test_gradients_are_clipped(tmp_path: Path) -> None:
    """Without momentum a step is no longer than the learning rate times the largest norm."""
    settings = ("method=plain", "epochs=1", "steps_per_epoch=1", "schedule.kind=constant")
    plain = ("optimizer.momentum=0.0", "optimizer.weight_decay=0.0")
    lengths = {}
    for clip in ("", "optimizer.clip_norm=0.01"):
        config = lively_config(*settings, *plain, *([clip] if clip else []))
        out = tmp_path / (clip or "free")
        run_training(RunRequest(config, Path(), out))
        state = load_file(out / "checkpoint" / "model.safetensors")
        torch.manual_seed(derived_seed(config.seed, "model"))
        start = models.get("dropout_net")(TaskShape((6,), 4))
        steps = [
            (state[f"networks.0.{name}"] - value.detach()).flatten()
            for name, value in start.named_parameters()
        ]
        lengths[clip] = float(torch.cat(steps).norm())
    assert lengths["optimizer.clip_norm=0.01"] == pytest.approx(0.1 * 0.01, rel=1e-3)
    assert lengths[""] > 0.01


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    weights = []
    for number, seed in enumerate((1, 1, 2)):
        out = tmp_path / str(number)
        config = lively_config("epochs=1", "noise.kind=none", f"seed={seed}")
        run_training(RunRequest(config, Path(), out))
        weights.append((out / "checkpoint" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]
