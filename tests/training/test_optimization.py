"""Learning rates at points worked out by hand, and optimizers against their equations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from discrimloss.training.config import OptimizerConfig, ScheduleConfig
from discrimloss.training.optimization import (
    build_optimizer,
    learning_rate_factor,
    set_learning_rate,
)


@pytest.mark.parametrize(
    ("schedule", "points"),
    [
        ({"kind": "constant"}, {0: 1, 3.5: 1, 9.9: 1}),
        (
            {"kind": "cosine"},
            {0: 1, 2.5: 0.8535533905932737, 5: 0.5, 7.5: 0.1464466094067262, 10: 0},
        ),
        ({"kind": "linear"}, {0: 1, 2.5: 0.75, 9: 0.1, 10: 0}),
        (
            {"kind": "step", "milestones": (4, 8)},
            {0: 1, 3.99: 1, 4: 0.1, 7.9: 0.1, 8: 0.01, 9.5: 0.01},
        ),
        ({"kind": "step", "milestones": (5,), "factor": 0.5}, {4.9: 1, 5: 0.5, 10: 0.5}),
        ({"kind": "constant", "warmup_epochs": 2.0}, {0: 0, 0.5: 0.25, 1: 0.5, 2: 1, 10: 1}),
        ({"kind": "linear", "warmup_epochs": 2.0}, {0: 0, 1: 0.5, 2: 1, 6: 0.5, 10: 0}),
        ({"kind": "cosine", "warmup_epochs": 2.0}, {1: 0.5, 2: 1, 6: 0.5, 10: 0}),
    ],
)
def test_schedules(schedule: dict[str, Any], points: dict[float, float]) -> None:
    config = ScheduleConfig(**schedule)
    for passed, factor in points.items():
        found = learning_rate_factor(config, passed, epochs=10)
        assert found == pytest.approx(factor, abs=1e-12), passed


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_a_warmup_as_long_as_the_run(kind: Any) -> None:
    config = ScheduleConfig(kind, warmup_epochs=10.0)
    assert learning_rate_factor(config, 5.0, epochs=10) == 0.5
    assert 0.0 <= learning_rate_factor(config, 9.999, epochs=10) <= 1.0


def one_parameter() -> nn.Parameter:
    return nn.Parameter(torch.tensor([2.0], dtype=torch.float64))


def moved(config: OptimizerConfig, gradients: list[float]) -> float:
    parameter = one_parameter()
    optimizer = build_optimizer(config, iter([parameter]))
    for gradient in gradients:
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
    return parameter.item()


def test_sgd() -> None:
    config = OptimizerConfig("sgd", learning_rate=0.1, momentum=0.5, weight_decay=0.2)
    # v1 = 1 + 0.2 * 2 = 1.4, x = 1.86; v2 = 0.5 * 1.4 + 3 + 0.2 * 1.86 = 4.072, x = 1.4528
    assert moved(config, [1.0, 3.0]) == pytest.approx(1.4528, rel=1e-12)


def test_nesterov() -> None:
    config = OptimizerConfig("sgd", learning_rate=0.1, momentum=0.5, nesterov=True)
    # v1 = 1, x = 2 - 0.1 * (1 + 0.5 * 1) = 1.85; v2 = 3.5, x = 1.85 - 0.1 * (3 + 0.5 * 3.5) = 1.375
    assert moved(config, [1.0, 3.0]) == pytest.approx(1.375, rel=1e-12)


def test_adamw() -> None:
    config = OptimizerConfig("adamw", learning_rate=0.1, weight_decay=0.2)
    # First the decay, 2 * (1 - 0.1 * 0.2) = 1.96; the first step of Adam has the size of the rate.
    assert moved(config, [7.0]) == pytest.approx(1.96 - 0.1, rel=1e-6)


def test_the_learning_rate_is_that_of_every_group() -> None:
    optimizer = torch.optim.SGD(
        [{"params": [one_parameter()]}, {"params": [one_parameter()], "lr": 3.0}], lr=1.0
    )
    set_learning_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]


def test_an_exponential_schedule_falls_after_each_epoch() -> None:
    config = ScheduleConfig(kind="exponential", factor=0.5)
    factors = [learning_rate_factor(config, passed, epochs=10) for passed in (0.0, 0.9, 1.0, 3.5)]
    assert factors == [1.0, 1.0, 0.5, 0.125]
