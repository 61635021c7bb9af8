"""Verdicts from a network that is trained once with DiscrimLoss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from discrimloss.auditing.directory import RUNS, AuditDirectory
from discrimloss.auditing.predictions import PredictionRecord
from discrimloss.auditing.progress import ObserverOfRun
from discrimloss.auditing.report.contents import ReportRun
from discrimloss.auditing.report.read_run import run_in_memory
from discrimloss.auditing.request import AuditSettings
from discrimloss.auditing.settings import audit_config
from discrimloss.auditing.sources.base import AuditSource
from discrimloss.auditing.task import audit_task
from discrimloss.data.base import TaskData
from discrimloss.judging.judgeable import notes_on_small_classes
from discrimloss.judging.verdicts import Verdicts
from discrimloss.training.run import RunRequest, train_run
from discrimloss.training.run_directory import RunDirectory


class NetworkRuns:
    """Trains the runs of an audit, or resumes stopped ones.

    Args:
        source: the audited source.
        task: the source as training data.
        settings: how to train.
        directory: directory for all files, or None.
        command: command line of the same audit.
        observe: makes the observers of the runs.
    """

    def __init__(
        self,
        source: AuditSource,
        task: TaskData,
        settings: AuditSettings,
        directory: AuditDirectory | None,
        command: str,
        observe: ObserverOfRun | None,
    ) -> None:
        self.source, self.settings = source, settings
        self.directory, self.command, self.observe = directory, command, observe
        self._task, self._scale = audit_task(task)
        self.in_memory: list[ReportRun] = []
        """Runs without a directory."""

    @property
    def runs(self) -> Sequence[ReportRun | Path]:
        """The runs so far: in memory, or their directories."""
        return self.in_memory if self.directory is None else self.directory.runs()

    def verdicts(self, number: int) -> Verdicts:
        """Train one run and return its verdicts. Suggested targets have the unit of the labels."""
        settings, task = self.settings, self._task
        seed = settings.seed + number - 1
        config = audit_config(self.source, task, seed=seed, epochs=settings.epochs)
        config = replace(config, threads=settings.threads)
        record = PredictionRecord(
            task.train.target, task.num_classes, config.epochs, settings.noise_rate
        )
        out = None if self.directory is None else self.directory / RUNS / str(number)
        resume = out is not None and RunDirectory(out).holds_run
        request = RunRequest(config, Path(), out, resume=resume, command=self.command)
        observer = None if self.observe is None else self.observe(number, config.epochs)
        run = train_run(request, observer, task=task, recorders=[record], judge=record.verdicts)
        assert run.verdicts is not None
        if out is None:
            self.in_memory.append(run_in_memory(str(number), config, run))
        suggested = self._scale.back(run.verdicts.suggested_label)
        notes = run.verdicts.notes
        if task.num_classes is not None and run.verdicts.can_tell_noise:
            small = notes_on_small_classes(task.train.target, self.source.class_names)
            notes = (*notes, *small)
        return replace(run.verdicts, suggested_label=suggested, notes=notes)
