"""Compares cross-entropy and DiscrimLoss on the recipe `digits`.

With the same seed, both methods get the same initial weights, wrong labels, batches and learning
rates.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from discrimloss import Verdicts
from discrimloss.data.base import TaskData
from discrimloss.data.digits import SIDES, split_rows
from discrimloss.data.noise import NoisyLabels
from discrimloss.errors import DiscrimLossError
from discrimloss.recipes import load_recipe
from discrimloss.training.config import RunConfig
from discrimloss.training.grid import Job, run_jobs
from discrimloss.training.labels import make_labels
from discrimloss.training.local_data import load_data
from discrimloss.training.methods.base import Method
from discrimloss.training.run import RunRequest, train_run
from discrimloss.training.seeds import derived_generator

METHODS = ("plain", "discrimloss")
MOST_PROCESSES = 4


@dataclass(frozen=True)
class NoisyDigits:
    """The digits of a run: a training set with wrong labels, and a clean test set."""

    config: RunConfig

    @cached_property
    def task(self) -> TaskData:
        """Pixels and clean labels."""
        return load_data(self.config, Path())

    @cached_property
    def labels(self) -> NoisyLabels:
        """Given and clean training labels. Only the evaluation uses the clean ones."""
        generator = derived_generator(self.config.seed, "noise")
        return make_labels(self.config.noise, self.task, generator)

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """Shape (train,): rows of the training samples in `sklearn.datasets.load_digits()`."""
        rows: npt.NDArray[np.int64] = split_rows(self.config.data.options["split_seed"])[0].numpy()
        return rows

    @cached_property
    def images(self) -> npt.NDArray[np.float32]:
        """Shape (train, 8, 8): the training images, from 0 (white) to 1 (black)."""
        pixels = self.task.train.inputs.rows(torch.arange(len(self.task.train)))
        images: npt.NDArray[np.float32] = pixels.reshape(-1, *SIDES).numpy()
        return images


@dataclass(frozen=True)
class Values:
    """The metrics of one seed, as fractions from 0 to 1. A metric is None if it is undefined."""

    cross_entropy_accuracy: float
    """Test accuracy of cross-entropy after the last epoch."""
    discrimloss_accuracy: float
    """Test accuracy of DiscrimLoss after the last epoch."""
    recall: float | None
    """Fraction of the wrong labels that are flagged."""
    precision: float | None
    """Fraction of the flagged labels that are wrong."""
    true_noise_rate: float
    estimated_noise_rate: float | None
    wrong_labels: int
    flagged_labels: int
    flagged_and_wrong: int


VALUE_NAMES = tuple(field.name for field in fields(Values))


@dataclass(frozen=True)
class SeedRun:
    """The digits of one seed, and the verdicts on their labels."""

    digits: NoisyDigits
    values: Values
    verdicts: Verdicts
    """Verdicts of DiscrimLoss after the last epoch, with labels that the network suggests."""


@dataclass(frozen=True)
class Experiment:
    """The metrics of all seeds, and the digits and verdicts of the first seed."""

    noise: float
    epochs: int
    seeds: tuple[int, ...]
    values: tuple[Values, ...]
    first: SeedRun

    def per_seed(self, name: str) -> list[float | None]:
        """Return the metric of this name for every seed. Names are the fields of `Values`."""
        return [getattr(values, name) for values in self.values]


def run_experiment(
    noise: float,
    epochs: int,
    seeds: Sequence[int],
    on_run: Callable[[], None] = lambda: None,
) -> Experiment:
    """Train both methods with every seed. Call `on_run` after each training run.

    Raises:
        DiscrimLossError: a training run failed.
        Interrupted: on Ctrl-C or SIGTERM.
    """
    jobs = [
        Job(f"{method} {seed}", train_digits, (demo_config(method, seed, noise, epochs),))
        for seed in seeds
        for method in METHODS
    ]
    processes = min(len(jobs), os.cpu_count() or 1, MOST_PROCESSES)
    found: dict[str, tuple[float, Verdicts]] = {}
    for result in run_jobs(jobs, processes, lambda _: on_run()):
        if result.error is not None:
            raise DiscrimLossError(f"the training {result.job.name} failed: {result.error}")
        found[result.job.name] = result.value
    runs = []
    for seed in seeds:
        plain, ours = (found[f"{method} {seed}"] for method in METHODS)
        digits = NoisyDigits(demo_config("discrimloss", seed, noise, epochs))
        values = _evaluate(digits, plain[0], ours[0], ours[1])
        runs.append(SeedRun(digits, values, ours[1]))
    return Experiment(noise, epochs, tuple(seeds), tuple(run.values for run in runs), runs[0])


def demo_config(method: str, seed: int, noise: float, epochs: int) -> RunConfig:
    """Return the config of a run of the recipe `digits`. The seed also selects the test set."""
    settings = [f"method={method}", f"seed={seed}", f"data.split_seed={seed}", "threads=1"]
    settings += [f"noise.rate={noise}", f"epochs={epochs}", "tensorboard=false"]
    return load_recipe("digits", settings)


def train_digits(config: RunConfig) -> tuple[float, Verdicts]:
    """Train without writing files. Return the test accuracy, from 0 to 1, and the verdicts."""
    digits = NoisyDigits(config)

    def judge(method: Method) -> Verdicts:
        given = digits.labels.target
        network = method.networks[0].eval()
        with torch.no_grad():
            logits = network(digits.task.train.inputs.rows(torch.arange(len(given))))
        verdicts = method.verdicts()
        assert verdicts is not None  # both methods keep losses
        best = logits.argmax(1)
        best_other = logits.scatter(1, given[:, None], -torch.inf).argmax(1)
        is_flagged = torch.from_numpy(verdicts.verdict == "incorrect")
        return replace(
            verdicts,
            ids=digits.rows.tolist(),
            given_label=given.numpy(),
            suggested_label=torch.where(is_flagged, best_other, best).numpy(),
        )

    trained = train_run(RunRequest(config, Path(), None), task=digits.task, judge=judge)
    assert trained.verdicts is not None
    return trained.summary["test"]["last"] / 100, trained.verdicts


def _evaluate(digits: NoisyDigits, plain: float, ours: float, verdicts: Verdicts) -> Values:
    """Return the metrics of a seed, using the clean labels, which training does not see."""
    wrong = digits.labels.is_wrong.numpy()
    flagged = verdicts.verdict == "incorrect"
    num_wrong, num_flagged = int(wrong.sum()), int(flagged.sum())
    num_both = int((wrong & flagged).sum())
    return Values(
        cross_entropy_accuracy=plain,
        discrimloss_accuracy=ours,
        recall=num_both / num_wrong if num_wrong else None,
        precision=num_both / num_flagged if num_flagged else None,
        true_noise_rate=num_wrong / len(wrong),
        estimated_noise_rate=verdicts.noise_rate,
        wrong_labels=num_wrong,
        flagged_labels=num_flagged,
        flagged_and_wrong=num_both,
    )


def mean_and_std(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Return mean and sample standard deviation of the values that are not None."""
    known = [value for value in values if value is not None]
    return (
        statistics.fmean(known) if known else None,
        statistics.stdev(known) if len(known) > 1 else None,
    )
