"""How an audit trains a network. All hyperparameters follow from the data.

An audit compares labels with predictions, so the model must not have memorised the labels. Models
are small and regularised, and trained long enough to learn the task but not single labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from discrimloss.auditing.sources.base import AuditSource
from discrimloss.data.base import TaskData
from discrimloss.training.config import (
    ComponentConfig,
    NoiseConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
)

RECIPE = "audit"
FEWEST_STEPS = 16  # steps per epoch, so that small data gets small batches
SMALLEST_BATCH, LARGEST_BATCH = 16, 256
HELD_OUT = 0.2  # fraction of the samples that the network does not learn from
ENOUGH_HELD_OUT = 4000
MANY_IMAGES = 20_000  # with more images, the network is wider


@dataclass(frozen=True)
class _Training:
    """Training settings for one kind of model."""

    batch_size: int
    visits: int
    """Number of samples seen in the whole run, unless `epochs` limits it."""
    epochs: tuple[int, int]
    """Minimum and maximum number of epochs."""
    optimizer: OptimizerConfig
    schedule: ScheduleConfig


_IMAGES = _Training(
    batch_size=128,
    visits=80_000,
    epochs=(10, 40),
    optimizer=OptimizerConfig(learning_rate=0.15, nesterov=True, weight_decay=5e-4),
    schedule=ScheduleConfig("linear", warmup_epochs=1.0),
)
_IMAGE_REGRESSION = _Training(
    batch_size=128,
    visits=80_000,
    epochs=(12, 40),
    optimizer=OptimizerConfig("adamw", learning_rate=2e-3, weight_decay=1e-2),
    schedule=ScheduleConfig("cosine", warmup_epochs=1.0),
)
_FEATURES = _Training(
    batch_size=64,
    visits=600_000,
    epochs=(12, 30),
    optimizer=OptimizerConfig(learning_rate=0.05, nesterov=True, weight_decay=1e-3),
    schedule=ScheduleConfig("cosine"),
)
_FEATURE_REGRESSION = _Training(
    batch_size=64,
    visits=600_000,
    epochs=(12, 30),
    optimizer=OptimizerConfig("adamw", learning_rate=1e-3, weight_decay=1e-2),
    schedule=ScheduleConfig("cosine"),
)
_TEXTS = _Training(
    batch_size=32,
    visits=300_000,
    epochs=(8, 12),
    optimizer=OptimizerConfig("adamw", learning_rate=5e-4, weight_decay=1e-2),
    schedule=ScheduleConfig("cosine"),
)


def audit_config(
    source: AuditSource,
    task: TaskData,
    *,
    seed: int,
    epochs: int | None = None,
    method: str = "discrimloss",
) -> RunConfig:
    """Return the settings of one run of an audit.

    Args:
        source: the audited source.
        task: the source's `AuditSource.task`.
        seed: seed of this run.
        epochs: by default, they depend on the number of samples.
        method: the training method. Other methods than DiscrimLoss are for comparisons.
    """
    model = audit_model(task)
    training = _training(model.name, task.is_regression)
    samples = len(task.train)
    if epochs is None:
        fewest, most = training.epochs
        epochs = min(max(math.ceil(training.visits / samples), fewest), most)
    loss: Literal["cross_entropy", "smooth_l1"] = "cross_entropy"
    if task.is_regression:
        loss = "smooth_l1"
    batch_size = _batch_size(training.batch_size, samples)
    return RunConfig(
        recipe=RECIPE,
        data=ComponentConfig(source.kind, {"fingerprint": source.fingerprint()}),
        model=model,
        method=method,
        options={"held_out": _held_out(samples)} if method == "discrimloss" else {},
        hyperparameters="default",
        loss=loss,
        seed=seed,
        epochs=epochs,
        batch_size=batch_size,
        noise=NoiseConfig(),
        optimizer=_scaled_steps(batch_size / training.batch_size, training.optimizer),
        schedule=training.schedule,
        tensorboard=False,
    )


def _held_out(samples: int) -> float:
    """Return the held-out fraction: a fifth, or less for large data.

    A few thousand samples suffice to estimate the noise rate.
    """
    return min(HELD_OUT, max(ENOUGH_HELD_OUT / samples, 0.05))


def audit_model(task: TaskData) -> ComponentConfig:
    """Return the small model for the inputs: features, images, or n-grams of texts."""
    if len(task.input_shape) == 1:
        dropout = 0.2 if task.is_regression else 0.7  # makes memorising harder
        return ComponentConfig("mlp", {"hidden": 512, "dropout": dropout})
    if task.input_shape:
        is_small = task.input_shape[0] == 1 or len(task.train) <= MANY_IMAGES
        return ComponentConfig("compact_resnet", {"width": 16 if is_small else 32})
    inputs: Any = task.train.inputs
    return ComponentConfig("ngram_text", {"buckets": inputs.num_buckets})


def _training(model: str, is_regression: bool) -> _Training:
    if model == "ngram_text":
        return _TEXTS
    if model == "mlp":
        return _FEATURE_REGRESSION if is_regression else _FEATURES
    return _IMAGE_REGRESSION if is_regression else _IMAGES


def _scaled_steps(factor: float, optimizer: OptimizerConfig) -> OptimizerConfig:
    """Decrease the learning rate for small batches, whose gradients are noisier."""
    if factor >= 1.0 or optimizer.kind != "sgd":
        return optimizer
    return replace(optimizer, learning_rate=optimizer.learning_rate * factor)


def _batch_size(usual: int, samples: int) -> int:
    """Return a power of two, smaller for small data and larger for large data."""
    size = usual
    while size > SMALLEST_BATCH and samples / size < FEWEST_STEPS:
        size //= 2
    while size < LARGEST_BATCH and samples / size > 1000:
        size *= 2
    return size
