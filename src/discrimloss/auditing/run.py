"""Runs a whole audit: predicts, estimates which labels are wrong, and writes the result.

Most labels are predicted out of fold by simple models. Images without an encoder, regression
targets of texts or images, and labels of very many classes are predicted by a network that is
trained once with DiscrimLoss.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from discrimloss.auditing.directory import CACHE, REPORT, AuditDirectory
from discrimloss.auditing.evidence.why import Evidence
from discrimloss.auditing.health.data_health import DataHealth
from discrimloss.auditing.inspection import inspect_samples
from discrimloss.auditing.out_of_fold.choose import (
    Choice,
    choose_candidates,
    compared_inputs,
    is_cheap,
)
from discrimloss.auditing.out_of_fold.classes import ClassPredictions, out_of_fold_classes
from discrimloss.auditing.out_of_fold.own_estimator import OwnEstimator, own_estimator
from discrimloss.auditing.out_of_fold.regression_verdicts import (
    is_regression_on_features,
    regression_verdicts,
)
from discrimloss.auditing.out_of_fold.threads import limited_threads
from discrimloss.auditing.out_of_fold.verdicts import class_verdicts
from discrimloss.auditing.outputs import left_out_notes, summarize, write_outputs
from discrimloss.auditing.progress import ObserverOfRun, observing
from discrimloss.auditing.request import NETWORK, AuditSettings, command_line, requested_of_audit
from discrimloss.auditing.result import AuditResult
from discrimloss.auditing.sources.base import (
    FINGERPRINT_VERSION,
    AuditSource,
    SourceError,
    SourceOptions,
    require_room,
)
from discrimloss.errors import is_first_process
from discrimloss.judging.combine import combine_verdicts
from discrimloss.judging.verdicts import Verdicts
from discrimloss.training.processes import is_divided, of_first, require_equal, undivided
from discrimloss.training.records import versions

if TYPE_CHECKING:
    from discrimloss.auditing.network import NetworkRuns
    from discrimloss.auditing.report.contents import ReportRun
    from discrimloss.data.base import TaskData

ONE_PROCESS = (
    "this audit trains a network, which needs a single process: start it without torchrun, or pass "
    "an --encoder, whose features and models can be divided among processes"
)
OpenSource = Callable[[Path | None], AuditSource]
"""Opens a source. The argument is a cache directory, or None to keep everything in memory."""


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
    """Audit a source, or resume a stopped audit.

    Args:
        open_source: opens the source.
        options: how the source is read, as requested.
        settings: how to train.
        out: a directory for all files of the audit. If None, nothing is written.
        resume: whether to resume a stopped audit in `out`.
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
        requested = requested_of_audit(options, settings)
        with directory.opened(requested, resume, overwrite):
            if of_first(lambda: resume and directory.is_finished):
                in_memory = None if options.path else open_source(None)
                return AuditResult.read(directory, in_memory)
            audit = _Audit(open_source(directory / CACHE), options, settings, directory, observe)
            if overwrite:
                audit.prepare()  # first, so that a failure keeps the earlier audit
                directory.clear()
            return audit.run()


def assist_audit(open_source: OpenSource, options: SourceOptions, settings: AuditSettings) -> None:
    """Do the work of a further process in an audit that `run_audit` runs in the first process.

    Args:
        open_source: opens the source, which this process reads too.
        options: how the source is read, as requested.
        settings: how to train.
    """
    is_finished = of_first(bool)  # the value comes from the first process
    if not is_finished:
        _Audit(open_source(None), options, settings, None, None).run()


