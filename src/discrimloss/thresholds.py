"""``k1`` from the whole table: where all samples' average losses fall into two groups."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from discrimloss.functional import squash, unsquash
from discrimloss.histogram import best_split, loss_histogram, separability
from discrimloss.state.shards import WHOLE_TABLE, Shards

# A uniform distribution has separability 0.75: no more than that is one group.
ONE_GROUP, TWO_GROUPS = 0.75, 0.85
# Of the loss scale: what the bounded split stays above.
FLOOR_OF_ONE_GROUP, FLOOR_OF_TWO_GROUPS = 1.0, 0.5


def split_threshold(averages: Iterable[Tensor], shards: Shards = WHOLE_TABLE) -> float | None:
    """The value that best splits the losses in two; None where they are all the same."""
    histogram = loss_histogram(averages, shards)
    return None if histogram is None else best_split(histogram)


def bounded_split_threshold(
    averages: Iterable[Tensor], loss_scale: float, shards: Shards = WHOLE_TABLE
) -> float | None:
    """The best split of the losses squashed into (-1, 1), where no long tail can dominate it.

    Until the losses fall into two groups a split only cuts off what is not learned yet, so it stays
    above the loss scale of the first epoch; where they do, above half of it.
    """
    histogram = loss_histogram((squash(average, loss_scale) for average in averages), shards)
    if histogram is None:
        return None
    cut = float(unsquash(torch.tensor(best_split(histogram)), loss_scale))
    certainty = (separability(histogram) - ONE_GROUP) / (TWO_GROUPS - ONE_GROUP)
    certainty = min(max(certainty, 0.0), 1.0)
    floor = FLOOR_OF_ONE_GROUP + certainty * (FLOOR_OF_TWO_GROUPS - FLOOR_OF_ONE_GROUP)
    return max(cut, floor * loss_scale)
