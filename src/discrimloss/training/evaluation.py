"""Metrics of predictions, and of how well a method finds wrong labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from discrimloss.data.base import Prepare, Split
from discrimloss.data.noise import NoisyLabels
from discrimloss.judging.verdicts import UNSEEN, Verdicts
from discrimloss.state.gathering import share_buffers
from discrimloss.state.processes import Processes
from discrimloss.training.batches import load_batches
from discrimloss.training.methods.base import Method


def metric_name(is_regression: bool) -> str:
    """Return the name of the metric: ``mae``, or ``accuracy`` in percent."""
    return "mae" if is_regression else "accuracy"


def is_better(value: float, than: float, is_regression: bool) -> bool:
    """Return whether a metric is better than another: a lower error, or a higher accuracy."""
    return value < than if is_regression else value > than


def score_sum(output: Tensor, target: Tensor) -> Tensor:
    """Return the sum of scores: 100 for a correct class, or the absolute error in regression."""
    if target.is_floating_point():
        return (output - target).abs().sum(dtype=torch.float64)
    return 100.0 * (output.argmax(1) == target).sum().double()


@torch.no_grad()
def evaluate(
    method: Method,
    split: Split,
    prepare: Prepare,
    batch_size: int,
    device: torch.device,
    tokenize: Callable[[Any], Any] | None = None,
    workers: int = 0,
    take: Callable[[Tensor, Tensor], None] | None = None,
) -> float:
    """Return the mean score of the predictions on a split, computed by all processes together.

    `take` is called with the sample indices and predictions of each batch of this process.
    """
    share_buffers(method.networks)  # otherwise each process evaluates with its own buffers
    was_training = method.training
    method.eval()
    processes = Processes()
    own = torch.arange(processes.rank, len(split), processes.count)
    total = torch.zeros((), dtype=torch.float64, device=device)
    try:
        for batch in load_batches(split, torch.split(own, batch_size), device, tokenize, workers):
            output = method.predict(prepare(batch.inputs, None)).float()
            total += score_sum(output, batch.target)
            if take is not None:
                take(batch.index, output)
    finally:
        method.train(was_training)
    return float(processes.total(total)) / max(len(split), 1)


def verdict_metrics(verdicts: Verdicts, noise: NoisyLabels | None) -> dict[str, Any]:
    """Return metrics of how well verdicts find the wrong labels.

    Args:
        verdicts: verdicts on every training label.
        noise: the given and the clean labels; None if the truth is unknown.
    """
    found: dict[str, Any] = {
        "noise_estimated": verdicts.noise_rate,
        "verdicts": verdicts.counts,
    }
    if noise is None:
        return found
    is_wrong = noise.is_wrong.cpu().numpy()
    found["noise_true"] = float(is_wrong.mean())
    seen = verdicts.code != UNSEEN
    is_wrong = is_wrong[seen]
    flagged = (verdicts.verdict == "incorrect")[seen]
    hits = int((flagged & is_wrong).sum())
    if is_wrong.any() and not is_wrong.all():
        # The probabilities of clearly wrong labels all round to 1. The losses still rank these.
        losses = verdicts.score if verdicts.average_loss is None else verdicts.average_loss
        found |= _ranking(losses[seen], is_wrong)
    found["precision"] = hits / int(flagged.sum()) if flagged.any() else None
    found["recall"] = hits / int(is_wrong.sum()) if is_wrong.any() else None
    return found


def score_metrics(scores: Tensor, noise: NoisyLabels | None) -> dict[str, Any]:
    """Return how well a method's own scores rank the wrong labels first.

    Args:
        scores: shape (num_samples,), higher for a less trusted label. NaN for samples without one.
        noise: the given and the clean labels; None if the truth is unknown.
    """
    seen = ~scores.isnan()
    if noise is None or not seen.any():
        return {}
    is_wrong = noise.is_wrong.cpu()[seen.cpu()].numpy()
    if not is_wrong.any() or is_wrong.all():
        return {}
    ranking = _ranking(scores[seen].double().cpu().numpy(), is_wrong)
    return {f"score_{name}": value for name, value in ranking.items()}


def dynamics_metrics(dynamics: Mapping[str, Tensor], noise: NoisyLabels | None) -> dict[str, Any]:
    """Return how well the area under the margin and the confidence rank wrong labels first.

    Args:
        dynamics: `TrainingDynamics.scores`.
        noise: the given and the clean labels; None if the truth is unknown.
    """
    found = {name: score_metrics(-dynamics[name], noise) for name in ("aum", "confidence")}
    return {f"{name}_auroc": each["score_auroc"] for name, each in found.items() if each}


def _ranking(score: Any, is_wrong: Any) -> dict[str, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    return {
        "auroc": float(roc_auc_score(is_wrong, score)),
        "average_precision": float(average_precision_score(is_wrong, score)),
    }
