"""Out-of-fold predictions of class labels, and the resulting label errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discrimloss.auditing.out_of_fold.candidates import Candidate
from discrimloss.auditing.out_of_fold.folds import stratified_folds
from discrimloss.auditing.out_of_fold.predictions import blend, out_of_fold
from discrimloss.judging.judgeable import with_mean_probability
from discrimloss.judging.label_errors import LabelErrors
from discrimloss.judging.noise_model import estimate_class_errors
from discrimloss.training.processes import of_first, own_number

NOISE_WORTH_A_ROUND = 0.25
"""If the noise rate is at least this, the models are fitted a second time. With fewer wrong labels,
this is not worth its cost."""
MOST_ROWS_OF_ROUNDS = 20_000
LEAST_WEIGHT = 0.02
PLAIN_PREDICTIONS_FACTOR = 0.75
"""Factor for the sum of two log-odds that share most of their evidence. Chosen by F1 and
calibration on texts and tables."""
IN_BLEND = 0.05
"""Models with a smaller fraction of the blend are not named."""

OnStep = Callable[[int, int], None]
"""Called with the number of finished fits and the number of all fits."""


@dataclass(frozen=True)
class ClassPredictions:
    """Predictions of cross-validated models, and the resulting label errors."""

    log_probabilities: Tensor
    """Shape (samples, classes), float32."""
    errors: LabelErrors
    models: tuple[str, ...]
    """The models of the blend with their fractions, the largest first."""
    folds: int
    rounds: int


def out_of_fold_classes(
    candidates: Sequence[Candidate],
    target: Tensor,
    classes: int,
    *,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> ClassPredictions:
    """Predict every sample by models not trained on it, and estimate which labels are wrong.

    If many labels are wrong, the models are fitted again with the weights ``1 - p_incorrect``. This
    ranks labels better but underestimates the noise, so the noise rate is that of the first round.

    Args:
        candidates: at least one.
        target: shape (samples,), int64: given labels.
        classes: number of classes.
        seed: seed of the folds.
        on_step: called after each fit of this process.
    """
    given = target.numpy()
    folds = stratified_folds(given, seed)
    number = int(folds.max()) + 1
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if on_step is not None:
            on_step(done, max(own_number(len(candidates) * number), done))

    def predicted(models: Sequence[Candidate], trust: Any = None) -> list[Tensor]:
        return out_of_fold(models, given, folds, classes, trust, step)

    log_probabilities, weights = blend(predicted(candidates), target)
    is_held_out = torch.ones(len(target), dtype=torch.bool)
    errors = of_first(lambda: estimate_class_errors(log_probabilities, target, is_held_out))
    rounds, plain = 1, log_probabilities
    if errors.noise_rate >= NOISE_WORTH_A_ROUND and len(target) <= MOST_ROWS_OF_ROUNDS:
        used = _weighable(candidates, weights)
        if used:
            trust = np.clip(1.0 - errors.p_incorrect.double().numpy(), LEAST_WEIGHT, 1.0)
            further = predicted([one for one, _ in used], trust)
            total = sum(weight * one for (_, weight), one in zip(used, further, strict=True))
            plain, rounds = torch.as_tensor(total).log_softmax(1), 2
    errors = _with_plain_predictions(errors, plain, target)
    return ClassPredictions(log_probabilities, errors, _named(candidates, weights), number, rounds)


def _with_plain_predictions(first: LabelErrors, further: Tensor, target: Tensor) -> LabelErrors:
    """Add the log-odds of the predictions to the scores again, and keep the noise rate.

    The noise model estimates the confidence of predictions and the noise of each class. If these
    estimates are wrong, the plain predictions rank labels better.

    Args:
        first: the estimates of the noise model.
        further: shape (samples, classes): the log probabilities to add.
        target: given labels.
    """
    place = torch.arange(len(target))
    of_given = further[place, target]
    others = further.clone()
    others[place, target] = -torch.inf
    score = PLAIN_PREDICTIONS_FACTOR * (first.score + others.logsumexp(1) - of_given)
    shifted = with_mean_probability(score, first.noise_rate)
    other = others.argmax(1)
    return replace(
        first,
        score=shifted,
        suggested=torch.where(shifted > 0, other, first.suggested),
        other=other,
    )


def _weighable(
    candidates: Sequence[Candidate], weights: Sequence[float]
) -> list[tuple[Candidate, float]]:
    """Return the models with a relevant weight that can be fitted with sample weights."""
    return [
        (one, weight)
        for one, weight in zip(candidates, weights, strict=True)
        if one.takes_weights and weight >= IN_BLEND * sum(weights)
    ]


def _named(candidates: Sequence[Candidate], weights: Sequence[float]) -> tuple[str, ...]:
    total = sum(weights) or 1.0
    parts = sorted(zip(weights, candidates, strict=True), key=lambda part: -part[0])
    return tuple(
        f"{one.name} {weight / total:.0%}" for weight, one in parts if weight >= IN_BLEND * total
    )
