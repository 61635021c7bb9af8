"""A source as training data, scaled so that one learning rate fits every source."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discrimloss.data.base import Split, TaskData

ROW_LENGTH = 2.0  # norm of a row of scaled features: small features are memorised slowly
ROWS_MEASURED = 10_000
FARTHEST = 10.0  # regression targets are clipped at this many scales from the median


@dataclass(frozen=True)
class TargetScale:
    """How regression targets are scaled for training."""

    middle: float = 0.0
    spread: float = 1.0
    is_regression: bool = False

    def back(self, suggested: Any) -> Any:
        """Convert predicted targets to the unit of the labels. Classes are unchanged."""
        if not self.is_regression:
            return suggested
        return suggested.astype(np.float64) * self.spread + self.middle


@dataclass(frozen=True)
class ScaledRows:
    """Multiplies the features of each batch by a constant."""

    factor: float

    def __call__(self, inputs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return the scaled features, in the same shape."""
        return inputs * self.factor


def audit_task(task: TaskData) -> tuple[TaskData, TargetScale]:
    """Return the training data of an audit, and the scale of its regression targets.

    Args:
        task: the task of the audited source.
    """
    if len(task.input_shape) == 1:
        task = replace(task, prepare=_scaled_rows(task.train))
    if not task.is_regression:
        return task, TargetScale()
    target, scale = _scaled_targets(task.train.target)
    return replace(task, train=Split(task.train.inputs, target)), scale


def _scaled_rows(split: Split) -> ScaledRows:
    rows = torch.linspace(0, len(split) - 1, min(len(split), ROWS_MEASURED)).long()
    length = math.sqrt(float(split.inputs.rows(rows).double().square().sum(1).mean()))
    return ScaledRows(ROW_LENGTH / length if length else 1.0)


def _scaled_targets(target: Tensor) -> tuple[Tensor, TargetScale]:
    numbers = target.double()
    low, middle, high = np.quantile(numbers.numpy(), (0.25, 0.5, 0.75))
    spread = float(high - low) / 1.349 or float(numbers.std()) or 1.0
    scaled = ((numbers - float(middle)) / spread).clamp(-FARTHEST, FARTHEST).float()
    return scaled, TargetScale(float(middle), spread, is_regression=True)
