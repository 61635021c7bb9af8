"""Groups samples by their regression target, and estimates the trust in each target.

See `known_labels`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from discrimloss.held_out import is_drawn
from discrimloss.judge import target_errors
from discrimloss.known_labels import Given, KnownLabels, Remembered, Rows, count_predictions
from discrimloss.label_correction import MIXING, LabelCorrection
from discrimloss.state.exchange import Batch
from discrimloss.state.labels import checked_values, pack_values, unpack_values
from discrimloss.state.predictions import past_fraction
from discrimloss.state.table import (
    HELD_OUT,
    MEAN_PREDICTION_COLUMNS,
    RANGE_COLUMNS,
    TRAINED,
    UNDECIDED,
    SampleTable,
)
from discrimloss.visits import Visits

RANGES = 8
"""Number of ranges of a regression target, with equal numbers of samples."""
MOST_RANKED = 1_000_000
"""Maximum number of targets for computing the ranges."""
TRUSTED_FROM = 0.3
"""Regression targets are compared with predictions after this fraction of the run."""
LEAST_NOISE = 0.01
"""Targets are trusted less only if at least this fraction is wrong with 95 % probability."""
LEAST_TRUST = 0.1
"""Targets with less trust are not learned from: a small weight only delays memorisation."""


class TargetRanges(KnownLabels[Tensor]):
    """Ranges of regression targets, and averaged predictions if batches have predictions.

    The ranges are set at the end of the first epoch. Until then, there is a single range.

    Args:
        num_samples: size of the training set when the run starts.
        epochs: length of the run.
    """

    columns = RANGE_COLUMNS
    prediction_name = "predictions"

    edges: Tensor
    """Shape (ranges - 1,): upper ends of all ranges except the last. Infinite until set."""
    mean_trust: Tensor
    """Scalar: mean trust in a target. 1 as long as all are trusted."""

    def __init__(self, num_samples: int, epochs: float) -> None:
        super().__init__(RANGES, LabelCorrection(0, num_samples, epochs))
        self.prediction_columns = MEAN_PREDICTION_COLUMNS
        self.register_buffer("edges", torch.full((RANGES - 1,), torch.inf))
        self.register_buffer("mean_trust", torch.tensor(1.0))

    def _checked(self, losses: Tensor, target: Any, predictions: Any) -> Given:
        target = checked_values(target, losses, "target").to(losses.device)
        if predictions is not None:
            predictions = checked_values(predictions, losses, "predictions")
            predictions = predictions.detach().to(losses.device).contiguous()
        return Given(target.contiguous(), predictions)

    def packed(self, given: Given) -> Tensor:
        """See `KnownLabels.packed`."""
        return pack_values(*given)

    def unpacked(self, words: Tensor) -> Given:
        """See `KnownLabels.unpacked`."""
        return Given(*unpack_values(words))

    def group_of(self, target: Tensor) -> Tensor:
        """Return the range of each row."""
        return torch.bucketize(target.nan_to_num(), self.edges)

    def _as_given(self, stored: Tensor) -> Tensor:
        return stored

    def _visit_predictions(
        self, batch: Batch, given: Given, table: SampleTable, visits: Visits
    ) -> Tensor:
        if self.correction.phase != MIXING:
            assert given.predictions is not None
            of_samples = visits.of_first(given.predictions)
            counts = batch.local(visits.counts)
            _average_values(batch.local(of_samples), batch, table, counts)
        return batch.losses

    def more_columns(self, batch: Batch, table: SampleTable) -> tuple[Tensor, ...]:
        """Return the trust in each target, if predictions are known."""
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
        # Division by the mean trust itself would restore the full step. The step is smaller here,
        # because fewer samples give a noisier mean.
        weights = torch.where(trust < LEAST_TRUST, 0.0, trust) / mean_trust.sqrt()
        return self.without_held_out(weights.to(losses) * losses, rows.role)

    def _roles(self, batch: Batch, remembered: Remembered, visits: Visits, seen: Tensor) -> Tensor:
        return self._role_of(batch.index, remembered.is_known | visits.counts)

    def roles(self, table: SampleTable, rows: Tensor | None = None) -> Tensor:
        """See `KnownLabels.roles`. Roles depend only on the index, and are not stored."""
        if rows is None:
            rows = torch.arange(len(table.visits), device=table.visits.device)
        is_visited = table.visits.index_select(0, rows) > 0
        return self._role_of(rows * table.shards.count + table.shards.rank, is_visited)

    def _role_of(self, index: Tensor, is_visited: Tensor) -> Tensor:
        drawn = is_drawn(index, self.correction.fraction)
        return torch.where(is_visited, torch.where(drawn, HELD_OUT, TRAINED), UNDECIDED)

    def groups_of_rows(self, table: SampleTable, rows: slice) -> Tensor:
        """See `KnownLabels.groups_of_rows`."""
        return self.group_of(table.target[rows])

    def distrust(self, table: SampleTable) -> Tensor:
        """Return one minus the trust in each target."""
        return 1.0 - table.trust.float()

    def end_epoch(self, epoch: int, table: SampleTable) -> None:
        """Set the ranges after the first epoch, and later the trust in targets from predictions."""
        super().end_epoch(epoch, table)
        if bool(self.edges.isinf().all()):
            self._set_ranges(table)
        is_watched = self.correction.fraction > 0.0  # the run is neither too short nor too small
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
        columns = (table.target, table.mean_prediction, self.roles(table))
        given, predicted, role = (table.whole(column).cpu() for column in columns)
        seen = (role != UNDECIDED) & given.isfinite() & predicted.isfinite()
        held_out = (role == HELD_OUT) & torch.tensor(self.holds_out)
        if int(seen.sum()) < 2:
            return
        errors = target_errors(predicted[seen], given[seen], held_out[seen])
        trust = torch.ones(len(given))
        if errors.noise_interval is not None and errors.noise_interval[0] >= LEAST_NOISE:
            trust[seen] = 1.0 - errors.p_incorrect
        elif not self.holds_out:  # memorised targets look correct, so an earlier estimate stays
            return
        self.mean_trust.fill_(float(trust[seen].mean()))
        table.trust.copy_(table.shards.own_part(trust))


def _average_values(new: Tensor, batch: Batch, table: SampleTable, counts: Tensor) -> None:
    """Add the predictions of a batch to the mean predictions of its samples."""
    counts = counts & new.isfinite()
    visits = count_predictions(batch, table, counts)
    past = past_fraction(visits.float())
    old = table.mean_prediction.index_select(0, batch.table_rows)
    moved = torch.where(visits > 1, past * old + (1.0 - past) * new, new)
    table.mean_prediction.index_copy_(0, batch.table_rows, torch.where(counts, moved, old))
