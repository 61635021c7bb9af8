"""A source as it is trained on: inputs and numbers in units that one learning rate fits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discrimloss.auditing.sources.base import AuditSource
from discrimloss.data.base import Split, TaskData

ROW_LENGTH = 2.0  # of a sample's features, on average: shorter ones are memorised more slowly
ROWS_MEASURED = 10_000
FARTHEST = 10.0  # numbers farther from the middle than so many spreads count as so far


@dataclass(frozen=True)
class TargetScale:
    """The unit that numbers are trained in."""

    middle: float = 0.0
    spread: float = 1.0
    is_regression: bool = False

    def back(self, suggested: Any) -> Any:
        """Suggestions in the unit of the labels; classes as they are."""
        if not self.is_regression:
            return suggested
        return suggested.astype(np.float64) * self.spread + self.middle


@dataclass(frozen=True)
class ScaledRows:
    """Multiplies features, batch by batch."""

    factor: float

    def __call__(self, inputs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Shape as before."""
        return inputs * self.factor


def audit_task(source: AuditSource, cache: Path) -> tuple[TaskData, TargetScale]:
    """What an audit trains on, and how its numbers come back to the unit of the labels."""
    task = source.task(cache)
    if len(task.input_shape) == 1:
        task = replace(task, prepare=_scaled_rows(task.train))
    if not task.is_regression:
        return task, TargetScale()
    target, scale = _scaled_numbers(task.train.target)
    return replace(task, train=Split(task.train.inputs, target)), scale


def _scaled_rows(part: Split) -> ScaledRows:
    rows = torch.linspace(0, len(part) - 1, min(len(part), ROWS_MEASURED)).long()
    length = math.sqrt(float(part.inputs.rows(rows).double().square().sum(1).mean()))
    return ScaledRows(ROW_LENGTH / length if length else 1.0)


def _scaled_numbers(target: Tensor) -> tuple[Tensor, TargetScale]:
    numbers = target.double()
    low, middle, high = np.quantile(numbers.numpy(), (0.25, 0.5, 0.75))
    spread = float(high - low) / 1.349 or float(numbers.std()) or 1.0
    scaled = ((numbers - float(middle)) / spread).clamp(-FARTHEST, FARTHEST).float()
    return scaled, TargetScale(float(middle), spread, is_regression=True)
