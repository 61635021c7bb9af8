"""Weights the samples that make up less than half of each mixed row.

Their state does not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrimloss import functional as F
from discrimloss.label_correction import MIXING
from discrimloss.state.batch_checks import REFUSALS, as_sample_index, check_losses, checked_index
from discrimloss.state.labels import check_labels
from discrimloss.state.sample_ids import number_of_names

if TYPE_CHECKING:
    from discrimloss.criterion_state import CriterionState
    from discrimloss.known_labels import Given


def other_rows(
    criterion: CriterionState,
    losses: Tensor,
    other_losses: Tensor,
    other_index: Any,
    other_target: Tensor | None,
) -> Tensor:
    """Return the table rows of these samples, or raise an error in all processes."""
    table, processes = criterion.table, criterion.processes
    rounds_of_names = 0 if table.ids is None else 2  # for these samples, and for the batch
    try:
        given = _checked(criterion, losses, other_losses, other_target)
        if table.ids is not None:
            as_sample_index(torch.arange(number_of_names(other_index)), other_losses)
            other_index = table.rows_of(other_index)
            rounds_of_names -= 1
        rows = checked_index(as_sample_index(other_index, other_losses), criterion.num_samples)
        return rows if given is None else _with_known_target(criterion, rows, given)
    except REFUSALS:
        if processes.count > 1:
            for _ in range(rounds_of_names):
                table.rows_of([])  # other processes exchange new ids first
            processes.refuse_batch()
        raise


def _checked(
    criterion: CriterionState, losses: Tensor, other_losses: Tensor, other_target: Tensor | None
) -> Given | None:
    """Return the targets of these samples, if the criterion has targets."""
    check_losses(other_losses)
    if other_losses.shape != losses.shape:
        raise ValueError(
            f"other_losses has shape {tuple(other_losses.shape)} and losses has "
            f"{tuple(losses.shape)}: both must have one loss of each mixed row"
        )
    if criterion.labels is None:
        return None
    if other_target is None:
        raise ValueError(
            "a target is missing: this DiscrimLoss was built for targets, so mixed samples need "
            "target and other_target"
        )
    return criterion.labels.given(other_losses, other_target, None, criterion.table)


def _with_known_target(criterion: CriterionState, rows: Tensor, given: Given) -> Tensor:
    """Return the rows, or raise an error if a target is invalid or differs from earlier visits."""
    table, labels = criterion.table, criterion.labels
    assert labels is not None
    rows = rows.to(table.target.device)
    target = given.target.to(rows.device)
    is_known = table.visits.index_select(0, rows) > 0
    earlier = table.target.index_select(0, rows).to(target.dtype)
    earlier = torch.where(is_known, earlier, target)
    return check_labels(rows, target, earlier, rows, slice(None), labels.num_classes)[0]


def weighted_others(criterion: CriterionState, losses: Tensor, rows: Tensor) -> Tensor:
    """Return the weighted losses of these samples. Held-out samples have the loss 0."""
    table, labels = criterion.table, criterion.labels
    rows = rows.to(table.log_weight.device)
    if labels is None or labels.correction.phase == MIXING:
        log_weight = table.log_weight.index_select(0, rows)
        return F.model_gradient(log_weight, criterion.tracker.suppression).to(losses) * losses
    return labels.without_held_out(losses, labels.roles(table, rows).to(losses.device))
