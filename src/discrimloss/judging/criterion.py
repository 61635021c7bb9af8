"""Estimates the verdicts of a criterion from its losses and predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discrimloss.judging.calibration import Calibration, calibrate
from discrimloss.judging.known_labels import (
    SampleKinds,
    errors_by_predictions,
    sample_kinds,
)
from discrimloss.judging.label_errors import LabelErrors
from discrimloss.judging.run_limits import (
    FAR_OFF_ONLY,
    HARDLY_ANY,
    LEARNED_AS_THEY_ARE,
    NOT_CROSS_ENTROPY,
    against_label,
    are_other_losses,
    kind_of_all_losses,
    limit_by_index,
    limit_by_losses,
    limit_by_predictions,
    run_losses,
)
from discrimloss.judging.verdicts import (
    EASY,
    HARD,
    HARD_BELOW,
    INCORRECT,
    INCORRECT_ABOVE,
    RULES,
    UNDECIDED,
    UNSEEN,
    Rule,
    Verdicts,
    log_odds,
)
from discrimloss.loss import DiscrimLoss
from discrimloss.state.table import NOT_KNOWN, YES


def judge_criterion(
    criterion: DiscrimLoss, rule: Rule = "calibrated", p_incorrect: Tensor | None = None
) -> Verdicts:
    """See `DiscrimLoss.verdicts`, which calls this function."""
    criterion.grow_with_ids()
    is_one_epoch = criterion.epoch == 1 and criterion.epochs != 1
    is_known = criterion.watch.has_warned("passes", "backwards", "index")
    if is_one_epoch and not is_known and criterion.table.all_visited_twice():
        warnings.warn(
            "samples were visited several times, all in epoch 1: "
            "call set_epoch(epoch) at the start of every epoch",
            stacklevel=5,
        )
    given = _checked_probabilities(criterion, p_incorrect)
    kinds = sample_kinds(criterion)
    latest = criterion.latest_losses().cpu()
    found = _Found()
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, not {rule!r}")
    if given is None:
        found = _find_errors(criterion, latest, kinds, by_losses_only=rule == "threshold")
    errors = found.errors
    verdicts = judge_samples(
        averages=criterion.average_chunks,
        learned_early=criterion.table.learned_early,
        weights=criterion.table.log_weight.exp(),
        thresholds=(float(criterion.k1), criterion.k2),
        latest=latest,
        rule=rule,
        p_incorrect=given,
        kinds=kinds,
        calibration=found.calibration,
        score=None if errors is None else criterion.table.shards.own_part(errors.score),
        agrees=None if found.agrees is None else criterion.table.shards.own_part(found.agrees),
        can_tell=found.limit is None,
        has_hard=found.has_hard,
    )
    if criterion.table.shards.several:
        verdicts = _of_all_processes(verdicts, criterion.table.whole)
    if kinds is not None:
        verdicts = replace(verdicts, given_label=kinds.given, notes=kinds.notes)
    if errors is not None:
        verdicts = replace(
            verdicts,
            suggested_label=errors.suggested.numpy(),
            noise_interval=errors.noise_interval if found.limit is None else None,
        )
    verdicts = replace(verdicts, notes=(*verdicts.notes, *found.notes))
    if found.limit is not None:
        verdicts = replace(verdicts, notes=(found.limit, *verdicts.notes), can_tell_noise=False)
    return verdicts if criterion.ids is None else replace(verdicts, ids=criterion.ids.names())


@dataclass(frozen=True)
class _Found:
    """The estimates from losses and predictions about the labels of a run."""

    calibration: Calibration | None = None
    """The map from losses to probabilities, if losses decide."""
    errors: LabelErrors | None = None
    """The label errors estimated from predictions, if predictions decide."""
    agrees: Tensor | None = None
    """Shape (num_samples,), bool: whether predictions agree with each label, if they decide."""
    limit: str | None = None
    """Why there are no estimates, or None if there are."""
    notes: tuple[str, ...] = ()
    """Further notes on the verdicts."""
    has_hard: bool = True
    """Whether samples may be called hard."""


def _find_errors(
    criterion: DiscrimLoss, latest: Tensor, kinds: SampleKinds | None, *, by_losses_only: bool
) -> _Found:
    """Choose between losses and predictions, or decide that neither can tell wrong labels."""

    def strengths() -> Iterable[Tensor]:
        return _strengths(criterion.average_chunks(), latest, kinds)

    predicted = None
    if criterion.labels is not None and not by_losses_only:
        predicted = errors_by_predictions(criterion)
    losses = run_losses(criterion, latest, kinds)
    calibration = calibrate(strengths, losses.unit, criterion.table.shards)
    by_losses = losses.noise(calibration)
    wrong_index = limit_by_index(criterion.table, criterion.epoch)
    if predicted is None:
        kind = kind_of_all_losses(criterion)
        limit = wrong_index or limit_by_losses(losses, by_losses, kind)
        notes = _notes(limit, by_losses.rate)
        if kind == "distances" and limit is None:
            notes = (FAR_OFF_ONLY,)
        # Relative to its class, a wrong label that is learned late looks like a hard sample.
        has_hard = kinds is None or not notes
        return _Found(calibration, limit=limit, notes=notes, has_hard=has_hard)
    is_other_loss = are_other_losses(criterion)
    limit = wrong_index or limit_by_predictions(
        losses, by_losses, predicted, by_losses_too=not is_other_loss
    )
    notes = _notes(limit, predicted.noise_rate)
    if is_other_loss:
        notes = (*notes, NOT_CROSS_ENTROPY)
    return _Found(errors=predicted.errors, agrees=predicted.agrees, limit=limit, notes=notes)


def _notes(limit: str | None, noise_rate: float) -> tuple[str, ...]:
    return (LEARNED_AS_THEY_ARE,) if limit is None and noise_rate < HARDLY_ANY else ()


def _strengths(
    averages: Iterable[Tensor], latest: Tensor, kinds: SampleKinds | None
) -> Iterable[Tensor]:
    """Yield the evidence of losses against the labels, divided by their group's difficulty."""
    start = 0
    for chunk in averages:
        rows = slice(start, start + len(chunk))
        start += len(chunk)
        strength = against_label(chunk, latest[rows].to(chunk))
        yield strength if kinds is None else strength / kinds.difficulty[rows].to(chunk)


