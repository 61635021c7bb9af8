"""How DiscrimLoss uses targets and predictions. This is our extension of the paper.

Targets divide the samples into groups with a threshold and a loss scale each: one for each class
(`class_labels`), or for each range of a regression target (`target_ranges`). So a sample is
compared with its own kind, and a rare class is not taken for a wrong one. This module is what both
share. How labels are corrected is `label_correction`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from discrimloss.held_out import NEVER_HELD_OUT, is_drawn
from discrimloss.label_correction import WATCHING, LabelCorrection
from discrimloss.state.compiled import constant_while_compiled
from discrimloss.state.exchange import Batch
from discrimloss.state.fixed_dtype import FixedDtypeModule
from discrimloss.state.labels import check_labels
from discrimloss.state.predictions import TopPredictions
from discrimloss.state.table import HELD_OUT, TRAINED, UNDECIDED, Column, SampleTable
from discrimloss.visits import Visits, all_on_host

SMALLEST_GROUP = 20
"""Groups with fewer visits are too small to be split: their weights stay at 1."""
CHECKSUM_FACTOR = 0x5851F42D4C957F2D  # of a linear congruential generator by D. Knuth
MOST_COUNTED = 100  # visits of a prediction: more make no difference to a moving average

Predictions = TypeVar("Predictions")


class Given(NamedTuple):
    """Targets and predictions of the rows of all processes."""

    target: Tensor
    """Shape (rows,): int64 classes or float32 regression targets."""
    predictions: Any
    """`TopPredictions` of each row, or shape (rows,) for a regression; None if there are none."""

    def to(self, device: torch.device) -> Given:
        """The same on another device."""
        predictions: Any = self.predictions
        if isinstance(predictions, TopPredictions):
            predictions = TopPredictions(*(part.to(device) for part in predictions))
        elif predictions is not None:
            predictions = predictions.to(device)
        return Given(self.target.to(device), predictions)


class Remembered(NamedTuple):
    """Stored state of the rows of all processes, shape (rows,) each."""

    is_known: Tensor
    """Bool: whether the sample was visited before."""
    target: Tensor
    """Its target then, with the dtype of `Given.target`."""
    role: Tensor
    """Int64: its role."""
    all_known: bool
    """Whether all samples are known to have been visited before: targets and roles stay."""


class Rows(NamedTuple):
    """What a step found of the rows of this process, shape (rows,) each."""

    value: Tensor
    """The value of the weighted loss."""
    slope: Tensor
    """Its derivative with respect to the task loss."""
    role: Tensor
    """Whether the sample is held out; see `state.table`."""
    more: tuple[Tensor, ...]
    """Columns of predictions, where they are needed."""

    def to(self, device: torch.device) -> Rows:
        """The same on another device."""
        value, slope, role = (part.to(device) for part in self[:3])
        return Rows(value, slope, role, tuple(part.to(device) for part in self.more))


class KnownLabels(FixedDtypeModule, ABC, Generic[Predictions]):
    """Targets and predictions of the samples, and what follows from them.

    Args:
        groups: number of groups of samples.
        correction: when labels are corrected, and by what.
    """

    columns: ClassVar[dict[str, Column]]
    """Columns of the table that hold targets."""
    prediction_columns: dict[str, Column]
    """Columns that hold predictions."""
    prediction_name: ClassVar[str]
    """The argument that holds predictions."""
    num_classes: int | None = None
    """None for a regression."""

    def __init__(self, groups: int, correction: LabelCorrection) -> None:
        super().__init__()
        self.groups = groups
        self.correction = correction
        self.has_begun = False
        """Whether there was a batch: from then on, all have predictions or none has."""

    @property
    def holds_out(self) -> bool:
        """Whether some samples are held out of the gradient in this epoch."""
        return self.correction.holds_out

    # ----------------------------------------------------------------- a batch

    def given(self, losses: Tensor, target: Any, predictions: Any, table: SampleTable) -> Given:
        """The targets and predictions of a batch, or an error that says what is wrong with them."""
        if target is None:
            raise ValueError(
                "target is missing: this DiscrimLoss was built for targets, so every training "
                "batch must have them; leave num_classes and task out to work without"
            )
        knows_predictions = table.has_optional_columns()
        has_changed = (predictions is None) == knows_predictions
        if has_changed and (knows_predictions or self._had_a_batch()):
            given, before = ("not given", "were") if knows_predictions else ("given", "were not")
            raise ValueError(
                f"{self.prediction_name} are {given}, but {before} in earlier batches: pass them "
                "in every training batch, or in none"
            )
        return self._checked(losses, target, predictions)

    @constant_while_compiled
    def _had_a_batch(self) -> bool:
        """See `has_begun`. A step is not compiled again because it is the second."""
        return self.has_begun

    def output_of(self, logits: Tensor | None, predictions: Tensor | None) -> Tensor | None:
        """Return the network's output, or raise a ValueError if it is of another task."""
        if self.prediction_name == "logits":
            if predictions is not None:
                raise ValueError(
                    "predictions are for a regression: give the output of a classifier as logits=…"
                )
            return logits
        if logits is not None:
            raise ValueError(
                "logits are for classes: give the output of a regression as predictions=…"
            )
        return predictions

    @abstractmethod
    def _checked(self, losses: Tensor, target: Any, predictions: Any) -> Given: ...

    @abstractmethod
    def packed(self, given: Given) -> Tensor:
        """Targets and predictions for the exchange between processes, int32."""

    @abstractmethod
    def unpacked(self, words: Tensor) -> Given:
        """Targets and predictions of a batch of all processes."""

    def tie_break(self, given: Given) -> Tensor | None:
        """Shape (rows,), int64: a checksum of what each row carries, if it can differ."""
        words = self.packed(given).long()
        if words.shape[1] == 1:  # rows of one sample have the same target
            return None
        odd = 2 * torch.arange(words.shape[1], device=words.device) + 1
        return (words * (odd * CHECKSUM_FACTOR)).sum(1)

    @abstractmethod
    def group_of(self, target: Tensor) -> Tensor:
        """Shape (rows,), int64: the group of each row of a batch of all processes."""

    def visit(
        self,
        batch: Batch,
        given: Given,
        remembered: Remembered,
        table: SampleTable,
        visits: Visits,
        seen: Tensor,
    ) -> Tensor:
        """Update targets, roles and predictions with a batch that `checked` has checked.

        Args:
            batch: the rows of all processes.
            given: what they carry.
            remembered: what was known of them before.
            table: the samples.
            visits: the batch as visits.
            seen: shape (rows,): visits to the group of each row before this batch.

        Returns:
            The role of each local row.
        """
        role, rows = remembered.role, batch.table_rows
        if not remembered.all_known:
            role = self._roles(batch, remembered, visits, seen)
            if "role" in self.columns:
                table.role.index_copy_(0, rows, batch.local(role).to(table.role.dtype))
            target = torch.where(visits.counts, given.target, remembered.target)
            table.target.index_copy_(0, rows, batch.local(target).to(table.target.dtype))
        losses = batch.losses
        if given.predictions is not None:
            table.add_optional_columns()
            losses = self._visit_predictions(batch, given, table, visits)
        self._record(losses, role, visits, batch)
        return batch.local(role)

    @abstractmethod
    def _visit_predictions(
        self, batch: Batch, given: Given, table: SampleTable, visits: Visits
    ) -> Tensor:
        """Update the averaged predictions; the losses that are compared with held-out ones."""

    def more_columns(self, batch: Batch, table: SampleTable) -> tuple[Tensor, ...]:
        """Columns of the local rows that `rows_to_learn` needs besides values and slopes."""
        return ()

    @abstractmethod
    def rows_to_learn(
        self, losses: Tensor, rows: Rows, target: Tensor, predictions: Tensor | None
    ) -> Tensor:
        """Shape (rows,): the loss of each row of this process, differentiable."""

    def remembered(self, batch: Batch, table: SampleTable) -> Remembered:
        """Look up what is known of all rows of a batch. All processes must call this."""
        known = table.visits.index_select(0, batch.table_rows) > 0
        target = table.target.index_select(0, batch.table_rows)
        role = self.roles(table, batch.table_rows).long()
        if batch.positions is None:
            return Remembered(known, self._as_given(target), role, all_on_host(known))
        # In one number, so that one collective brings it to all processes.
        bits = target.view(torch.int32) if target.is_floating_point() else target
        packed = (role << 33) + (known.long() << 32) + (bits.long() & 0xFFFFFFFF)
        packed = table.shards.complete(batch, packed)
        bits = packed.int()  # the lower half
        target = bits.view(torch.float32) if target.is_floating_point() else bits
        known = (packed >> 32 & 1).bool()
        return Remembered(known, self._as_given(target), packed >> 33, all_on_host(known))

    @abstractmethod
    def _as_given(self, stored: Tensor) -> Tensor: ...

    def checked(
        self,
        batch: Batch,
        given: Given,
        remembered: Remembered,
        visits: Visits,
    ) -> tuple[Batch, Given]:
        """The batch, or an error, in all processes and before any update, if a target is wrong."""
        earlier = remembered.target
        if not remembered.all_known:  # if not known: of the same batch
            earlier = torch.where(remembered.is_known, earlier, visits.of_first(given.target))
        table_rows, target = check_labels(
            batch.table_rows, given.target, earlier, batch.index, batch.own, self.num_classes
        )
        return replace(batch, table_rows=table_rows), given._replace(target=target)

    def _roles(self, batch: Batch, remembered: Remembered, visits: Visits, seen: Tensor) -> Tensor:
        """Shape (rows,): the role of each row; new samples get one."""
        new = torch.full_like(remembered.role, TRAINED)
        if self.correction.phase == WATCHING:
            drawn = is_drawn(batch.index, self.correction.fraction) & (seen >= NEVER_HELD_OUT)
            new = torch.where(drawn, HELD_OUT, new)
        is_new = (remembered.role == UNDECIDED) & visits.counts
        return torch.where(is_new, new, remembered.role)

    def roles(self, table: SampleTable, rows: Tensor | None = None) -> Tensor:
        """The role of rows of the local table, of all by default."""
        return table.role if rows is None else table.role.index_select(0, rows)

    def _record(self, losses: Tensor, role: Tensor, visits: Visits, batch: Batch) -> None:
        """Add the losses of all rows to the sums of the epoch, in an order that does not vary."""
        if self.holds_out:
            counts = visits.counts
            if not visits.all_count or losses is not batch.losses:
                counts = losses.isfinite() & batch.losses.isfinite() & (role != UNDECIDED)
            columns = (losses, role == HELD_OUT, counts)
            self.correction.record(*(column.index_select(0, visits.order) for column in columns))

    def without_held_out(self, rows: Tensor, role: Tensor) -> Tensor:
        """The losses of rows, 0 where the sample is held out of the gradient."""
        if not self.holds_out:
            return rows
        return rows * torch.where(role == HELD_OUT, 0.0, self.correction.scale()).to(rows)

    @abstractmethod
    def distrust(self, table: SampleTable) -> Tensor:
        """Shape (rows,): how far predictions contradict each target, from 0 to 1."""

    # ---------------------------------------------------------------- an epoch

    @abstractmethod
    def groups_of_rows(self, table: SampleTable, rows: slice) -> Tensor:
        """Shape (rows,), int64: the group of each row of the table; 0 if never visited."""

    def end_epoch(self, epoch: int, table: SampleTable) -> None:
        """Decide how labels are treated from now on. All processes must call this."""
        self.correction.end_epoch(epoch, table)


def count_predictions(batch: Batch, table: SampleTable, counts: Tensor) -> Tensor:
    """Count the visits with a prediction, this batch included, of the local rows."""
    old = table.predicted_visits.index_select(0, batch.table_rows)
    new = (old.short() + counts).clamp(max=MOST_COUNTED)
    table.predicted_visits.index_copy_(0, batch.table_rows, new.to(old.dtype))
    return new
