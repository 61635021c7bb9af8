"""The inputs of a training batch, checked before anything changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from discrimloss.known_labels import Given
from discrimloss.state.batch_checks import REFUSALS, as_sample_index, check_losses
from discrimloss.state.sample_ids import number_of_names

if TYPE_CHECKING:
    from discrimloss.criterion_state import CriterionState


class GivenBatch(NamedTuple):
    """The inputs of one process for a training batch, besides the losses."""

    samples: Tensor
    """The index of each row."""
    target: Tensor | None
    outputs: Tensor | None
    """The network's output, with its gradient."""
    known: Given | None
    """Targets and predictions; None if the criterion was built without targets."""


def given_batch(
    criterion: CriterionState,
    losses: Tensor,
    index: Any,
    target: Tensor | None,
    logits: Tensor | None,
    predictions: Tensor | None,
) -> GivenBatch:
    """Check the inputs of this process. If a check fails, the other processes raise an error too.

    The arguments are those of `DiscrimLoss.forward`.
    """
    if criterion.processes.count == 1:
        return _checked(criterion, losses, index, target, logits, predictions)
    try:
        return _checked(criterion, losses, index, target, logits, predictions)
    except REFUSALS:
        if criterion.table.ids is not None:
            criterion.table.rows_of([])  # other processes exchange new ids first
        criterion.processes.refuse_batch()
        raise


def _checked(
    criterion: CriterionState,
    losses: Tensor,
    index: Any,
    target: Tensor | None,
    logits: Tensor | None,
    predictions: Tensor | None,
) -> GivenBatch:
    check_losses(losses)
    table, labels = criterion.table, criterion.labels
    outputs = _outputs(criterion, target, logits, predictions)
    known = None if labels is None else labels.given(losses, target, outputs, table)
    if table.ids is None:
        return GivenBatch(as_sample_index(index, losses), target, outputs, known)
    as_sample_index(torch.arange(number_of_names(index)), losses)
    return GivenBatch(table.rows_of(index), target, outputs, known)


def _outputs(
    criterion: CriterionState,
    target: Tensor | None,
    logits: Tensor | None,
    predictions: Tensor | None,
) -> Tensor | None:
    """Return the network's output, or raise an error if this form takes no targets."""
    if criterion.labels is not None:
        return criterion.labels.output_of(logits, predictions)
    if target is None and logits is None and predictions is None:
        return None
    raise ValueError(
        "this DiscrimLoss was built for losses alone: build it with num_classes=… or "
        'task="regression" to pass targets and predictions'
    )
