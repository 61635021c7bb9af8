"""What DiscrimLoss updates at the end of an epoch, from the losses of all samples."""

from __future__ import annotations

import math

import torch

from discrimloss import functional as F
from discrimloss.criterion_state import CriterionState
from discrimloss.state.table import NO, NOT_KNOWN, YES
from discrimloss.target_ranges import TargetRanges

SCALE_SETTLES = 0.25
"""Fraction of a run during which the loss scale of a regression may decrease with the losses."""
MOST_OF_USUAL = 100.0
"""For that scale, losses are clipped to this multiple of their median."""


def end_epoch(criterion: CriterionState, next_epoch: int) -> None:
    """Record which samples were learned in stage 1, and set the thresholds for the next epoch."""
    table, tracker, labels = criterion.table, criterion.tracker, criterion.labels
    if labels is not None:
        knew_one_range = bool(tracker.visits_seen[1:].sum() == 0)
        labels.end_epoch(criterion.epoch, table)
        if isinstance(labels, TargetRanges) and knew_one_range:
            tracker.spread_first_group()
        if isinstance(labels, TargetRanges) and _is_scale_open(criterion):
            _lower_scales(criterion)
    last_of_stage_one = max(math.floor(criterion.hyperparameters.switch_epoch), 1)
    if criterion.epoch <= last_of_stage_one < next_epoch:
        for rows in table.chunks():
            average = criterion.average_chunk(rows)
            k1 = F.of_group(tracker.k1, criterion.group_chunk(rows))
            flags = torch.where(average < k1, YES, NO)
            flags = torch.where(average.isnan(), NOT_KNOWN, flags)
            table.learned_early[rows] = flags.to(torch.int8)
    chunks = None
    if labels is not None:
        chunks = [labels.groups_of_rows(table, rows) for rows in table.chunks()]
    tracker.end_epoch(criterion.average_chunks(), chunks, table.shards)


def _is_scale_open(criterion: CriterionState) -> bool:
    """Return whether the loss scale of a regression may still decrease."""
    return criterion.epoch <= max(1.0, SCALE_SETTLES * criterion.planned_epochs)


def _lower_scales(criterion: CriterionState) -> None:
    """Compute the loss scale of a regression again, from the latest losses of all samples.

    The first losses are large if the targets are far from zero. After an epoch, the network has
    learned at least their mean.
    """
    latest = criterion.latest_losses().abs()
    seen = latest.isfinite()
    sizes = latest[seen].double()
    sizes = sizes.clamp(max=MOST_OF_USUAL * float(sizes.median()) if len(sizes) else 0.0)
    # One scale for all ranges: a constant prediction has its largest losses in the outer ranges.
    sums = torch.stack([torch.ones_like(sizes).sum(), sizes.sum(), sizes.square().sum()])
    number, total, squares = criterion.table.shards.total(sums.cpu()).tolist()
    if number > 0:
        scale = criterion.tracker.first_mean_abs
        criterion.tracker.lower_scales(
            torch.full_like(scale, total / number), torch.full_like(scale, squares / number)
        )
