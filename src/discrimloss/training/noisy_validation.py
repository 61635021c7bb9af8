"""Validation without clean labels: a part of the training samples that is not learned from."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from discrimloss.data.base import Split, TaskData
from discrimloss.data.noise import NoisyLabels
from discrimloss.options import OptionError
from discrimloss.training.seeds import derived_generator


def split_rows(num_samples: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Which samples are learned from and which are held out, both in ascending order.

    Raises:
        OptionError: one of the two would be empty.
    """
    held = round(share * num_samples)
    if not 0 < held < num_samples:
        raise OptionError(
            f"noisy_validation = {share} of {num_samples} training samples leaves nothing to "
            f"{'learn from' if held else 'validate on'}: choose another share"
        )
    drawn = torch.randperm(num_samples, generator=derived_generator(seed, "noisy_validation"))
    return drawn[held:].sort().values, drawn[:held].sort().values


def hold_out(
    task: TaskData, labels: NoisyLabels, share: float, seed: int
) -> tuple[TaskData, NoisyLabels]:
    """The task and the labels to learn from; the rest, as noisy as it is, is for validation.

    It takes the place of a validation part of the dataset, whose labels may be clean.
    """
    learned, held = split_rows(len(task.train), share, seed)
    validation = Split(task.train.inputs, labels.target).select(held)
    return (
        replace(task.with_training_rows(learned), validation=validation),
        labels.select(learned),
    )
