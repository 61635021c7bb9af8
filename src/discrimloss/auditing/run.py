"""A whole audit: from a source to verdicts, a list to keep, a report and a summary."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from discrimloss.auditing.directory import (
    AUDIT,
    CACHE,
    CHANGES,
    CLEANED,
    CORRECTED,
    DECISIONS,
    LEFT_OUT,
    REPORT,
    RUNS,
    SUMMARY,
    VERDICTS,
    VERDICTS_CSV,
    AuditDirectory,
)
from discrimloss.auditing.outputs import write_outputs
from discrimloss.auditing.predictions import Judgement, PredictionRecord, read_judgement
from discrimloss.auditing.settings import audit_config
from discrimloss.auditing.sources.base import AuditSource, SourceError, SourceOptions
from discrimloss.auditing.sources.open_source import open_source
from discrimloss.auditing.task import audit_task
from discrimloss.data.base import TaskData
from discrimloss.judging.verdicts import EASY, HARD, INCORRECT, INCORRECT_ABOVE
from discrimloss.training.loop import Observer
from discrimloss.training.records import versions
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.run_directory import LOCK, RunDirectory, why_unusable


@dataclass(frozen=True)
class AuditRequest:
    """What to audit, into what."""

    options: SourceOptions
    out: Path
    runs: int = 1
    seed: int = 0
    epochs: int | None = None
    threads: int = 0
    resume: bool = False
    overwrite: bool = False
    command: str = ""
    """The command that audits it again, for the summary."""


ObserverOfRun = Callable[[int, int], Observer]
"""Who watches a run, from its number and its epochs."""


def run_audit(request: AuditRequest, observe: ObserverOfRun | None = None) -> dict[str, Any]:
    """Audit a source, or go on with an audit that was stopped; returns the summary.

    Raises:
        SourceError: the source cannot be audited, or the directory cannot be used.
    """
    if request.runs < 1:
        raise SourceError(f"--runs must be 1 or more, not {request.runs}")
    directory = AuditDirectory(request.out)
    _check(directory, request)
    is_new = not request.out.exists()
    try:
        return _audit(request, directory, observe)
    except BaseException:
        if is_new and not directory.holds_audit:  # nothing has begun: nothing is left
            shutil.rmtree(request.out, ignore_errors=True)
        raise


def _audit(
    request: AuditRequest, directory: AuditDirectory, observe: ObserverOfRun | None
) -> dict[str, Any]:
    with RunDirectory(request.out).locked():
        _check(directory, request)  # again: another audit may have ended
        if request.resume and directory.is_finished:
            return directory.summary()
        if request.overwrite:
            clear(directory)
        started = time.perf_counter()
        source = open_source(request.options, directory / CACHE)
        _write_settings(directory, request, source)
        task, scale = audit_task(source, directory / CACHE)
        judgements = [
            _run(number, request, source, task, directory, observe)
            for number in range(1, request.runs + 1)
        ]
        judged = combined(judgements)
        judged = replace(judged, suggested=scale.back(judged.suggested))
        figures = {
            "runs": request.runs,
            "seconds": round(time.perf_counter() - started, 1),
            "command": request.command,
            "versions": versions(),
        }
        return write_outputs(source, judged, directory, figures)


def _run(
    number: int,
    request: AuditRequest,
    source: AuditSource,
    task: TaskData,
    directory: AuditDirectory,
    observe: ObserverOfRun | None,
) -> Judgement:
    """One training run, or what is left of it to do."""
    out = directory / RUNS / str(number)
    seed = request.seed + number - 1
    config = audit_config(source, task, seed=seed, epochs=request.epochs)
    config = replace(config, threads=request.threads)
    out.mkdir(parents=True, exist_ok=True)
    record = PredictionRecord(task.train.target, task.num_classes, config.epochs, out)
    resume = RunDirectory(out).holds_run
    run_request = RunRequest(config, Path(), out, resume=resume, command=request.command)
    observer = observe(number, config.epochs) if observe is not None else None
    run_training(run_request, observer, task=task, recorders=[record])
    return read_judgement(out)


def combined(judgements: Sequence[Judgement]) -> Judgement:
    """What several runs say together: their mean, and the verdict that follows from it."""
    if len(judgements) == 1:
        return judgements[0]

    def mean(name: str) -> Any:
        return np.mean([getattr(one, name) for one in judgements], axis=0, dtype=np.float64)

    p_incorrect = mean("p_incorrect").astype(np.float32)
    suggested = np.stack([one.suggested for one in judgements])
    if suggested.dtype.kind == "f":
        together = suggested.mean(0)
    else:
        together = _most_frequent(suggested, judgements, p_incorrect)
    # Easy is who was learned early in most runs.
    easy = mean_of(judgements, EASY) > mean_of(judgements, HARD)
    code = np.where(easy, EASY, HARD).astype(np.int8)
    code[p_incorrect > INCORRECT_ABOVE] = INCORRECT
    return Judgement(
        p_incorrect=p_incorrect,
        score=mean("score").astype(np.float32),
        suggested=together,
        code=code,
        weight=mean("weight").astype(np.float32),
        average_loss=mean("average_loss").astype(np.float32),
    )


def _most_frequent(
    suggested: npt.NDArray[Any],
    judgements: Sequence[Judgement],
    p_incorrect: npt.NDArray[np.float32],
) -> Any:
    """Of a label that is called incorrect, only runs that call it so are asked what is right."""
    surest = np.argmax([one.p_incorrect for one in judgements], axis=0)
    by_surest = np.take_along_axis(suggested, surest[None], axis=0)
    trusts = np.stack([one.p_incorrect <= INCORRECT_ABOVE for one in judgements])
    asked = np.where(trusts & (p_incorrect > INCORRECT_ABOVE), by_surest, suggested)
    return torch.from_numpy(asked).mode(0).values.numpy()


def mean_of(judgements: Sequence[Judgement], code: int) -> Any:
    """In which share of the runs each sample got a verdict."""
    return np.mean([one.code == code for one in judgements], axis=0)


def _check(directory: AuditDirectory, request: AuditRequest) -> None:
    """Raise a `SourceError` unless an audit may start, or go on, here."""
    if objection := why_unusable(directory.path):
        raise SourceError(objection)
    source = Path(request.options.path)
    if source.is_dir() and directory.path.absolute().is_relative_to(source.absolute()):
        raise SourceError(f"--out {directory.path} lies in the audited folder: name another place")
    if not directory.path.exists():
        return
    if not directory.holds_audit:
        if any(entry.name not in (LOCK, CACHE, RUNS) for entry in directory.path.iterdir()):
            raise SourceError(
                f"--out {directory.path} holds other files: name a new or an empty directory"
            )
    elif request.resume:
        _require_same_audit(directory, request)
    elif request.overwrite:
        _refuse_to_lose_decisions(directory)
    elif directory.is_finished:
        raise SourceError(
            f"--out {directory.path} holds a finished audit: "
            "pass --overwrite to replace it, or name another directory"
        )
    else:
        raise SourceError(
            f"--out {directory.path} holds an unfinished audit: "
            "pass --resume to go on with it, or --overwrite to start anew"
        )


def _require_same_audit(directory: AuditDirectory, request: AuditRequest) -> None:
    saved, wanted = directory.settings(), _settings(request)
    changed = [name for name in wanted if saved.get(name) != wanted[name]]
    if changed:
        told = ", ".join(f"{n} was {saved.get(n)!r}, now {wanted[n]!r}" for n in changed)
        raise SourceError(
            f"cannot resume with other settings ({told}): "
            "give the same ones, or name another directory"
        )


def _refuse_to_lose_decisions(directory: AuditDirectory) -> None:
    decisions = directory / DECISIONS
    if decisions.is_file() and decisions.stat().st_size:
        raise SourceError(
            f"{directory.path} holds decisions of a review, which --overwrite would lose: "
            f"move {decisions} elsewhere first, or name another directory"
        )


def clear(directory: AuditDirectory) -> None:
    """Remove what an earlier audit left, and nothing else; features are kept."""
    # The summary first and the settings last: what is left half-way looks like an unfinished audit.
    files = (SUMMARY, VERDICTS, VERDICTS_CSV, CLEANED, LEFT_OUT, REPORT, CHANGES, DECISIONS, AUDIT)
    for folder in (RUNS, CORRECTED):
        shutil.rmtree(directory / folder, ignore_errors=True)
    for name in files:
        (directory / name).unlink(missing_ok=True)


def _settings(request: AuditRequest) -> dict[str, Any]:
    return {
        "asked": request.options.as_table(),
        "runs": request.runs,
        "seed": request.seed,
        "epochs": request.epochs,
    }


def _write_settings(directory: AuditDirectory, request: AuditRequest, source: AuditSource) -> None:
    fingerprint = source.fingerprint()
    if directory.holds_audit and directory.settings()["fingerprint"] != fingerprint:
        raise SourceError(
            f"{source.options.path} has changed since the audit began: "
            "start anew with --overwrite, or put it back as it was"
        )
    settings = {
        "source": source.options.as_table(),
        "fingerprint": fingerprint,
        "kind": source.kind,
        "samples": len(source),
        "class_names": list(source.class_names),
        **_settings(request),
        "command": request.command,
    }
    directory.write(AUDIT, json.dumps(settings, indent=1, ensure_ascii=False) + "\n")
