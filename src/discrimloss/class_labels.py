"""Class labels and averaged predictions of the samples. See `known_labels`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from discrimloss.known_labels import Given, KnownLabels, Rows, count_predictions
from discrimloss.label_correction import (
    CORRECTING,
    CORRECTING_ALL,
    MIXING,
    WATCHING,
    LabelCorrection,
)
from discrimloss.state.exchange import Batch
from discrimloss.state.labels import (
    checked_classes,
    checked_logits,
    pack_classes,
    unpack_classes,
)
from discrimloss.state.predictions import (
    TopPredictions,
    average_predictions,
    kept_classes,
    top_predictions,
)
from discrimloss.state.table import CLASS_COLUMNS, SampleTable, prediction_columns
from discrimloss.visits import Visits


class ClassLabels(KnownLabels[TopPredictions]):
    """Class labels of the samples, and their averaged predictions if batches have logits.

    Args:
        num_classes: number of classes.
        num_samples: size of the training set when the run starts.
        epochs: length of the run.
    """

    columns = CLASS_COLUMNS
    prediction_name = "logits"

    def __init__(self, num_classes: int, num_samples: int, epochs: float) -> None:
        super().__init__(num_classes, LabelCorrection(num_classes, num_samples, epochs))
        self.num_classes = num_classes
        self.prediction_columns = prediction_columns(kept_classes(num_classes))

    def _checked(self, losses: Tensor, target: Any, predictions: Any) -> Given:
        target = checked_classes(target, losses).to(losses.device)
        if predictions is None:
            return Given(target, None)
        logits = checked_logits(predictions, losses, self.groups)
        return Given(target, top_predictions(logits.detach().to(losses.device)))

    def packed(self, given: Given) -> Tensor:
        """See `KnownLabels.packed`."""
        return pack_classes(*given)

    def unpacked(self, words: Tensor) -> Given:
        """See `KnownLabels.unpacked`."""
        return Given(*unpack_classes(words))

    def group_of(self, target: Tensor) -> Tensor:
        """The class of each row."""
        return target

    def _as_given(self, stored: Tensor) -> Tensor:
        return stored.long()

    def _visit_predictions(
        self, batch: Batch, given: Given, table: SampleTable, visits: Visits
    ) -> Tensor:
        losses, target, new = batch.losses, given.target, given.predictions
        assert new is not None
        if self.correction.phase == WATCHING:
            # The probability of a class that is not kept is unknown: 0 leaves the row out.
            mass = (new.mass * (new.classes == target.unsqueeze(1))).sum(1)
            columns = (column.index_select(0, visits.order) for column in (losses, mass, target))
            self.correction.record_units(*columns)
        elif self.correction.phase == CORRECTING:
            losses = self.correction.noisy_losses(new, target)
        if self.correction.phase != MIXING:  # mixed targets use predictions from before memorising
            of_samples = (batch.local(visits.of_first(part)) for part in new)
            counts = batch.local(visits.counts)
            _average_classes(TopPredictions(*of_samples), batch, table, counts, self.groups)
        return losses

    def more_columns(self, batch: Batch, table: SampleTable) -> tuple[Tensor, ...]:
        """Return the averaged predictions, if they are needed as targets."""
        if self.correction.phase != MIXING or not table.has_optional_columns():
            return ()
        classes = table.predicted_class.index_select(0, batch.table_rows).float()
        mass = table.predicted_mass.index_select(0, batch.table_rows).float()
        return (*classes.unbind(1), *mass.unbind(1))

    def rows_to_learn(
        self, losses: Tensor, rows: Rows, target: Tensor, predictions: Tensor | None
    ) -> Tensor:
        """See `KnownLabels.rows_to_learn`."""
        correction, target = self.correction, target.long()
        if correction.phase == MIXING and predictions is None:
            return rows.value + rows.slope * (losses - losses.detach())
        if correction.phase == MIXING and predictions is not None:
            kept = len(rows.more) // 2
            classes, mass = (torch.stack(part, 1) for part in (rows.more[:kept], rows.more[kept:]))
            targets = correction.mixed_targets(TopPredictions(classes.long(), mass), target)
            losses = targets.loss(losses, _required(predictions), target, correction.units())
        elif correction.phase in (CORRECTING, CORRECTING_ALL):
            targets = correction.corrected_targets(_required(predictions), target)
            losses = targets.loss(losses, _required(predictions), target, correction.units())
            weights = rows.slope.to(losses) ** correction.weight_exponent().to(losses)
            losses = weights * losses
        return self.without_held_out(losses, rows.role)

    def groups_of_rows(self, table: SampleTable, rows: slice) -> Tensor:
        """See `KnownLabels.groups_of_rows`."""
        return table.target[rows].long().clamp(min=0)

    def distrust(self, table: SampleTable) -> Tensor:
        """Return the averaged probability that the given class is not the true one."""
        top = TopPredictions(table.predicted_class.long(), table.predicted_mass.float())
        label = table.target.long().clamp(min=0).unsqueeze(1)
        return 1.0 - top.of_class(label, self.groups)[:, 0]


def _required(predictions: Tensor | None) -> Tensor:
    assert predictions is not None  # `given` has checked it
    return predictions


def _average_classes(
    new: TopPredictions, batch: Batch, table: SampleTable, counts: Tensor, num_classes: int
) -> None:
    """Add the predictions of a batch to the averages of its samples."""
    largest = new.mass[:, 0]  # a softmax is finite in all classes or in none
    counts = counts & (largest == largest)
    visits = count_predictions(batch, table, counts)
    old = TopPredictions(
        table.predicted_class.index_select(0, batch.table_rows).long(),
        table.predicted_mass.index_select(0, batch.table_rows).float(),
    )
    average = average_predictions(old, new, visits.float(), num_classes)
    keep = counts.unsqueeze(1)
    classes = torch.where(keep, average.classes, old.classes).to(table.predicted_class.dtype)
    mass = torch.where(keep, average.mass, old.mass).to(table.predicted_mass.dtype)
    table.predicted_class.index_copy_(0, batch.table_rows, classes)
    table.predicted_mass.index_copy_(0, batch.table_rows, mass)
