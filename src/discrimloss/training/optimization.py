"""Optimizers and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from discrimloss.training.config import OptimizerConfig, ScheduleConfig


def build_optimizer(
    config: OptimizerConfig, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """Return the optimizer of a run."""
    parameters = list(parameters)
    rate, decay = config.learning_rate, config.weight_decay
    if config.kind == "adamw":
        return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)
    return torch.optim.SGD(
        parameters,
        lr=rate,
        momentum=config.momentum,
        weight_decay=decay,
        nesterov=config.nesterov,
        foreach=True,
    )


def learning_rate_factor(config: ScheduleConfig, passed: float, epochs: int) -> float:
    """Return the factor of the learning rate.

    Args:
        config: the schedule.
        passed: number of passed epochs, including the fraction of the current one.
        epochs: number of epochs of the run.
    """
    if passed < config.warmup_epochs:
        return passed / config.warmup_epochs
    if config.kind == "step":
        return config.factor ** sum(passed >= milestone for milestone in config.milestones)
    if config.kind == "exponential":
        return config.factor ** math.floor(passed - config.warmup_epochs)
    remaining = max(epochs - config.warmup_epochs, 1e-9)
    progress = (passed - config.warmup_epochs) / remaining
    if config.kind == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * progress))
    if config.kind == "linear":
        return 1.0 - progress
    return 1.0


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the learning rate of all parameter groups."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
