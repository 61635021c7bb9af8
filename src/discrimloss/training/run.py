"""Runs a whole training, from a config and a data directory to a summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from discrimloss.data.base import TaskData
from discrimloss.data.noise import NoisyLabels
from discrimloss.files.atomic_write import atomic_write
from discrimloss.judging.verdicts import Verdicts
from discrimloss.models.base import TaskShape, models
from discrimloss.options import OptionError
from discrimloss.training.checkpoint import find_checkpoint
from discrimloss.training.config import RunConfig
from discrimloss.training.denormals import flushed_denormals
from discrimloss.training.evaluation import (
    dynamics_metrics,
    is_better,
    metric_name,
    score_metrics,
    verdict_metrics,
)
from discrimloss.training.interruption import StopRequest, stop_on_signals
from discrimloss.training.labels import hold_out, make_labels, truth_is_known
from discrimloss.training.local_data import load_data
from discrimloss.training.loop import (
    Observer,
    SilentObserver,
    Splits,
    TrainingLoop,
)
from discrimloss.training.methods.base import Method, Setting, methods
from discrimloss.training.records import Row, versions
from discrimloss.training.run_directory import (
    ENVIRONMENT,
    VERDICTS,
    NoDirectory,
    RunDirectory,
    require_same_settings,
)
from discrimloss.training.sample_traces import SampleTraces, StepRecorder
from discrimloss.training.seeds import derived_generator, derived_seed
from discrimloss.training.task_losses import task_losses


@dataclass(frozen=True)
class RunRequest:
    """A training run: its settings, its data and the directory of its results."""

    config: RunConfig
    data: Path
    out: Path | None
    """Directory of the results. If None, nothing is written."""
    resume: bool = False
    overwrite: bool = False
    command: str = ""
    """The command that repeats the run, for the summary."""


@dataclass(frozen=True)
class Prepared:
    """The data, the labels and the method of a run, before its first step."""

    task: TaskData
    labels: NoisyLabels
    method: Method
    splits: Splits


@dataclass(frozen=True)
class TrainedRun:
    """The results of a run."""

    summary: dict[str, Any]
    verdicts: Verdicts | None = None
    history: list[Row] = field(default_factory=list)
    traces: SampleTraces | None = None
    """The traces of the samples over the epochs, unless there are too many samples."""


def run_training(
    request: RunRequest,
    observer: Observer | None = None,
    *,
    task: TaskData | None = None,
    recorders: Sequence[StepRecorder] = (),
) -> dict[str, Any]:
    """Train according to the config, or resume a stopped run. Return the summary.

    Args:
        request: the run.
        observer: called after every step and every epoch.
        task: the data. By default the dataset of the config.
        recorders: record the losses and outputs of every step.
    """
    return train_run(request, observer, task=task, recorders=recorders).summary


def train_run(
    request: RunRequest,
    observer: Observer | None = None,
    *,
    task: TaskData | None = None,
    recorders: Sequence[StepRecorder] = (),
    judge: Callable[[Method], Verdicts] | None = None,
) -> TrainedRun:
    """Train according to the config, or resume a stopped run.

    Args:
        request: the run.
        observer: called after every step and every epoch.
        task: the data. By default the dataset of the config.
        recorders: record the losses and outputs of every step.
        judge: returns the verdicts instead of `Method.verdicts`. The run then writes no verdicts;
            the caller may do so. A finished run that is resumed is not trained again. Its verdicts
            come from its last checkpoint.
    """
    config = request.config
    directory = NoDirectory() if request.out is None else RunDirectory(request.out)
    if config.threads > 0:
        torch.set_num_threads(config.threads)
    with stop_on_signals() as stop:
        directory.check(request.resume, request.overwrite)
        if request.resume and directory.holds_run:
            # The configs of older versions do not have these settings.
            new = {"noisy_validation": 0.0, "epochs_end_with_passes": False, "mixup": 0.0}
            saved = {**new, **directory.config()}
            require_same_settings(saved, config.as_dict())
            directory.require_intact()
            if directory.is_finished and judge is None:
                return TrainedRun(directory.summary())
        accelerator = build_accelerator(config)
        accelerator.wait_for_everyone()  # all read the directory before one writes
        if config.batch_size < accelerator.num_processes:
            raise OptionError(
                f"batch_size = {config.batch_size} is less than one sample for each of the "
                f"{accelerator.num_processes} processes"
            )
        prepared = prepare_run(config, request.data, accelerator.process_index, task)
        is_main = accelerator.is_main_process
        watched = (stop, observer if is_main and observer else SilentObserver(), recorders)
        if not is_main:
            return _train(request, prepared, accelerator, directory, *watched, judge)
        with directory.locked():
            directory.check(request.resume, request.overwrite)  # again: another run may have ended
            if not request.resume:
                directory.clear()
            directory.write_config(config.as_dict())
            circumstances = _circumstances(request, prepared, accelerator)
            directory.write(ENVIRONMENT, json.dumps(circumstances, indent=1) + "\n")
            return _train(request, prepared, accelerator, directory, *watched, judge)


def build_accelerator(config: RunConfig) -> Accelerator:
    """Return the accelerator: device, precision and processes of a run."""
    if config.device not in ("auto", "cpu"):
        _choose_device(config.device)
    # Accelerate connects processes on CPUs only with `cpu=True`.
    has_other_device = getattr(torch, "accelerator", torch.cuda).is_available()
    is_cpu = config.device == "cpu" or (config.device == "auto" and not has_other_device)
    return Accelerator(cpu=is_cpu, mixed_precision=config.mixed_precision)


def _choose_device(name: str) -> None:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise OptionError(f"device = {name!r} cannot be used here ({reason})") from error
    if device.index is not None:
        torch.accelerator.set_device_index(device.index)


def prepare_run(
    config: RunConfig, data: Path, process_index: int = 0, task: TaskData | None = None
) -> Prepared:
    """Make the labels noisy and build the method.

    Args:
        config: the settings of the run.
        data: the data directory.
        process_index: index of this process, from 0.
        task: the data. By default the dataset of the config, read from `data`.
    """
    task = load_data(config, data) if task is None else task
    if config.train_size is not None and config.train_size > len(task.train):
        raise OptionError(
            f"train_size = {config.train_size} is more than the {len(task.train)} training samples"
        )
    task = task.limited(config.train_size, derived_generator(0, "train_size"))
    labels = make_labels(config.noise, task, derived_generator(config.seed, "noise"))
    if config.noisy_validation > 0.0:
        task, labels = hold_out(task, labels, config.noisy_validation, config.seed)
    method = build_method(config, task, labels.target)
    # All processes start from the same initial weights, but draw different dropout.
    torch.manual_seed(derived_seed(config.seed, "steps", process_index))
    train = replace(task.train, target=labels.target)
    tokenize = getattr(method.networks[0], "tokenize", None)
    splits = Splits(train, task.test, task.validation, task.prepare, tokenize)
    return Prepared(task, labels, method, splits)


def build_method(config: RunConfig, task: TaskData, target: torch.Tensor) -> Method:
    """Return the method with its networks, initialised from the seed."""
    numbers = target.double() if task.is_regression else None
    shape = TaskShape(
        task.input_shape,
        task.num_classes,
        target_mean=0.0 if numbers is None else float(numbers.mean()),
        target_spread=1.0 if numbers is None else max(float(numbers.std()), 1e-6),
    )

    def build_network() -> torch.nn.Module:
        network: torch.nn.Module = models.get(config.model.name)(shape, **config.model.options)
        return network

    setting = Setting(
        build_network=build_network,
        task_losses=task_losses(config.loss, task.is_regression),
        num_samples=len(target),
        num_classes=task.num_classes,
        epochs=config.epochs,
        target=target,
        difficulty=task.difficulty,
        has_validation=task.validation is not None,
    )
    torch.manual_seed(derived_seed(config.seed, "model"))
    try:
        method: Method = methods.get(config.method)(setting, **config.options)
    except ValueError as error:
        raise OptionError(str(error).strip().partition("\n")[0]) from error
    except (RuntimeError, ArithmeticError) as error:  # libraries raise these for impossible sizes
        reason = str(error).strip().partition("\n")[0]
        raise OptionError(f"cannot build this method and model: {reason}") from error
    return method


def _train(
    request: RunRequest,
    prepared: Prepared,
    accelerator: Accelerator,
    directory: RunDirectory,
    stop: StopRequest,
    observer: Observer,
    recorders: Sequence[StepRecorder],
    judge: Callable[[Method], Verdicts] | None,
) -> TrainedRun:
    config, splits = request.config, prepared.splits
    watched = (stop, observer, recorders)
    loop = TrainingLoop(config, prepared.method, splits, accelerator, directory, *watched)
    if request.resume and accelerator.is_main_process:
        find_checkpoint(directory)  # completes an interrupted replacement before others read
    accelerator.wait_for_everyone()
    checkpoint = find_checkpoint(directory) if request.resume else None
    if checkpoint is not None:
        loop.resume(checkpoint)
    with flushed_denormals():
        history = loop.run()
    fit = loop.finish()
    verdicts = prepared.method.verdicts() if judge is None else judge(prepared.method)
    truth = prepared.labels if truth_is_known(config.noise, prepared.task) else None
    scores = prepared.method.sample_scores()
    dynamics: dict[str, torch.Tensor] = {}
    if loop.dynamics is not None:
        loop.dynamics.share()
        dynamics = loop.dynamics.scores()
    summary = summarize(config, history, fit, verdicts, scores, truth)
    if dynamics:
        summary |= dynamics_metrics(dynamics, truth)
    summary["seconds"] = round(loop.seconds, 1)
    summary |= _circumstances(request, prepared, accelerator)
    if accelerator.is_main_process:
        if verdicts is not None and judge is None and directory.is_kept:
            known = truth is not None
            write_verdicts(verdicts, scores, prepared, known, directory, dynamics)
        directory.finish(summary)
    accelerator.wait_for_everyone()
    return TrainedRun(summary, verdicts, history, loop.traces)


def _circumstances(
    request: RunRequest, prepared: Prepared, accelerator: Accelerator
) -> dict[str, Any]:
    """Return seed, hyperparameters, versions and device of a run, before its first step."""
    return {
        "seed": request.config.seed,
        "initial_weights": request.config.model.options.get("pretrained") or "random",
        "method_hyperparameters": prepared.method.hyperparameters(),
        "versions": versions(),
        "device": str(accelerator.device),
        "processes": accelerator.num_processes,
        "command": request.command,
        "class_names": list(prepared.task.class_names),
        "notes": list(prepared.task.notes),
    }


def summarize(
    config: RunConfig,
    history: list[Row],
    fit: float,
    verdicts: Verdicts | None,
    scores: torch.Tensor | None,
    truth: NoisyLabels | None,
) -> dict[str, Any]:
    """Return the metrics of a run: first those of the last epoch, then those of the best."""
    is_regression = config.loss != "cross_entropy"
    metric = metric_name(is_regression)
    summary: dict[str, Any] = {
        "recipe": config.recipe,
        "method": config.method,
        "metric": metric,
        f"train_{metric}_noisy": fit,
        "epochs": config.epochs,
    }
    if f"test_{metric}" in history[-1]:
        summary["test"] = _last_and_best(history, f"test_{metric}", is_regression)
    if f"validation_{metric}" in history[-1]:
        source = "noisy_validation" if config.noisy_validation > 0.0 else "dataset"
        last = history[-1][f"validation_{metric}"]
        summary["validation"] = {"last": last, "source": source}
    if truth is not None:
        summary["noise_true"] = float(truth.is_wrong.double().mean())
    if verdicts is not None:
        summary |= verdict_metrics(verdicts, truth)
    if scores is not None:
        summary |= score_metrics(scores, truth)
    return summary


def _last_and_best(history: list[Row], name: str, is_regression: bool) -> dict[str, Any]:
    curve = [row[name] for row in history]
    best = 0
    for number, value in enumerate(curve):
        if is_better(value, curve[best], is_regression):
            best = number
    return {"last": curve[-1], "best": curve[best], "best_epoch": history[best]["epoch"]}


def write_verdicts(
    verdicts: Verdicts,
    scores: torch.Tensor | None,
    prepared: Prepared,
    truth_known: bool,
    directory: RunDirectory,
    dynamics: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Write the verdicts on all training labels to ``verdicts.parquet``.

    The file has the columns of `Verdicts.to_pandas`, with the labels that were trained on as the
    given ones, and three more: ``target``, the given label as the model sees it; ``clean_target``,
    if the truth is known; ``method_score``, if the method has scores. For classification it also
    has ``aum``, ``confidence``, ``variability`` and ``correctness``.

    Args:
        verdicts: verdicts of the method.
        scores: scores of the method, `Method.sample_scores`.
        prepared: the task and its labels.
        truth_known: whether `NoisyLabels.clean_target` is correct.
        directory: directory for the file.
        dynamics: further columns, `TrainingDynamics.scores`.
    """
    target = prepared.labels.target.cpu().numpy()
    names = np.array(prepared.task.class_names, dtype=object)
    given = target if prepared.task.is_regression or not len(names) else names[target]
    frame = replace(verdicts, given_label=given).to_pandas()
    frame["target"] = target
    if truth_known:
        frame["clean_target"] = prepared.labels.clean_target.cpu().numpy()
    if scores is not None:
        frame["method_score"] = scores.detach().float().cpu().numpy()
    for name, values in (dynamics or {}).items():
        frame[name] = values.float().numpy()
    with atomic_write(directory / VERDICTS) as unfinished:
        frame.to_parquet(unfinished)