def judge_samples(
    averages: Callable[[], Iterable[Tensor]],
    learned_early: Tensor,
    weights: Tensor,
    thresholds: tuple[float, float],
    latest: Tensor,
    rule: Rule = "calibrated",
    p_incorrect: Tensor | None = None,
    kinds: SampleKinds | None = None,
    calibration: Calibration | None = None,
    score: Tensor | None = None,
    agrees: Tensor | None = None,
    can_tell: bool = True,
    has_hard: bool = True,
) -> Verdicts:
    """Return the verdicts of all samples, in one pass.

    One of `p_incorrect`, `calibration` and `score` is given.

    Args:
        averages: returns ``Avg(l)`` of all samples in chunks. NaN if never visited.
        learned_early: shape (num_samples,), as in `SampleTable`.
        weights: shape (num_samples,), ``delta``.
        thresholds: ``k1`` and ``k2``.
        latest: shape (num_samples,): the loss of the latest visit.
        rule: see `DiscrimLoss.verdicts`.
        p_incorrect: shape (num_samples,): probabilities from another source.
        kinds: the group of each sample, if targets are known.
        calibration: maps losses to probabilities.
        score: shape (num_samples,): log-odds by predictions.
        agrees: shape (num_samples,), bool: whether predictions agree with each label. If not, the
            sample is undecided instead of hard, because some such labels are wrong.
        can_tell: whether the run can tell wrong labels. If not, none is incorrect, and all that are
            not easy are undecided.
        has_hard: whether samples may be called hard instead of undecided.
    """
    k1, k2 = thresholds
    chunks: list[tuple[Any, ...]] = []
    start = 0
    for chunk in averages():
        average = chunk.cpu()
        rows = slice(start, start + len(average))
        flags = learned_early[rows].cpu()
        start += len(average)
        if calibration is not None:
            strength = against_label(average, latest[rows])
            odds = calibration.log_odds(
                strength if kinds is None else strength / kinds.difficulty[rows]
            )
        elif score is not None:
            odds = score[rows].masked_fill(average.isnan(), torch.nan)
        elif p_incorrect is not None:
            given = p_incorrect[rows].to("cpu", torch.float32)
            odds = torch.from_numpy(log_odds(given.masked_fill(average.isnan(), torch.nan)))
        if kinds is not None:
            odds = torch.where(kinds.is_small[rows], odds.clamp(max=0.0), odds)
        if not can_tell:
            odds = odds.clamp(max=0.0)
        probability = odds.sigmoid()
        code = torch.full_like(flags, HARD)
        easy_below = k1 if kinds is None else kinds.k1[rows]
        code[torch.where(flags == NOT_KNOWN, average < easy_below, flags == YES)] = EASY
        if rule == "calibrated":
            unsure = (probability > HARD_BELOW) | torch.tensor(not (can_tell and has_hard))
            if agrees is not None:
                unsure |= ~agrees[rows]
            code[(code == HARD) & unsure] = UNDECIDED
        # A label that is incorrect at the end is not easy, even if it was learned early.
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
    """Join the verdicts of all processes.

    Args:
        verdicts: verdicts on the samples of this process.
        whole: joins the parts of a column from all processes.
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
        raise ValueError("p_incorrect cannot be used with a sharded table: leave it out")
    if p_incorrect.shape != (criterion.num_samples,):
        raise ValueError(
            f"p_incorrect must have the shape ({criterion.num_samples},), one for each sample, "
            f"not {tuple(p_incorrect.shape)}"
        )
    if not bool(((p_incorrect >= 0) & (p_incorrect <= 1)).all()):
        raise ValueError("p_incorrect must have probabilities between 0 and 1")
    return p_incorrect
