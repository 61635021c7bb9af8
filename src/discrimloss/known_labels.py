"""What DiscrimLoss does with targets and predictions, if they are given: ours, not the paper's.

Targets divide the samples into groups with a threshold and a loss scale each: one for each class,
or for each range of a regression target. So a sample is compared with its own kind, and a rare
class is not taken for a wrong one. How labels are corrected is `label_correction`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from discrimloss import functional
from discrimloss.functional import Visits
from discrimloss.judge import target_errors
from discrimloss.label_correction import (
    CORRECTING,
    CORRECTING_ALL,
    MIXING,
    NEVER_HELD_OUT,
    WATCHING,
    LabelCorrection,
    is_drawn,
)
from discrimloss.state.exchange import Batch
from discrimloss.state.labels import (
    check_labels,
    checked_classes,
    checked_logits,
    checked_values,
    pack_classes,
    pack_values,
    unpack_classes,
    unpack_values,
)
from discrimloss.state.predictions import (
    TopPredictions,
    average_predictions,
    kept_classes,
    share_of_past,
    top_predictions,
)
from discrimloss.state.table import (
    CLASS_COLUMNS,
    HELD_OUT,
    MEAN_PREDICTION_COLUMNS,
    RANGE_COLUMNS,
    TRAINED,
    UNDECIDED,
    Column,
    FixedDtypeModule,
    SampleTable,
    prediction_columns,
)

SMALLEST_GROUP = 20
"""Groups with fewer visits are too small to be split: their weights stay at 1."""
RANGES = 8
"""Ranges of a regression target, each with as many samples."""
MOST_RANKED = 1_000_000
"""Targets that the ranges are computed from."""
TRUSTED_FROM = 0.3
"""Regression targets are judged by predictions after this fraction of the run."""
LEAST_NOISE = 0.01
"""They are trusted less only if at least this fraction is wrong with 95 % probability."""
LEAST_TRUST = 0.1
"""Targets that are trusted less are not learned from: a small weight only delays memorising."""
CHECKSUM_FACTOR = 0x5851F42D4C957F2D  # of a linear congruential generator by D. Knuth
MOST_COUNTED = 100  # visits of a prediction: more make no difference to a moving average

Predictions = TypeVar("Predictions")


class Given(NamedTuple, Generic[Predictions]):
    """What the rows of all processes carry besides losses."""

    target: Tensor
    """Shape (rows,): int64 classes or float32 regression targets."""
    predictions: Predictions | None
    """The likeliest classes of each row, or shape (rows,) for a regression."""

    def to(self, device: torch.device) -> Given[Predictions]:
        """The same on another device."""
        predictions: Any = self.predictions
        if isinstance(predictions, TopPredictions):
            predictions = TopPredictions(*(part.to(device) for part in predictions))
        elif predictions is not None:
            predictions = predictions.to(device)
        return Given(self.target.to(device), predictions)


class Remembered(NamedTuple):
    """What the table knows of the rows of all processes, shape (rows,) each."""

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

    def given(
        self, losses: Tensor, target: Any, predictions: Any, table: SampleTable
    ) -> Given[Predictions]:
        """The targets and predictions of a batch, or an error that says what is wrong with them."""
        if target is None:
            raise ValueError(
                "target is missing: this DiscrimLoss was built for targets, so every training "
                "batch must have them; leave num_classes and task out to work without"
            )
        knows_predictions = table.has_optional_columns()
        # A compiled step must not depend on whether it is the first.
        has_begun = knows_predictions or (not torch.compiler.is_compiling() and self.has_begun)
        if (predictions is None) == knows_predictions and has_begun:
            given, before = ("not given", "were") if knows_predictions else ("given", "were not")
            raise ValueError(
                f"{self.prediction_name} are {given}, but {before} in earlier batches: pass them "
                "in every training batch, or in none"
            )
        return self._checked(losses, target, predictions)

    @abstractmethod
    def _checked(self, losses: Tensor, target: Any, predictions: Any) -> Given[Predictions]: ...

    @abstractmethod
    def packed(self, given: Given[Predictions]) -> Tensor:
        """Targets and predictions for the exchange between processes, int32."""

    @abstractmethod
    def unpacked(self, words: Tensor) -> Given[Predictions]:
        """Targets and predictions of a batch of all processes."""

    def tie_break(self, given: Given[Predictions]) -> Tensor | None:
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
        given: Given[Predictions],
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
        self, batch: Batch, given: Given[Predictions], table: SampleTable, visits: Visits
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
        role = table.role.index_select(0, batch.table_rows).long()
        if batch.positions is None:
            return Remembered(known, self._as_given(target), role, _all_on_host(known))
        # In one number, so that one collective brings it to all processes.
        bits = target.view(torch.int32) if target.is_floating_point() else target
        packed = (role << 33) + (known.long() << 32) + (bits.long() & 0xFFFFFFFF)
        packed = table.shards.complete(batch, packed)
        bits = packed.int()  # the lower half
        target = bits.view(torch.float32) if target.is_floating_point() else bits
        known = (packed >> 32 & 1).bool()
        return Remembered(known, self._as_given(target), packed >> 33, _all_on_host(known))

    @abstractmethod
    def _as_given(self, stored: Tensor) -> Tensor: ...

    def checked(
        self,
        batch: Batch,
        given: Given[Predictions],
        remembered: Remembered,
        visits: Visits,
    ) -> tuple[Batch, Given[Predictions]]:
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


class ClassLabels(KnownLabels[TopPredictions]):
    """Class labels, and logits where they are given.

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

    def _checked(self, losses: Tensor, target: Any, predictions: Any) -> Given[TopPredictions]:
        target = checked_classes(target, losses).to(losses.device)
        if predictions is None:
            return Given(target, None)
        logits = checked_logits(predictions, losses, self.groups)
        return Given(target, top_predictions(logits.detach().to(losses.device)))

    def packed(self, given: Given[TopPredictions]) -> Tensor:
        """See `KnownLabels.packed`."""
        return pack_classes(*given)

    def unpacked(self, words: Tensor) -> Given[TopPredictions]:
        """See `KnownLabels.unpacked`."""
        return Given(*unpack_classes(words))

    def group_of(self, target: Tensor) -> Tensor:
        """The class of each row."""
        return target

    def _as_given(self, stored: Tensor) -> Tensor:
        return stored.long()

    def _visit_predictions(
        self, batch: Batch, given: Given[TopPredictions], table: SampleTable, visits: Visits
    ) -> Tensor:
        losses, target, new = batch.losses, given.target, given.predictions
        assert new is not None
        if self.correction.phase == WATCHING:
            mass = new.of_class(target.unsqueeze(1), self.groups)[:, 0]
            columns = (column.index_select(0, visits.order) for column in (losses, mass, target))
            self.correction.record_units(*columns)
        elif self.correction.phase == CORRECTING:
            losses = self.correction.noisy_losses(new, target)
        if self.correction.phase != MIXING:  # mixed targets are those of before memorising
            of_samples = (batch.local(visits.of_first(part)) for part in new)
            counts = batch.local(visits.counts)
            _average_classes(TopPredictions(*of_samples), batch, table, counts, self.groups)
        return losses

    def more_columns(self, batch: Batch, table: SampleTable) -> tuple[Tensor, ...]:
        """The averaged predictions, where they are targets."""
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
        """What averaged predictions leave to other classes than the given one."""
        top = TopPredictions(table.predicted_class.long(), table.predicted_mass.float())
        label = table.target.long().clamp(min=0).unsqueeze(1)
        return 1.0 - top.of_class(label, self.groups)[:, 0]


