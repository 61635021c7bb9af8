"""The few numbers of a run that figures about samples are drawn from: histograms and jumps."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from discrimloss.auditing.report.statistics import box_of, fluctuation_threshold, fluctuations
from discrimloss.judging.verdicts import import_pandas
from discrimloss.losses.superloss import log_confidences
from discrimloss.training.run_directory import HISTORY_LINES, VERDICTS
from discrimloss.training.sample_traces import Traces, read_traces

BINS = 40
GROUPS = ("clean", "wrong")
Values = npt.NDArray[Any]


def sample_figures(run: Path, summary: dict[str, Any], kind: str) -> dict[str, Any]:
    """What a table of this kind draws of a run's samples; empty if it draws nothing of them."""
    if kind not in ("histograms", "fluctuation"):
        return {}
    traces, is_wrong = read_traces(run), _is_wrong(run)
    if traces is None or is_wrong is None:
        return {}
    if kind == "histograms":
        return loss_histograms(traces, is_wrong)
    return importance_fluctuation(importances(traces, summary, run), traces.epochs, is_wrong)


def loss_histograms(traces: Traces, is_wrong: Values) -> dict[str, Any]:
    """Losses of clean and wrong samples at a third, at two thirds and at the end.

    As in the paper's figure, losses are normalised: the lowest of an epoch is 0, the highest 1. One
    huge loss must not push all others to 0, so the highest is that of all but a thousandth.
    """
    epochs = len(traces.epochs)
    positions = sorted({max(0, round(epochs * part / 3) - 1) for part in (1, 2, 3)})
    drawn = []
    for position in positions:
        loss = traces.loss[position].astype(np.float64)
        seen = np.isfinite(loss)
        low, high = float(loss[seen].min()), float(np.quantile(loss[seen], 0.999))
        normal = np.clip((loss - low) / max(high - low, 1e-12), 0.0, 1.0)
        counts = {
            name: np.histogram(normal[seen & (is_wrong == wanted)], BINS, (0.0, 1.0))[0].tolist()
            for name, wanted in zip(GROUPS, (False, True), strict=True)
        }
        medians = {
            name: float(np.median(normal[seen & (is_wrong == wanted)]))
            if (seen & (is_wrong == wanted)).any()
            else None
            for name, wanted in zip(GROUPS, (False, True), strict=True)
        }
        epoch = int(traces.epochs[position])
        drawn.append(
            {"epoch": epoch, "counts": counts, "medians": medians, "overlap": overlap(counts)}
        )
    return {"histograms": drawn}


def overlap(counts: dict[str, list[int]]) -> float | None:
    """The area that two histograms, each of area 1, have in common: 0 if they are separate."""
    clean, wrong = (np.array(counts[name], dtype=np.float64) for name in GROUPS)
    if not clean.sum() or not wrong.sum():
        return None
    return float(np.minimum(clean / clean.sum(), wrong / wrong.sum()).sum())


def importances(traces: Traces, summary: dict[str, Any], run: Path) -> Values | None:
    """The factor of each sample's gradient, shape (epochs, samples).

    For SuperLoss it is the confidence, which follows from the loss; the method's own trace is an
    average over the visits and does not fluctuate. For DiscrimLoss it is one over the learned
    weight. None for methods that do not weight samples.
    """
    used = summary["method_hyperparameters"]
    if summary["method"] == "superloss":
        import json

        lines = (run / HISTORY_LINES).read_text(encoding="utf-8").splitlines()
        levels = [json.loads(line)["confidence_threshold"] for line in lines]
        threshold = torch.tensor(levels, dtype=torch.float64)[:, None]
        strength = float(used["confidence_regularization"])
        loss = torch.from_numpy(traces.loss).double()
        confidence: Values = log_confidences(loss, threshold, strength).exp().numpy()
        return confidence
    if summary["method"] == "discrimloss" and traces.weight is not None:
        return 1.0 / traces.weight
    return None


def importance_fluctuation(
    importance: Values | None, epochs: Values, is_wrong: Values
) -> dict[str, Any]:
    """How often importances jump, for clean and wrong samples; and one sample of each, traced.

    A jump is a change by more than a tenth of the spread of all importances: the paper's threshold
    fits the scale of one method only. The traced sample of a group is the first whose number of
    jumps is the group's median.
    """
    if importance is None:
        return {}
    threshold = fluctuation_threshold(importance)
    counts, turned = fluctuations(importance, threshold), turns(importance, threshold)
    groups = {}
    for name, wanted in zip(GROUPS, (False, True), strict=True):
        members = np.flatnonzero(is_wrong == wanted)
        if not len(members):
            continue
        own = counts[members]
        nearest = members[np.argmin(np.abs(own - np.median(own)))]
        groups[name] = {
            "mean": float(own.mean()),
            "turns": float(turned[members].mean()),
            "box": asdict(box_of(own)),
            "traced": {
                "sample": int(nearest),
                "importance": [float(f"{value:.4g}") for value in importance[:, nearest]],
            },
        }
    return {"fluctuation": groups, "threshold": threshold, "epochs": epochs.tolist()}


def turns(importance: Values, threshold: float) -> Values:
    """How often each sample's importance jumps against its last jump, shape (samples,).

    An importance that falls step by step jumps often and never back: it does not fluctuate.
    """
    number = np.zeros(importance.shape[1], dtype=np.int64)
    last: Values = np.zeros(importance.shape[1])
    for step in np.diff(importance.astype(np.float64), axis=0):
        direction = np.where(np.abs(step) > threshold, np.sign(step), 0.0)
        number += direction * last < 0.0
        last = np.where(direction != 0.0, direction, last)
    return number


def _is_wrong(run: Path) -> Values | None:
    if not (run / VERDICTS).is_file():
        return None
    verdicts = import_pandas().read_parquet(run / VERDICTS).sort_index()
    if "clean_target" not in verdicts:
        return None
    wrong: Values = (verdicts["clean_target"] != verdicts["target"]).to_numpy()
    return wrong
