"""Verdicts from the losses that a criterion has seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discrimloss.judging.calibration import calibrate
from discrimloss.judging.known_labels import SampleKinds, errors_by_predictions, sample_kinds
from discrimloss.judging.verdicts import (
    EASY,
    HARD,
    INCORRECT,
    INCORRECT_ABOVE,
    RULES,
    UNSEEN,
    Rule,
    Verdicts,
    log_odds,
)
from discrimloss.loss import DiscrimLoss
from discrimloss.state.exchange import WHOLE_TABLE, Shards
from discrimloss.state.table import NOT_KNOWN, YES


def judge_criterion(
    criterion: DiscrimLoss, rule: Rule = "calibrated", p_incorrect: Tensor | None = None
) -> Verdicts:
    """See `DiscrimLoss.verdicts`, which calls it."""
    criterion.grow_with_ids()
    if criterion.epoch == 1 and criterion.epochs != 1 and criterion.table.all_visited_twice():
        warnings.warn(
            "samples were visited several times, all in epoch 1: "
            "call set_epoch(epoch) at the start of every epoch",
            stacklevel=5,
        )
    given = _checked_probabilities(criterion, p_incorrect)
    kinds = sample_kinds(criterion)
    errors = None
    if given is None and rule == "calibrated" and criterion.labels is not None:
        errors = errors_by_predictions(criterion)
    verdicts = judge_samples(
        averages=criterion.average_chunks,
        learned_early=criterion.table.learned_early,
        weights=criterion.table.log_weight.exp(),
        loss_scale=float(criterion.loss_scale),
        thresholds=(float(criterion.k1), criterion.k2),
        rule=rule,
        shards=criterion.table.shards,
        p_incorrect=given,
        kinds=kinds,
        score=None if errors is None else criterion.table.shards.own_part(errors.score),
    )
    if criterion.table.shards.several:
        verdicts = _of_all_processes(verdicts, criterion.table.whole)
    if kinds is not None:
        verdicts = replace(verdicts, given_label=kinds.given, notes=kinds.notes)
    if errors is not None:
        verdicts = replace(
            verdicts,
            suggested_label=errors.suggested.numpy(),
            noise_interval=errors.noise_interval,
        )
    return verdicts if criterion.ids is None else replace(verdicts, ids=criterion.ids.names())


def judge_samples(
    averages: Callable[[], Iterable[Tensor]],
    learned_early: Tensor,
    weights: Tensor,
    loss_scale: float,
    thresholds: tuple[float, float],
    rule: Rule = "calibrated",
    shards: Shards = WHOLE_TABLE,
    p_incorrect: Tensor | None = None,
    kinds: SampleKinds | None = None,
    score: Tensor | None = None,
) -> Verdicts:
    """Verdicts of all samples, in one pass after the calibration.

    Args:
        averages: gives ``Avg(l)`` of all samples in chunks; NaN where never visited.
        learned_early: shape (num_samples,), as in `SampleTable`.
        weights: shape (num_samples,), ``delta``.
        loss_scale: of the first epoch.
        thresholds: ``k1`` and ``k2``.
        rule: see `DiscrimLoss.verdicts`.
        shards: how the samples are divided among processes; each gets the verdicts of its own.
        p_incorrect: shape (num_samples,): probabilities to use instead of a calibration.
        kinds: which group each sample belongs to, where targets are known.
        score: shape (num_samples,): log-odds by predictions, instead of a calibration.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, not {rule!r}")
    k1, k2 = thresholds
    calibration = None
    if p_incorrect is None and score is None:

        def comparable() -> Iterable[Tensor]:
            """Average losses in the unit of an ordinary group."""
            start = 0
            for chunk in averages():
                rows = slice(start, start + len(chunk))
                start += len(chunk)
                yield chunk if kinds is None else chunk / kinds.difficulty[rows].to(chunk)

        calibration = calibrate(comparable, loss_scale, shards)
    chunks: list[tuple[Any, ...]] = []
    start = 0
    for chunk in averages():
        average = chunk.cpu()
        rows = slice(start, start + len(average))
        flags = learned_early[rows].cpu()
        start += len(average)
        if calibration is not None:
            difficulty = 1.0 if kinds is None else kinds.difficulty[rows]
            odds = calibration.log_odds(average / difficulty)
        elif score is not None:
            odds = score[rows].masked_fill(average.isnan(), torch.nan)
        elif p_incorrect is not None:
            given = p_incorrect[rows].to("cpu", torch.float32)
            odds = torch.from_numpy(log_odds(given.masked_fill(average.isnan(), torch.nan)))
        if kinds is not None:
            odds = torch.where(kinds.is_small[rows], odds.clamp(max=0.0), odds)
        probability = odds.sigmoid()
        code = torch.full_like(flags, HARD)
        easy_below = k1 if kinds is None else kinds.k1[rows]
        code[torch.where(flags == NOT_KNOWN, average < easy_below, flags == YES)] = EASY
        # Being incorrect at the end outweighs having been learned early.
        code[probability > INCORRECT_ABOVE if rule == "calibrated" else average > k2] = INCORRECT
        code[average.isnan()] = UNSEEN
        chunks.append(tuple(part.numpy() for part in (code, probability, odds, average)))
    code_column, p_column, scores, losses = (np.concatenate(c) for c in zip(*chunks, strict=True))
    return Verdicts(
        code=code_column,
        p_incorrect=p_column,
        score=scores,
        average_loss=losses,
        weight=weights.cpu().numpy(),
        rule=rule,
    )


def _of_all_processes(verdicts: Verdicts, whole: Callable[[Tensor], Tensor]) -> Verdicts:
    """Every process's verdicts joined.

    Args:
        verdicts: of the samples of this process.
        whole: turns a process's column into the whole one.
    """
    names = ("code", "p_incorrect", "score", "average_loss", "weight")
    columns: dict[str, Any] = {
        name: whole(torch.from_numpy(getattr(verdicts, name))).numpy() for name in names
    }
    return Verdicts(**columns, rule=verdicts.rule)


def _checked_probabilities(criterion: DiscrimLoss, p_incorrect: Tensor | None) -> Tensor | None:
    if p_incorrect is None:
        return None
    if criterion.table.shards.several:
        raise ValueError("p_incorrect cannot be given where the table is sharded")
    if p_incorrect.shape != (criterion.num_samples,):
        raise ValueError(
            f"p_incorrect must have the shape ({criterion.num_samples},), one for each sample, "
            f"not {tuple(p_incorrect.shape)}"
        )
    if not bool(((p_incorrect >= 0) & (p_incorrect <= 1)).all()):
        raise ValueError("p_incorrect must hold probabilities, between 0 and 1")
    return p_incorrect
