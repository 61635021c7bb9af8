"""The labels of a run: those of the dataset with the configured noise, and a held-out split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrimloss.data import noise as label_noise
from discrimloss.data.base import DataError, Split, TaskData
from discrimloss.data.noise import NoisyLabels
from discrimloss.options import OptionError
from discrimloss.training.config import NoiseConfig
from discrimloss.training.seeds import derived_generator


def make_labels(config: NoiseConfig, task: TaskData, generator: torch.Generator) -> NoisyLabels:
    """Return the given and the clean labels of the training samples.

    Raises:
        OptionError: the task does not support this kind of noise.
        DataError: a file of labels is missing or does not fit.
    """
    target, classes = task.train.target, task.num_classes
    try:
        if config.kind == "human":
            if classes is None:
                raise OptionError("noise.kind = 'human' is for classes, not for a regression")
            return label_noise.human(target, _human_labels(config, task), classes)
        if config.kind == "symmetric":
            return label_noise.symmetric(target, config.rate, generator, classes)
        if config.kind == "permuted":
            return label_noise.permuted(target, config.rate, generator, classes)
        if config.kind == "none":
            return NoisyLabels(target.clone(), target, classes)
        if classes is None:
            raise OptionError(
                f"noise.kind = {config.kind!r} is for classes, not for a regression: "
                "valid are none, symmetric, permuted"
            )
        if config.kind == "instance":
            features = _features(task)
            return label_noise.instance(target, config.rate, generator, classes, features)
        mapping = None
        if config.mapping is not None:
            mapping = {int(source): int(goal) for source, goal in config.mapping.items()}
        return label_noise.asymmetric(target, config.rate, generator, classes, mapping)
    except OptionError:
        raise
    except ValueError as error:
        raise OptionError(f"noise: {error}") from error


def truth_is_known(config: NoiseConfig, task: TaskData) -> bool:
    """Return whether the labels of the dataset, before noise is added, count as clean."""
    return task.train_labels_are_clean or config.kind != "none"


def _human_labels(config: NoiseConfig, task: TaskData) -> Tensor:
    name = config.labels
    assert name is not None
    if Path(name).suffix and Path(name).is_file():  # without a suffix: labels of the dataset
        return _chosen_labels(label_noise.read_label_file(Path(name)), task, name)
    if task.human_labels is None:
        raise DataError(
            f"noise.labels = {name!r} is not a file, and this dataset has no human labels"
        )
    return task.human_labels(name)


def _chosen_labels(labels: Tensor, task: TaskData, name: str) -> Tensor:
    if task.chosen is None:
        return labels
    if len(labels) <= int(task.chosen.max()):
        raise DataError(f"{name} must have a label for every published training sample")
    return labels[task.chosen]


def _features(task: TaskData) -> Tensor:
    inputs: Any = task.train.inputs.rows(torch.arange(len(task.train)))
    if not isinstance(inputs, Tensor) or not task.train.inputs.in_memory:
        raise OptionError("noise.kind = 'instance' needs inputs that are numbers in memory")
    features: Tensor = task.prepare(inputs, None)
    return features.flatten(1).float()


def split_rows(num_samples: int, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return the training samples and the held-out samples, both in ascending order.

    Raises:
        OptionError: one of the two would be empty.
    """
    held = round(fraction * num_samples)
    if not 0 < held < num_samples:
        raise OptionError(
            f"noisy_validation = {fraction} of {num_samples} training samples leaves nothing to "
            f"{'train on' if held else 'validate on'}: choose another fraction"
        )
    drawn = torch.randperm(num_samples, generator=derived_generator(seed, "noisy_validation"))
    return drawn[held:].sort().values, drawn[:held].sort().values


def hold_out(
    task: TaskData, labels: NoisyLabels, fraction: float, seed: int
) -> tuple[TaskData, NoisyLabels]:
    """Hold out training samples with their noisy labels, for validation without clean labels.

    The held-out samples replace the validation split of the dataset, whose labels may be clean.

    Returns:
        The task and the labels without the held-out samples.
    """
    trained, held = split_rows(len(task.train), fraction, seed)
    validation = Split(task.train.inputs, labels.target).select(held)
    task = replace(task.with_training_rows(trained), validation=validation)
    return task, labels.select(trained)
