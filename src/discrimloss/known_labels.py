"""How DiscrimLoss uses targets and predictions. This extends the paper.

Targets divide the samples into groups. Each group has its own threshold and loss scale. A group is
a class (`class_labels`) or a range of a regression target (`target_ranges`). So each sample is
compared with similar samples, and samples of a rare class do not look wrong. This module has the
code that classes and ranges share. `label_correction` corrects labels.
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
"""Groups with fewer visits are too small for a threshold: their weights stay at 1."""
CHECKSUM_FACTOR = 0x5851F42D4C957F2D  # of a linear congruential generator by D. Knuth
MOST_COUNTED = 100  # the count of visits stops here: a moving average needs no more

Predictions = TypeVar("Predictions")


class Given(NamedTuple):
    """Targets and predictions of the rows of all processes."""

    target: Tensor
    """Shape (rows,): int64 classes or float32 regression targets."""
    predictions: Any
    """`TopPredictions` for classes, shape (rows,) for regression, or None without predictions."""

    def to(self, device: torch.device) -> Given:
        """Return a copy on another device."""
        predictions: Any = self.predictions
        if isinstance(predictions, TopPredictions):
            predictions = TopPredictions(*(part.to(device) for part in predictions))
        elif predictions is not None:
            predictions = predictions.to(device)
        return Given(self.target.to(device), predictions)


class Remembered(NamedTuple):
    """Stored state of the rows of all processes, shape (rows,) each."""

    is_known: Tensor
    """Bool. Whether the sample was visited before."""
    target: Tensor
    """The target at earlier visits, with the dtype of `Given.target`."""
    role: Tensor
    """Int64: the role of the sample; see `state.table`."""
    all_known: bool
    """Whether all samples were certainly visited before. Then targets and roles do not change."""


class Rows(NamedTuple):
    """Results of a step for the rows of this process, shape (rows,) each."""

    value: Tensor
    """The value of the weighted loss."""
    slope: Tensor
    """Its derivative with respect to the task loss."""
    role: Tensor
    """Whether the sample is held out; see `state.table`."""
    more: tuple[Tensor, ...]
    """Columns of predictions, if `rows_to_learn` needs them."""

    def to(self, device: torch.device) -> Rows:
        """Return a copy on another device."""
        value, slope, role = (part.to(device) for part in self[:3])
        return Rows(value, slope, role, tuple(part.to(device) for part in self.more))


class KnownLabels(FixedDtypeModule, ABC, Generic[Predictions]):
    """Targets and predictions of the samples, and how they change the loss.

    Args:
        groups: number of groups of samples.
        correction: when labels are corrected, and how.
    """

    columns: ClassVar[dict[str, Column]]
    """Columns of the table with targets."""
    prediction_columns: dict[str, Column]
    """Columns of the table with predictions."""
    prediction_name: ClassVar[str]
    """Name of the argument for predictions."""
    num_classes: int | None = None
    """None for a regression."""

    def __init__(self, groups: int, correction: LabelCorrection) -> None:
        super().__init__()
        self.groups = groups
        self.correction = correction
        self.has_begun = False
        """Whether there was a batch. After it, either all batches have predictions or none has."""

    @property
    def holds_out(self) -> bool:
        """Whether some samples are held out of the gradient in this epoch."""
        return self.correction.holds_out

    # ----------------------------------------------------------------- a batch

    def given(self, losses: Tensor, target: Any, predictions: Any, table: SampleTable) -> Given:
        """Return the checked targets and predictions of a batch, or raise an error."""
        if target is None:
            raise ValueError(
                "target is missing: this DiscrimLoss was built for targets, so every training "
                "batch needs a target; to train without targets, leave num_classes and task out"
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
        """Return `has_begun`, as a constant in compiled code: no step is compiled again for it."""
        return self.has_begun

    def output_of(self, logits: Tensor | None, predictions: Tensor | None) -> Tensor | None:
        """Return the network's output, or raise a ValueError if it is for another task."""
        if self.prediction_name == "logits":
            if predictions is not None:
                raise ValueError(
                    "predictions are for regression: pass the output of a classifier as logits=…"
                )
            return logits
        if logits is not None:
            raise ValueError(
                "logits are for classification: pass the output of a regressor as predictions=…"
            )
        return predictions

    @abstractmethod
    def _checked(self, losses: Tensor, target: Any, predictions: Any) -> Given: ...

    @abstractmethod
    def packed(self, given: Given) -> Tensor:
        """Return targets and predictions as int32, for the exchange between processes."""

    @abstractmethod
    def unpacked(self, words: Tensor) -> Given:
        """Return the targets and predictions of a batch of all processes."""

    def tie_break(self, given: Given) -> Tensor | None:
        """Return a checksum of each row's data; None if rows of one sample have equal data."""
        words = self.packed(given).long()
        if words.shape[1] == 1:  # only targets, which rows of one sample share
            return None
        odd = 2 * torch.arange(words.shape[1], device=words.device) + 1
        return (words * (odd * CHECKSUM_FACTOR)).sum(1)

    @abstractmethod
    def group_of(self, target: Tensor) -> Tensor:
        """Return the group of each row of a batch of all processes, shape (rows,), int64."""

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
            given: the targets and predictions of the rows.
            remembered: the stored state of the rows.
            table: the sample table.
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
        """Update the averaged predictions. Return the losses to compare with held-out losses."""

    def more_columns(self, batch: Batch, table: SampleTable) -> tuple[Tensor, ...]:
        """Return further columns of the local rows that `rows_to_learn` needs."""
        return ()

    @abstractmethod
    def rows_to_learn(
        self, losses: Tensor, rows: Rows, target: Tensor, predictions: Tensor | None
    ) -> Tensor:
        """Return the differentiable loss of each row of this process, shape (rows,)."""

    def remembered(self, batch: Batch, table: SampleTable) -> Remembered:
        """Look up the stored state of all rows of a batch. All processes must call this."""
        known = table.visits.index_select(0, batch.table_rows) > 0
        target = table.target.index_select(0, batch.table_rows)
        role = self.roles(table, batch.table_rows).long()
        if batch.positions is None:
            return Remembered(known, self._as_given(target), role, all_on_host(known))
        # Packed into one number, so that one collective is enough.
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
        """Return the batch, or raise an error in all processes for an invalid or changed target."""
        earlier = remembered.target
        if not remembered.all_known:  # compare new samples with the rest of the batch
            earlier = torch.where(remembered.is_known, earlier, visits.of_first(given.target))
        table_rows, target = check_labels(
            batch.table_rows, given.target, earlier, batch.index, batch.own, self.num_classes
        )
        return replace(batch, table_rows=table_rows), given._replace(target=target)

    def _roles(self, batch: Batch, remembered: Remembered, visits: Visits, seen: Tensor) -> Tensor:
        """Return the role of each row, shape (rows,). New samples get a role."""
        new = torch.full_like(remembered.role, TRAINED)
        if self.correction.phase == WATCHING:
            drawn = is_drawn(batch.index, self.correction.fraction) & (seen >= NEVER_HELD_OUT)
            new = torch.where(drawn, HELD_OUT, new)
        is_new = (remembered.role == UNDECIDED) & visits.counts
        return torch.where(is_new, new, remembered.role)

    def roles(self, table: SampleTable, rows: Tensor | None = None) -> Tensor:
        """Return the role of rows of the local table, by default of all rows."""
        return table.role if rows is None else table.role.index_select(0, rows)

    def _record(self, losses: Tensor, role: Tensor, visits: Visits, batch: Batch) -> None:
        """Add the losses of all rows to the sums of the epoch, always in the same order."""
        if self.holds_out:
            counts = visits.counts
            if not visits.all_count or losses is not batch.losses:
                counts = losses.isfinite() & batch.losses.isfinite() & (role != UNDECIDED)
            columns = (losses, role == HELD_OUT, counts)
            self.correction.record(*(column.index_select(0, visits.order) for column in columns))

    def without_held_out(self, rows: Tensor, role: Tensor) -> Tensor:
        """Return losses with 0 for held-out samples, and the others scaled up accordingly."""
        if not self.holds_out:
            return rows
        return rows * torch.where(role == HELD_OUT, 0.0, self.correction.scale()).to(rows)

    @abstractmethod
    def distrust(self, table: SampleTable) -> Tensor:
        """Return how strongly predictions contradict each target, from 0 to 1, shape (rows,)."""

    # ---------------------------------------------------------------- an epoch

    @abstractmethod
    def groups_of_rows(self, table: SampleTable, rows: slice) -> Tensor:
        """Return the group of each row of the table, shape (rows,), int64. 0 if never visited."""

    def end_epoch(self, epoch: int, table: SampleTable) -> None:
        """Decide how labels are used in the next epoch. All processes must call this."""
        self.correction.end_epoch(epoch, table)


def count_predictions(batch: Batch, table: SampleTable, counts: Tensor) -> Tensor:
    """Return the number of visits with a prediction of each local row, including this batch."""
    old = table.predicted_visits.index_select(0, batch.table_rows)
    new = (old.short() + counts).clamp(max=MOST_COUNTED)
    table.predicted_visits.index_copy_(0, batch.table_rows, new.to(old.dtype))
    return new
