"""How a batch changes the state of a `DiscrimLoss`: one visit to each of its samples."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from discrimloss import functional as F
from discrimloss.criterion_state import CriterionState
from discrimloss.known_labels import Given, Rows
from discrimloss.state.exchange import Batch
from discrimloss.state.table import MAX_VISITS
from discrimloss.visits import Visits, group_visits


@torch.no_grad()
def visit(criterion: CriterionState, batch: Batch) -> tuple[Tensor, ...]:
    """Update the history, the thresholds and the weights with a batch from all processes.

    Returns:
        The weighted loss and ``dL/dl`` of each row of this process.
    """
    visits = group_visits(batch.losses, batch.index)
    return criterion.table.shards.send_back(batch, *_visited(criterion, batch, visits, None))


@torch.no_grad()
def visit_with_labels(
    criterion: CriterionState, batch: Batch, given: Given, begin_step: Callable[[], None]
) -> Rows:
    """Update the state with a batch that has targets; return the results for the local rows.

    Args:
        criterion: the criterion.
        batch: the rows of all processes.
        given: the targets and predictions of the rows.
        begin_step: called once the targets are known to be valid, before anything changes.
    """
    labels = criterion.labels
    assert labels is not None
    visits = group_visits(batch.losses, batch.index, lambda: labels.tie_break(given))
    remembered = labels.remembered(batch, criterion.table)
    batch, given = labels.checked(batch, given, remembered, visits)
    begin_step()
    group = labels.group_of(given.target)
    seen = F.of_group(criterion.tracker.visits_seen, group)
    value, slope = _visited(criterion, batch, visits, group)
    role = labels.visit(batch, given, remembered, criterion.table, visits, seen)
    labels.has_begun = True
    more = labels.more_columns(batch, criterion.table)
    sent = criterion.table.shards.send_back(batch, value, slope, role.to(value.dtype), *more)
    return Rows(sent[0], sent[1], sent[2], sent[3:])


def _visited(
    criterion: CriterionState, batch: Batch, visits: Visits, group: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Update the state; return the weighted loss and ``dL/dl`` of each local row."""
    table, tracker, values = criterion.table, criterion.tracker, criterion.hyperparameters

    # Update the history of the samples, and compute Avg(l).
    rows = batch.table_rows
    old_history = table.history.index_select(0, rows)
    old_count = table.visits.index_select(0, rows)
    losses = batch.local(visits.mean_loss)
    new_history = F.update_history(old_history, losses, values.history_decay)
    history = visits.of_counted(batch, new_history, old_history)
    count = visits.of_counted(batch, old_count.clamp(max=MAX_VISITS - 1).add_(1), old_count)
    log_weight = table.log_weight.index_select(0, rows)
    entering = criterion.form.entering(log_weight, criterion)
    table.history.index_copy_(0, rows, history)
    table.visits.index_copy_(0, rows, count)
    average = criterion.form.average(history, count, tracker.epoch_count)
    _remember_latest(criterion, batch, visits)

    # Update the thresholds and the loss scales. Eager steps skip updates that have no effect.
    # A compiled step never skips them, or it would be compiled again after the first epoch.
    if torch.compiler.is_compiling() or tracker.is_moving:
        visits = criterion.form.tracked_visits(visits, average, batch, criterion)
        _track(criterion, visits, group)
    group = None if group is None else batch.local(group)
    threshold = F.of_group(tracker.threshold_now, group)

    # Compute the loss with the old weights, then update the weights.
    terms = criterion.form.terms(average, entering, threshold, visits, batch, criterion)
    moved = entering - F.of_group(tracker.step_size, group) * terms.weight_gradient
    moved = visits.of_counted(batch, moved.clamp_(*criterion.log_weight_range), log_weight)
    table.log_weight.index_copy_(0, rows, moved)
    return terms.value, terms.model_gradient


def _remember_latest(criterion: CriterionState, batch: Batch, visits: Visits) -> None:
    """Store the losses of this visit. Verdicts use them as the latest evidence."""
    if criterion.variant == "released":  # its table has no such column
        return
    column, rows = criterion.table.latest_loss, batch.table_rows
    latest = batch.local(visits.mean_loss).to(column.dtype)
    latest = visits.of_counted(batch, latest, column.index_select(0, rows))
    column.index_copy_(0, rows, latest)


def _track(criterion: CriterionState, visits: Visits, group: Tensor | None) -> None:
    """Update ``k1``, the loss scales and the terms that follow from them."""
    tracker, values = criterion.tracker, criterion.hyperparameters
    old = F.TrackedLosses(
        tracker.k1, tracker.visits_seen, tracker.first_mean_abs, tracker.first_mean_square
    )
    new = F.track_losses(old, visits, group, tracker.past_first_epoch, values.threshold)
    for buffer, value in zip(old, new, strict=True):
        buffer.copy_(value)
    tracker.threshold_now.copy_(F.dynamic_threshold(new.k1, tracker.rise))
    if values.weight_lr is None or tracker.smallest_group:
        scale = F.loss_scale(new.mean_abs, new.mean_square)
        size = F.step_size(scale, new.visits, values, tracker.smallest_group)
        tracker.step_size.copy_(size)