class _Audit:
    """An audit of a source that is open.

    Args:
        source: the data and its labels.
        options: as requested, before anything was detected.
        settings: how to train.
        directory: directory for all files, or None.
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
        self.requested = requested_of_audit(options, settings)
        self._models = "network trained with DiscrimLoss"
        """The models behind the verdicts of the first run, for the summary."""
        self._choice: Choice | None = None
        self._is_prepared = False
        self._started = time.perf_counter()
        self._log_probabilities: Tensor | None = None
        """Out-of-fold predictions of classes, of the first run."""
        has_begun = directory is not None and bool(directory.runs())  # training, before the stop
        if not self._wants_network and not has_begun:
            source.notes = (*source.notes, *source.contents.find_encoder(source.is_regression))

    def prepare(self) -> None:
        """Do every step that can reject the source, its encoder or the model. Write only a cache.

        Without a network, this includes the verdicts, because the user's estimator may fail. A
        second call does nothing.
        """
        if self._is_prepared:
            return
        self._require_same_samples()
        if is_divided() and self._trains_network:
            raise SourceError(ONE_PROCESS)
        if self._trains_network:
            _ = self._task
        elif self._regression_task is None:
            with limited_threads(len(self.source), self.settings.threads):
                self._choice = self._chosen()
        if not self._trains_network:
            _ = self._judged
        self._is_prepared = True

    def run(self) -> AuditResult:
        """Train, estimate the label errors, and write everything if there is a directory."""
        record = self._record()
        if self.directory is not None:
            self.directory.write_settings(record)
        self.prepare()
        verdicts = _named(combine_verdicts(self._judged), self.source)
        if self._choice is not None:
            verdicts = replace(verdicts, notes=(*verdicts.notes, *self._choice.notes))
        health, evidence = self._inspected(verdicts)
        summary = {
            **summarize(self.source, verdicts),
            "health": health.to_summary(),
            "model": self._models + self._of_encoder(),
            "encoder": self.source.contents.encoder,
            "runs": self.settings.runs,
            "seconds": round(time.perf_counter() - self._started, 1),
            "command": self.command,
            "versions": versions(),
        }
        if self.settings.noise_rate is not None:
            summary["noise_given"] = self.settings.noise_rate
        directory = self.directory
        result = AuditResult(
            verdicts,
            summary,
            record,
            source=self.source,
            directory=None if directory is None else directory.path,
            runs=self._network.in_memory if self._trains_network else (),
            health=health,
            evidence=evidence,
        )
        if directory is not None:
            with undivided():  # only the first process has a directory
                write_outputs(directory, self.source, verdicts, health, evidence)
                result.report(directory / REPORT)
            directory.finish(summary)  # last: it marks the audit as finished
        return result

    def _inspected(self, verdicts: Verdicts) -> tuple[DataHealth, Evidence]:
        """Return the health of the data and the evidence, which the first process computes."""
        runs: Sequence[ReportRun | Path] = ()
        if self._choice is not None:
            inputs = self._choice.inputs
        else:
            task = self._task if self._trains_network or self._regression_task else None
            inputs = compared_inputs(self.source, None if task is None else task.train.inputs)
        if self._trains_network:
            runs = self._network.runs
        if not is_first_process():
            return DataHealth(), Evidence()
        with limited_threads(len(self.source), self.settings.threads):
            return inspect_samples(self.source, inputs, verdicts, self._log_probabilities, runs)

    def _require_same_samples(self) -> None:
        """Raise an error if processes read different data, for example an older copy."""
        digest = hashlib.sha256("\n".join(self.source.ids).encode())
        digest.update(self.source.target.numpy().tobytes())
        require_equal(
            digest.hexdigest(),
            f"the processes read different samples from {self.source.name}: give all hosts the "
            "same data",
        )
        require_equal(
            self.source.contents.encoder,
            "the processes find different pretrained encoders: choose one with --encoder",
        )

    def _cache(self) -> Path | None:
        return None if self.directory is None else self.directory / CACHE

    def _record(self) -> dict[str, Any]:
        """Return what is audited and how: the content of ``audit.json``."""
        return {
            "source": {**asdict(self.source.options), **self._found_encoder()},
            "fingerprint": self.source.fingerprint(),
            "fingerprint_version": FINGERPRINT_VERSION,
            "kind": self.source.kind,
            "samples": len(self.source),
            "class_names": list(self.source.class_names),
            **self.requested,
            "command": self.command,
        }

    def _found_encoder(self) -> dict[str, str]:
        """Return the detected encoder, so that the source is later opened with the same encoder."""
        encoder = self.source.contents.encoder
        return {} if encoder is None else {"encoder": encoder}

    def _of_encoder(self) -> str:
        encoder = self.source.contents.encoder
        return "" if encoder is None else f"; encoder {encoder}"

    @cached_property
    def _judged(self) -> list[Verdicts]:
        """The verdicts of each run."""
        return [self._judge(number) for number in range(1, self.settings.runs + 1)]

    def _judge(self, number: int) -> Verdicts:
        """Return the verdicts of one run. Suggested targets are in the unit of the labels."""
        settings = self.settings
        if self._trains_network:
            return self._network.verdicts(number)
        with limited_threads(len(self.source), settings.threads):
            return self._judge_out_of_fold(number)

    def _judge_out_of_fold(self, number: int) -> Verdicts:
        settings = self.settings
        if self._regression_task is not None:
            verdicts, models = regression_verdicts(
                self._regression_task,
                settings.seed + number - 1,
                self._own_estimator,
                settings.noise_rate,
            )
            self._models = models if number == 1 else self._models
            return verdicts
        assert self._choice is not None
        found = out_of_fold_classes(
            self._choice.candidates,
            self.source.target,
            len(self.source.class_names),
            seed=settings.seed + number - 1,
            on_step=self._on_step(number),
        )
        if number == 1:
            self._models = _described(found)
            self._log_probabilities = found.log_probabilities
        return class_verdicts(
            found, self.source.target, self.source.class_names, settings.noise_rate
        )

    @cached_property
    def _network(self) -> NetworkRuns:
        # Imported here: training imports torch's compiler, which takes longer than a small audit.
        from discrimloss.auditing.network import NetworkRuns

        return NetworkRuns(
            self.source, self._task, self.settings, self.directory, self.command, self.observe
        )

    @cached_property
    def _task(self) -> TaskData:
        return self.source.task(self._cache())

    @property
    def _wants_network(self) -> bool:
        model = self.settings.model
        is_named = isinstance(model, str) and model == NETWORK
        return is_named or self.settings.epochs is not None

    @property
    def _trains_network(self) -> bool:
        if not isinstance(self.settings.model, str):
            return False
        if self._wants_network:
            return True
        return self._regression_task is None and not is_cheap(self.source)

    @cached_property
    def _regression_task(self) -> TaskData | None:
        """Return the task if its regression targets are predicted out of fold, else None.

        They are if the inputs are features, or if the user passed a regressor.
        """
        if not self.source.is_regression:
            return None
        has_own = self._own_estimator is not None
        return self._task if has_own or is_regression_on_features(self._task) else None

    @cached_property
    def _own_estimator(self) -> OwnEstimator | None:
        if isinstance(self.settings.model, str):
            return None
        return own_estimator(self.source, self.settings.model)

    def _chosen(self) -> Choice:
        require_room(len(self.source), len(self.source.class_names))
        if self._own_estimator is not None:
            return Choice([self._own_estimator.candidate()], compared_inputs(self.source, None))
        return choose_candidates(self.source, self._cache())

    def _on_step(self, number: int) -> Callable[[int, int], None] | None:
        if self.observe is None:
            return None
        observer = self.observe(number, 1)
        return lambda done, steps: observer.on_step(1, done, steps, 0)


def _described(found: ClassPredictions) -> str:
    """Return the models that predicted classes, in words for ``summary.json``."""
    rounds = ", two rounds" if found.rounds > 1 else ""
    return f"{', '.join(found.models)}; {found.folds}-fold cross-validation{rounds}"


def _named(verdicts: Verdicts, source: AuditSource) -> Verdicts:
    """Return verdicts with the ids and labels of the source, and notes on how it was read."""
    given: Any = source.target.numpy()
    suggested: Any = verdicts.suggested_label
    if source.is_regression:
        labels: dict[str, Any] = {
            "given_label": given.astype(np.float64),
            "suggested_label": suggested,
        }
    else:
        names = np.array(source.class_names, dtype=object)
        labels = {"given_label": names[given], "suggested_label": names[suggested]}
    left_out = left_out_notes(source.left_out_why, source.store.unit)
    notes = (*source.warnings, *left_out, *source.notes, *verdicts.notes)
    notes = tuple(dict.fromkeys(notes))
    return replace(verdicts, ids=source.ids, notes=notes, **labels)
