"""The audit, and what else finds wrong labels, each with the same model, optimizer and epochs.

A cell (a set, its noise, a seed) has several parts, each a training run or an audit of its own.
What a part found is a file, written when it is finished, and a part whose file is there is not run
again. `findings` turns the parts of a cell into what each method says of the labels.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.audit_figures import Finding
from benchmarks.audit_sets import SOURCE, TRUTH
from discrimloss.auditing.directory import RUNS
from discrimloss.auditing.run import NETWORK, AuditSettings, run_audit
from discrimloss.auditing.settings import audit_config
from discrimloss.auditing.sources.base import SourceOptions
from discrimloss.auditing.sources.open_source import open_source
from discrimloss.auditing.task import audit_task
from discrimloss.data.base import Split, TaskData
from discrimloss.files.atomic_write import atomic_write
from discrimloss.training.batches import load_batches
from discrimloss.training.methods.base import Method, StepResult
from discrimloss.training.records import Row
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.run_directory import RunDirectory
from discrimloss.training.seeds import derived_generator

FOLDS = 5
AUDIT, PLAIN, THRESHOLD = "audit", "plain", "threshold"
FOLD_PARTS = tuple(f"fold-{number}" for number in range(FOLDS))
AUM_PERCENTILE = 99
"""Of the threshold samples, as in the paper."""
MIXTURE = {"max_iter": 10, "tol": 1e-2, "reg_covar": 5e-4}
"""As DivideMix fits its mixture."""
SAME = ("model", "loss", "epochs", "batch_size", "optimizer", "schedule", "seed")
"""What the training of all parts has in common."""
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Job:
    """A part of a cell, to be run in a process of its own."""

    cell: Path
    part: str
    seed: int
    epochs: int | None
    """None: as many as the audit chooses."""

    @property
    def file(self) -> Path:
        return self.cell / f"{self.part}.npz"


def parts_of(is_compared: bool, is_regression: bool) -> tuple[str, ...]:
    """The training runs of a cell. A number has no margin: there is no AUM of a regression."""
    if not is_compared:
        return (AUDIT,)
    return (AUDIT, *FOLD_PARTS, PLAIN, *(() if is_regression else (THRESHOLD,)))


def run_part(job: Job) -> str:
    """Run a part and write its file, unless it is there. On one thread."""
    if job.file.is_file():
        return ""
    torch.set_num_threads(1)
    options = SourceOptions(**json.loads((job.cell / SOURCE).read_text("utf-8")))
    clock, began = CpuClock(), time.process_time()
    found = _audit(job, options, clock) if job.part == AUDIT else _rival(job, options, clock)
    meta = found.pop("meta")
    meta["training_seconds"] = clock.seconds
    meta["seconds"] = time.process_time() - began
    with atomic_write(job.file) as unfinished, unfinished.open("wb") as file:
        np.savez(file, meta=np.array(json.dumps(meta)), **found)
    return f"{job.cell.name} {job.part}: {meta['seconds']:.0f} s"


class CpuClock:
    """CPU time from the first step to the last epoch's end: training, and nothing else."""

    def __init__(self) -> None:
        self._began: float | None = None
        self.seconds = 0.0

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        if self._began is None:
            self._began = time.process_time()

    def on_epoch(self, row: Row) -> None:
        if self._began is not None:
            self.seconds = time.process_time() - self._began


def _audit(job: Job, options: SourceOptions, clock: CpuClock) -> dict[str, Any]:
    """The audit with a network, as users run it on images."""
    out = job.cell / AUDIT
    result = run_audit(
        lambda cache: open_source(options, cache),
        options,
        AuditSettings(epochs=job.epochs, seed=job.seed, threads=1, model=NETWORK),
        out=out,
        overwrite=out.exists(),
        progress=lambda number, epochs: clock,
    )
    summary, verdicts = result.summary, result.verdicts
    suspicion = np.empty(len(verdicts))
    suspicion[verdicts.order] = -np.arange(len(verdicts), dtype=np.float64)  # the worst come first
    if summary["left_out"]:
        raise SystemExit(f"{job.cell.name}: the audit left out {summary['left_out']} samples")
    return {
        "flagged": verdicts.verdict == "incorrect",
        "suspicion": suspicion,
        "p_incorrect": verdicts.p_incorrect.astype(np.float64),
        "meta": {
            "noise_estimate": summary["noise_estimated"],
            "versions": summary["versions"],
            "training": RunDirectory(out / RUNS / "1").config(),
        },
    }


