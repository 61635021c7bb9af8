"""The samples that make up less than half of a mixed row: they are weighted, and not visited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from discrimloss import functional as F
from discrimloss.label_correction import MIXING
from discrimloss.state.batch_checks import as_sample_index, check_losses, checked_index

if TYPE_CHECKING:
    from discrimloss.criterion_state import CriterionState


def other_rows(
    criterion: CriterionState, losses: Tensor, other_losses: Tensor, other_index: Any
) -> Tensor:
    """The rows of these samples in the table; an error before anything changes."""
    check_losses(other_losses)
    if other_losses.shape != losses.shape:
        raise ValueError(
            f"other_losses has shape {tuple(other_losses.shape)} and losses has "
            f"{tuple(losses.shape)}: both must have one loss of each mixed row"
        )
    if criterion.table.ids is not None:
        other_index = criterion.table.rows_of(other_index)
    return checked_index(as_sample_index(other_index, other_losses), criterion.num_samples)


def weighted_others(criterion: CriterionState, losses: Tensor, rows: Tensor) -> Tensor:
    """The losses of these samples, each with the weight of its sample."""
    table, labels = criterion.table, criterion.labels
    rows = rows.to(table.log_weight.device)
    if labels is None or labels.correction.phase == MIXING:
        log_weight = table.log_weight.index_select(0, rows)
        return F.model_gradient(log_weight, criterion.tracker.suppression).to(losses) * losses
    return labels.without_held_out(losses, table.role.index_select(0, rows).to(losses.device))
