"""Verdicts on the samples of a criterion."""

from __future__ import annotations

import warnings
from dataclasses import replace

from torch import Tensor

from discrimloss.judging.verdicts import Rule, Verdicts, judge_samples
from discrimloss.loss import DiscrimLoss


def judge_criterion(
    criterion: DiscrimLoss, rule: Rule = "calibrated", p_incorrect: Tensor | None = None
) -> Verdicts:
    """See `DiscrimLoss.verdicts`, which calls it."""
    criterion.grow_with_ids()
    if criterion.epoch == 1 and criterion.epochs != 1 and criterion.table.all_visited_twice():
        warnings.warn(
            "samples were visited several times, all in epoch 1: "
            "call set_epoch(epoch) at the start of every epoch",
            stacklevel=3,
        )
    verdicts = judge_samples(
        averages=criterion.average_chunks,
        learned_early=criterion.table.learned_early,
        weights=criterion.table.log_weight.exp(),
        loss_scale=float(criterion.loss_scale),
        thresholds=(float(criterion.k1), criterion.k2),
        rule=rule,
        shards=criterion.table.shards,
        p_incorrect=_checked_probabilities(criterion, p_incorrect),
    )
    verdicts = verdicts.completed(criterion.table.whole)
    return verdicts if criterion.ids is None else replace(verdicts, ids=criterion.ids.names())


def _checked_probabilities(criterion: DiscrimLoss, p_incorrect: Tensor | None) -> Tensor | None:
    if p_incorrect is None:
        return None
    if criterion.table.is_partial:
        raise ValueError("p_incorrect cannot be given where the table is sharded")
    if p_incorrect.shape != (criterion.num_samples,):
        raise ValueError(
            f"p_incorrect must have the shape ({criterion.num_samples},), one for each sample, "
            f"not {tuple(p_incorrect.shape)}"
        )
    if not bool(((p_incorrect >= 0) & (p_incorrect <= 1)).all()):
        raise ValueError("p_incorrect must hold probabilities, between 0 and 1")
    return p_incorrect
