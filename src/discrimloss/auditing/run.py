"""A whole audit: train, judge the labels once, and keep or write what was found."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from discrimloss.auditing.directory import CACHE, REPORT, RUNS, SUMMARY, AuditDirectory
from discrimloss.auditing.out_of_fold.regression_verdicts import (
    is_regression_on_features,
    regression_verdicts,
)
from discrimloss.auditing.outputs import left_out_notes, summarize, write_outputs
from discrimloss.auditing.predictions import PredictionRecord
from discrimloss.auditing.progress import ObserverOfRun, observing
from discrimloss.auditing.report.contents import ReportRun
from discrimloss.auditing.report.read_run import run_in_memory
from discrimloss.auditing.result import AuditResult
from discrimloss.auditing.settings import audit_config
from discrimloss.auditing.sources.base import (
    FINGERPRINT_VERSION,
    AuditSource,
    SourceOptions,
)
from discrimloss.auditing.task import audit_task
from discrimloss.data.base import TaskData
from discrimloss.judging.combine import combine_verdicts
from discrimloss.judging.verdicts import Verdicts
from discrimloss.training.records import versions
from discrimloss.training.run import RunRequest, train_run
from discrimloss.training.run_directory import RunDirectory

HIGHEST_SEED = 2**31 - 1
NO_EPOCHS = "The number of epochs has no effect: regression on features trains no network."
OpenSource = Callable[[Path | None], AuditSource]
"""Opens a source, given a directory for a cache, or None to keep everything in memory."""


@dataclass(frozen=True)
class AuditSettings:
    """How an audit trains.

    Raises:
        ValueError: a value is out of its range.
    """

    runs: int = 1
    epochs: int | None = None
    """Of each run; None: as the number of samples suggests."""
    seed: int = 0
    """Of the first run; each further run has the next one."""
    threads: int = 0
    """CPU threads; 0 leaves the choice to torch."""

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise ValueError(f"runs must be 1 or more, not {self.runs}")
        if self.epochs is not None and self.epochs < 2:
            raise ValueError(f"epochs must be 2 or more, not {self.epochs}")
        if not 0 <= self.seed <= HIGHEST_SEED - self.runs:
            raise ValueError(f"seed must be a number from 0 to {HIGHEST_SEED}, not {self.seed}")
        if self.threads < 0:
            raise ValueError(f"threads must be 0 or more, not {self.threads}")


def run_audit(
    open_source: OpenSource,
    options: SourceOptions,
    settings: AuditSettings | None = None,
    *,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | ObserverOfRun = False,
) -> AuditResult:
    """Audit a source, or go on with an audit that was stopped.

    Args:
        open_source: opens the source.
        options: how the source is read, as requested.
        settings: how to train.
        out: a directory for all files of the audit; None writes nothing.
        resume: whether to go on with an audit in `out` that was stopped.
        overwrite: whether to replace an audit in `out`.
        progress: see `discrimloss.auditing.progress.observing`.

    Raises:
        DiscrimLossError: the source cannot be audited, or the directory cannot be used.
    """
    settings = settings or AuditSettings()
    with observing(progress, settings.runs) as observe:
        if out is None:
            return _Audit(open_source(None), options, settings, None, observe).run()
        directory = AuditDirectory(out)
        requested = _requested(options, settings)
        with directory.opened(requested, resume, overwrite):
            if resume and directory.is_finished:
                in_memory = None if options.path else open_source(None)
                return AuditResult.read(directory, in_memory)
            source = open_source(directory / CACHE)
            if overwrite:  # after the source has been read: a refused one costs no earlier audit
                directory.clear()
            return _Audit(source, options, settings, directory, observe).run()


class _Audit:
    """An audit of a source that is open.

    Args:
        source: what is audited.
        options: as requested, before anything was detected.
        settings: how to train.
        directory: where all files go, or None.
        observe: makes the observers of the runs.
    """

    def __init__(
        self,
        source: AuditSource,
        options: SourceOptions,
        settings: AuditSettings,
        directory: AuditDirectory | None,
        observe: ObserverOfRun | None,
    ) -> None:
        self.source, self.settings = source, settings
        self.directory, self.observe = directory, observe
        self.command = command_line(options, settings, directory)
        self.requested = _requested(options, settings)
        self.runs: list[ReportRun] = []
        """Runs in memory; runs with a directory are read from there."""

    def run(self) -> AuditResult:
        """Train and judge; write everything if there is a directory."""
        started = time.perf_counter()
        record = self._record()
        if self.directory is not None:
            self.directory.write_settings(record)
        verdicts = self._verdicts()
        summary = {
            **summarize(self.source, verdicts),
            "runs": self.settings.runs,
            "seconds": round(time.perf_counter() - started, 1),
            "command": self.command,
            "versions": versions(),
        }
        directory = self.directory
        result = AuditResult(
            verdicts,
            summary,
            record,
            source=self.source,
            directory=None if directory is None else directory.path,
            runs=self.runs,
        )
        if directory is not None:
            write_outputs(directory, self.source, verdicts)
            result.report(directory / REPORT)
            directory.write_json(SUMMARY, summary)  # last: it marks the audit as finished
        return result

    def _verdicts(self) -> Verdicts:
        """The verdicts of all runs as one: of out-of-fold predictions, or of trained networks."""
        runs, source = range(1, self.settings.runs + 1), self.source
        task = source.task(self._cache())
        if is_regression_on_features(task):
            verdicts = combine_verdicts([self._out_of_fold(number, task) for number in runs])
            return _named(verdicts, source, verdicts.suggested_label)
        task, scale = audit_task(task)
        verdicts = combine_verdicts([self._train(number, task) for number in runs])
        return _named(verdicts, source, scale.back(verdicts.suggested_label))

    def _out_of_fold(self, number: int, task: TaskData) -> Verdicts:
        """Judge regression targets by out-of-fold predictions."""
        settings = self.settings
        verdicts = regression_verdicts(task, settings.seed + number - 1, settings.threads)
        if settings.epochs is None:
            return verdicts
        return replace(verdicts, notes=(*verdicts.notes, NO_EPOCHS))

    def _cache(self) -> Path | None:
        return None if self.directory is None else self.directory / CACHE

    def _record(self) -> dict[str, Any]:
        """What is audited and how, as ``audit.json`` has it."""
        return {
            "source": asdict(self.source.options),
            "fingerprint": self.source.fingerprint(),
            "fingerprint_version": FINGERPRINT_VERSION,
            "kind": self.source.kind,
            "samples": len(self.source),
            "class_names": list(self.source.class_names),
            **self.requested,
            "command": self.command,
        }

    def _train(self, number: int, task: TaskData) -> Verdicts:
        """Train one run, or the rest of it, and judge the labels."""
        settings = self.settings
        seed = settings.seed + number - 1
        config = audit_config(self.source, task, seed=seed, epochs=settings.epochs)
        config = replace(config, threads=settings.threads)
        record = PredictionRecord(task.train.target, task.num_classes, config.epochs)
        out = None if self.directory is None else self.directory / RUNS / str(number)
        resume = out is not None and RunDirectory(out).holds_run
        request = RunRequest(config, Path(), out, resume=resume, command=self.command)
        observer = None if self.observe is None else self.observe(number, config.epochs)
        run = train_run(request, observer, task=task, recorders=[record], judge=record.verdicts)
        assert run.verdicts is not None
        if out is None:
            self.runs.append(run_in_memory(str(number), config, run))
        return run.verdicts


def _named(verdicts: Verdicts, source: AuditSource, suggested: Any) -> Verdicts:
    """Verdicts with the ids and labels of the source, and with notes on how it was read."""
    given = source.target.numpy()
    if source.is_regression:
        labels = {"given_label": given.astype(np.float64), "suggested_label": suggested}
    else:
        names = np.array(source.class_names, dtype=object)
        labels = {"given_label": names[given], "suggested_label": names[suggested]}
    left_out = left_out_notes(source.left_out_why, source.store.unit)
    notes = tuple(dict.fromkeys((*left_out, *source.notes, *verdicts.notes)))
    return replace(verdicts, ids=source.ids, notes=notes, **labels)


def _requested(options: SourceOptions, settings: AuditSettings) -> dict[str, Any]:
    """What must be the same to go on with an audit."""
    return {
        "asked": asdict(options),
        "runs": settings.runs,
        "seed": settings.seed,
        "epochs": settings.epochs,
    }


def command_line(
    options: SourceOptions, settings: AuditSettings, directory: AuditDirectory | None
) -> str:
    """The command that does the same audit; empty for data in memory."""
    if not options.path:
        return ""
    words = ["discrimloss", "audit", options.path]
    words += [] if directory is None else ["--out", str(directory.path)]
    given = ("label", "text", "image", "id", "encoder")
    for name, value in (
        *((name, getattr(options, name)) for name in given),
        ("epochs", settings.epochs),
    ):
        words += [] if value is None else [f"--{name}", str(value)]
    if options.regression is not None:
        words.append("--regression" if options.regression else "--no-regression")
    words += [] if settings.runs == 1 else ["--runs", str(settings.runs)]
    words += [] if settings.seed == 0 else ["--seed", str(settings.seed)]
    return shlex.join(words)