def _rival(job: Job, options: SourceOptions, clock: CpuClock) -> dict[str, Any]:
    """A plain training run with the settings of the audit, on some samples or on all."""
    cache = job.cell / "cache"
    source = open_source(options, cache)
    with np.load(job.cell / TRUTH) as truth:
        if not np.array_equal(source.target.numpy(), truth["target"]):
            raise SystemExit(f"{job.cell.name}: the source has other labels than were written")
    task, scale = audit_task(source.task(cache))
    config = audit_config(source, task, seed=job.seed, epochs=job.epochs, method="plain")
    config = replace(config, threads=1)
    train, held = _split(job.part, task, job.seed)
    extra: Arrays = {}
    if job.part == THRESHOLD:
        task, extra["is_threshold"] = with_threshold_samples(task, job.seed)
    shown = replace(task, train=task.train.select(train))
    record = _Record(shown, task.train.select(held))
    run_training(RunRequest(config, Path(), None), clock, task=shown, recorders=[record])
    assert record.output is not None
    return {
        "held": held.numpy(),
        "output": scale.back(record.output.numpy()),
        "loss": record.losses.numpy(),
        "margin": record.margins.numpy(),
        **extra,
        "meta": {"training": config.as_dict()},
    }


def _split(part: str, task: TaskData, seed: int) -> tuple[Tensor, Tensor]:
    """Which samples are trained on, and which are predicted in the end."""
    everyone = torch.arange(len(task.train))
    if part not in FOLD_PARTS:
        return everyone, everyone
    from sklearn.model_selection import KFold, StratifiedKFold

    kind = KFold if task.is_regression else StratifiedKFold
    folds = kind(FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # Wrong labels may leave a class with less than one sample per fold.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        split = list(folds.split(everyone, task.train.target))
    train, held = split[FOLD_PARTS.index(part)]
    return torch.from_numpy(train), torch.from_numpy(held)


def with_threshold_samples(task: TaskData, seed: int) -> tuple[TaskData, npt.NDArray[np.bool_]]:
    """The task with one class more, and one in as many samples as there are classes in it.

    These labels can only be memorised, so their margins show those of wrong labels (Pleiss et al.,
    2020).
    """
    assert task.num_classes is not None
    samples = len(task.train)
    number = round(samples / (task.num_classes + 1))
    generator = derived_generator(seed, "threshold samples")
    chosen = torch.randperm(samples, generator=generator)[:number]
    target = task.train.target.clone()
    target[chosen] = task.num_classes
    is_threshold = np.zeros(samples, dtype=np.bool_)
    is_threshold[chosen.numpy()] = True
    more = replace(
        task,
        train=replace(task.train, target=target),
        num_classes=task.num_classes + 1,
        class_names=(*task.class_names, "threshold"),
    )
    return more, is_threshold


class _Record:
    """Margins at every visit, and the predictions of the trained model in evaluation mode.

    Args:
        task: what is trained on.
        held: the samples that are predicted in the end.
    """

    def __init__(self, task: TaskData, held: Split) -> None:
        self.task, self.held = task, held
        self._margins = torch.zeros(len(task.train), dtype=torch.float64)
        self._visits = torch.zeros(len(task.train))
        self.output: Tensor | None = None
        """Of the held samples: logits, or numbers."""
        self.losses = torch.zeros(0)
        """Of the held samples."""

    @property
    def margins(self) -> Tensor:
        """Shape (trained on,): the mean over all visits."""
        return self._margins / self._visits

    def record_step(self, epoch: int, index: Tensor, result: StepResult) -> None:
        if self.task.num_classes is not None:
            margin = margins(result.output, self.task.train.target[index])
            self._margins[index] += margin.double()
        self._visits[index] += 1

    def share(self) -> None:
        """There is one process."""

    def end_epoch(self, epoch: int, method: Method, *, is_main_process: bool) -> None:
        """Margins add up over the epochs."""

    def record_final(self, index: Tensor, output: Tensor) -> None:
        """The held samples are predicted in `finish`."""

    @torch.no_grad()
    def finish(self, method: Method) -> None:
        method.eval()
        order = torch.arange(len(self.held)).split(1000)
        batches = load_batches(self.held, order, torch.device("cpu"))
        outputs = [method.predict(self.task.prepare(b.inputs, None)).float() for b in batches]
        self.output = torch.cat(outputs)
        self.losses = method.setting.task_losses(self.output, self.held.target)
        method.train()

    def state_dict(self) -> dict[str, Any]:
        return {}  # a part that is stopped starts again

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is no state."""


def margins(logits: Tensor, target: Tensor) -> Tensor:
    """The logit of the label, less the largest other one."""
    own = logits.gather(1, target[:, None])[:, 0]
    others = logits.scatter(1, target[:, None], -torch.inf)
    return own - others.max(1).values


# -------------------------------------------------------------------------------- findings


def read_part(cell: Path, part: str) -> tuple[Arrays, dict[str, Any]]:
    with np.load(cell / f"{part}.npz") as arrays:
        found = dict(arrays)
    return found, json.loads(str(found.pop("meta")))


def finished_parts(cell: Path) -> list[str]:
    everything = parts_of(is_compared=True, is_regression=False)
    return [part for part in everything if (cell / f"{part}.npz").is_file()]


def require_same_training(cell: Path) -> None:
    """Stop if a part was trained otherwise than the audit: it is of an earlier version."""
    settings = {part: read_part(cell, part)[1]["training"] for part in finished_parts(cell)}
    for part, own in settings.items():
        changed = [key for key in SAME if own.get(key) != settings[AUDIT].get(key)]
        if changed:
            raise SystemExit(
                f"{cell / part}.npz and audit.npz differ in {', '.join(changed)}: "
                "remove the older one, and run this again"
            )


def findings(cell: Path, seed: int) -> dict[str, Finding]:
    """What each method says of the labels of a cell, as far as its parts are finished."""
    with np.load(cell / TRUTH) as truth:
        given = truth["target"]
    is_regression = given.dtype.kind == "f"
    done = set(finished_parts(cell))
    found: dict[str, Finding] = {}
    if AUDIT in done:
        found["audit"] = _read_audit(cell)
    if done.issuperset(FOLD_PARTS):
        output = _out_of_sample(cell, len(given))
        found |= _numbers(given, output) if is_regression else _classes(given, output)
    if done.issuperset((PLAIN, THRESHOLD)):
        found["AUM"] = _aum(cell)
    if PLAIN in done:
        found["small loss"] = small_loss(read_part(cell, PLAIN)[0]["loss"], seed)
    return found


def seconds(cell: Path, parts: Iterable[str]) -> dict[str, float]:
    """CPU time of some parts together."""
    metas = [read_part(cell, part)[1] for part in parts]
    return {key: sum(meta[key] for meta in metas) for key in ("training_seconds", "seconds")}


def _read_audit(cell: Path) -> Finding:
    found, meta = read_part(cell, AUDIT)
    return Finding(
        found["flagged"], meta["noise_estimate"], found["suspicion"], found["p_incorrect"]
    )


def _out_of_sample(cell: Path, samples: int) -> npt.NDArray[np.float64]:
    """Each sample's prediction by the model that did not see it."""
    folds = [read_part(cell, part)[0] for part in FOLD_PARTS]
    output = np.full((samples, *folds[0]["output"].shape[1:]), np.nan)
    for fold in folds:
        output[fold["held"]] = fold["output"]
    assert not np.isnan(output).any()
    return output


def _classes(given: npt.NDArray[Any], logits: npt.NDArray[np.float64]) -> dict[str, Finding]:
    """cleanlab's defaults, and the prediction that differs from the label."""
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    probabilities = torch.from_numpy(logits).softmax(1).numpy()
    differs = logits.argmax(1) != given
    quality = get_label_quality_scores(given, probabilities)
    return {
        "cleanlab": Finding(
            find_label_issues(given, probabilities, n_jobs=1),
            num_label_issues(given, probabilities) / len(given),
            -quality,
            1.0 - quality,
        ),
        "argmax": Finding(differs, float(differs.mean())),
    }


def _numbers(given: npt.NDArray[Any], predicted: npt.NDArray[np.float64]) -> dict[str, Finding]:
    """What cleanlab's Datalab makes of predictions; its scores are not probabilities."""
    from cleanlab import Datalab

    data = {"label": given.astype(np.float64)}
    lab = Datalab(data, task="regression", label_name="label", verbosity=0)
    lab.find_issues(pred_probs=predicted, issue_types={"label": {}})
    issues = lab.get_issues("label")
    flagged = issues["is_label_issue"].to_numpy(np.bool_)
    suspicion = -issues["label_score"].to_numpy(np.float64)
    return {"cleanlab": Finding(flagged, float(flagged.mean()), suspicion)}


def _aum(cell: Path) -> Finding:
    """Ranked by the run on all labels, flagged by the run with threshold samples.

    A threshold sample has no margin of its own label in that run: it gets the one of the other run.
    """
    plain = read_part(cell, PLAIN)[0]["margin"]
    found, _ = read_part(cell, THRESHOLD)
    is_threshold = found["is_threshold"]
    cut = np.percentile(found["margin"][is_threshold], AUM_PERCENTILE)
    flagged = np.where(is_threshold, plain, found["margin"]) < cut
    return Finding(flagged, float(flagged.mean()), -plain)


def small_loss(losses: npt.NDArray[Any], seed: int) -> Finding:
    """A mixture of two normal distributions; wrong is who belongs to the one with larger losses."""
    from sklearn.mixture import GaussianMixture

    low, high = float(losses.min()), float(losses.max())
    scaled = ((losses.astype(np.float64) - low) / max(high - low, 1e-12))[:, None]
    mixture = GaussianMixture(2, random_state=seed, **MIXTURE)
    with warnings.catch_warnings():
        # Ten iterations are what DivideMix allows, whether they are enough or not.
        warnings.filterwarnings("ignore", "Best performing initialization did not converge")
        mixture.fit(scaled)
    p_incorrect = mixture.predict_proba(scaled)[:, mixture.means_[:, 0].argmax()]
    return Finding(
        p_incorrect > 0.5,
        float(p_incorrect.mean()),
        losses.astype(np.float64),
        p_incorrect,
    )