class TargetRanges(KnownLabels[Tensor]):
    """Regression targets in ranges, and predictions where they are given.

    The ranges are set at the end of the first epoch. Until then there is one for all.

    Args:
        num_samples: size of the training set when the run starts.
        epochs: length of the run.
    """

    columns = RANGE_COLUMNS
    prediction_name = "predictions"

    edges: Tensor
    """Shape (ranges - 1,): upper ends of all ranges but the last; infinite until they are set."""
    mean_trust: Tensor
    """Scalar: mean trust in a target; 1 as long as all are trusted."""

    def __init__(self, num_samples: int, epochs: float) -> None:
        super().__init__(RANGES, LabelCorrection(0, num_samples, epochs))
        self.prediction_columns = MEAN_PREDICTION_COLUMNS
        self.register_buffer("edges", torch.full((RANGES - 1,), torch.inf))
        self.register_buffer("mean_trust", torch.tensor(1.0))

    def _checked(self, losses: Tensor, target: Any, predictions: Any) -> Given[Tensor]:
        target = checked_values(target, losses, "target").to(losses.device)
        if predictions is not None:
            predictions = checked_values(predictions, losses, "predictions")
            predictions = predictions.detach().to(losses.device).contiguous()
        return Given(target.contiguous(), predictions)

    def packed(self, given: Given[Tensor]) -> Tensor:
        """See `KnownLabels.packed`."""
        return pack_values(*given)

    def unpacked(self, words: Tensor) -> Given[Tensor]:
        """See `KnownLabels.unpacked`."""
        return Given(*unpack_values(words))

    def group_of(self, target: Tensor) -> Tensor:
        """The range of each row."""
        return torch.bucketize(target.nan_to_num(), self.edges)

    def _as_given(self, stored: Tensor) -> Tensor:
        return stored

    def _visit_predictions(
        self, batch: Batch, given: Given[Tensor], table: SampleTable, visits: Visits
    ) -> Tensor:
        if self.correction.phase != MIXING:
            assert given.predictions is not None
            of_samples = visits.of_first(given.predictions)
            counts = batch.local(visits.counts)
            _average_values(batch.local(of_samples), batch, table, counts)
        return batch.losses

    def more_columns(self, batch: Batch, table: SampleTable) -> tuple[Tensor, ...]:
        """The trust in each target, where predictions are known."""
        if not table.has_optional_columns():
            return ()
        return (table.trust.index_select(0, batch.table_rows).float(),)

    def rows_to_learn(
        self, losses: Tensor, rows: Rows, target: Tensor, predictions: Tensor | None
    ) -> Tensor:
        """See `KnownLabels.rows_to_learn`."""
        if predictions is None:
            if self.correction.phase == MIXING:
                return rows.value + rows.slope * (losses - losses.detach())
            return self.without_held_out(losses, rows.role)
        trust, mean_trust = rows.more[0], self.mean_trust.to(rows.more[0].device)
        # Fewer samples make a noisier mean, which takes a smaller step.
        weights = torch.where(trust < LEAST_TRUST, 0.0, trust) / mean_trust.sqrt()
        return self.without_held_out(weights.to(losses) * losses, rows.role)

    def groups_of_rows(self, table: SampleTable, rows: slice) -> Tensor:
        """See `KnownLabels.groups_of_rows`."""
        return self.group_of(table.target[rows])

    def distrust(self, table: SampleTable) -> Tensor:
        """One minus the trust in each target."""
        return 1.0 - table.trust.float()

    def end_epoch(self, epoch: int, table: SampleTable) -> None:
        """Set the ranges after the first epoch, and the trust in targets by predictions."""
        super().end_epoch(epoch, table)
        if bool(self.edges.isinf().all()):
            self._set_ranges(table)
        is_watched = self.correction.fraction > 0.0  # not a run that is too short or too small
        is_time = epoch >= TRUSTED_FROM * self.correction.epochs
        if table.has_optional_columns() and is_watched and is_time:
            self._set_trust(table)

    def _set_ranges(self, table: SampleTable) -> None:
        target = table.whole(table.target).cpu()
        target = target[target.isfinite()]
        if len(target) == 0:
            return
        target = target[:: max(1, -(-len(target) // MOST_RANKED))].sort().values
        place = torch.arange(1, RANGES) * (len(target) - 1) // RANGES
        self.edges.copy_(target[place])

    def _set_trust(self, table: SampleTable) -> None:
        columns = (table.target, table.mean_prediction, table.role)
        given, predicted, role = (table.whole(column).cpu() for column in columns)
        seen = (role != UNDECIDED) & given.isfinite() & predicted.isfinite()
        held_out = (role == HELD_OUT) & torch.tensor(self.holds_out)
        if int(seen.sum()) < 2:
            return
        errors = target_errors(predicted[seen], given[seen], held_out[seen])
        trust = torch.ones(len(given))
        if errors.noise_interval is not None and errors.noise_interval[0] >= LEAST_NOISE:
            trust[seen] = 1.0 - errors.p_incorrect
        elif not self.holds_out:  # memorised targets look correct: an earlier estimate stays
            return
        self.mean_trust.fill_(float(trust[seen].mean()))
        table.trust.copy_(table.shards.own_part(trust))


def options_of_state(shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """The option `num_classes` or `task` that a saved state was built with, if any.

    Args:
        shapes: the shape of each entry of the `state_dict`.
    """
    if "table.target" not in shapes:
        return {}
    if "labels.edges" in shapes:
        return {"task": "regression"}
    return {"num_classes": shapes["tracker.k1"][0]}


def require_same_options(
    criterion: Any, state_dict: Mapping[str, Tensor], prefix: str, *args: Any
) -> None:
    """Raise an error if a state to load has other targets than the criterion; a hook."""
    shapes = {
        name.removeprefix(prefix): value.shape
        for name, value in state_dict.items()
        if name.startswith(prefix)
    }
    if "table.history" not in shapes:
        return
    saved, own = options_of_state(shapes), criterion.label_options
    if saved != own:
        raise ValueError(
            f"the saved state is of a DiscrimLoss {_in_words(saved)}, this one was built "
            f"{_in_words(own)}: build it {_in_words(saved)}"
        )


def _in_words(options: dict[str, Any]) -> str:
    if not options:
        return "without num_classes and task"
    return "with " + ", ".join(f"{name}={value!r}" for name, value in options.items())


def _all_on_host(values: Tensor) -> bool:
    """Whether all are known to be True, where looking at them is free."""
    return functional.can_look_at(values) and bool(values.all())


def _required(predictions: Tensor | None) -> Tensor:
    assert predictions is not None  # `given` has checked it
    return predictions


def _prediction_visits(batch: Batch, table: SampleTable, counts: Tensor) -> Tensor:
    """Count the visits with a prediction, this batch included, of the local rows."""
    old = table.predicted_visits.index_select(0, batch.table_rows)
    new = (old.short() + counts).clamp(max=MOST_COUNTED)
    table.predicted_visits.index_copy_(0, batch.table_rows, new.to(old.dtype))
    return new


def _average_classes(
    new: TopPredictions, batch: Batch, table: SampleTable, counts: Tensor, num_classes: int
) -> None:
    """Add the predictions of a batch to the averages of its samples."""
    largest = new.mass[:, 0]  # of a softmax: either all of them are finite or none is
    counts = counts & (largest == largest)
    visits = _prediction_visits(batch, table, counts)
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


def _average_values(new: Tensor, batch: Batch, table: SampleTable, counts: Tensor) -> None:
    """Add the predictions of a batch to the mean predictions of its samples."""
    counts = counts & new.isfinite()
    visits = _prediction_visits(batch, table, counts)
    past = share_of_past(visits.float())
    old = table.mean_prediction.index_select(0, batch.table_rows)
    moved = torch.where(visits > 1, past * old + (1.0 - past) * new, new)
    table.mean_prediction.index_copy_(0, batch.table_rows, torch.where(counts, moved, old))
