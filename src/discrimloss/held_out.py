"""The samples that are held out of the gradient at first: how they are chosen and compared."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discrimloss.state.exchange import Shards
from discrimloss.state.predictions import TopPredictions
from discrimloss.state.table import HELD_OUT, SampleTable

FEWEST_EPOCHS = 8
"""Minimum number of epochs to hold samples out. Shorter runs end before memorisation shows."""
HELD_OUT_SAMPLES = 1500
"""Number of held-out samples that suffices to detect memorisation."""
FEWEST_HELD_OUT = 30
"""Minimum number of held-out samples. If there would be fewer, none is held out."""
LARGEST_FRACTION, SMALLEST_FRACTION = 0.1, 0.02
"""Largest and smallest fraction of the samples that is held out."""
NEVER_HELD_OUT = 8
"""Number of samples of each class that are never held out, so that no rare class is lost."""
MOST_MATCHED = 50_000
"""Approximate maximum number of samples that `samples_of` returns."""


def held_out_fraction(num_samples: int, epochs: float) -> float:
    """Return the fraction of samples to hold out, or 0 if holding out would not help.

    >>> held_out_fraction(1_000, epochs=20), held_out_fraction(60_000, epochs=20)
    (0.1, 0.025)
    """
    if epochs < FEWEST_EPOCHS:
        return 0.0
    if num_samples == 0:  # with ids, samples are not known before their batches
        return LARGEST_FRACTION
    wanted = HELD_OUT_SAMPLES / max(num_samples, 1)
    fraction = min(max(wanted, SMALLEST_FRACTION), LARGEST_FRACTION)
    return fraction if fraction * num_samples >= FEWEST_HELD_OUT else 0.0


def is_drawn(index: Tensor, fraction: float, draw: int = 0) -> Tensor:
    """Return which samples are drawn. The result depends only on the arguments, so all runs agree.

    Args:
        index: indices of the samples, int64.
        fraction: fraction of the samples to draw.
        draw: number of the draw. Different draws are independent.
    """
    mask = 0xFFFFFFFF
    mixed = (index + draw * 0x9E3779B9) & mask
    for _ in range(2):
        mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & mask
    mixed = mixed ^ (mixed >> 16)
    return mixed < int(fraction * (mask + 1))


class Samples(NamedTuple):
    """Some samples of the table."""

    target: Tensor
    """Shape (rows,), int64."""
    top: TopPredictions

    def at_most(self, number: int) -> Samples:
        """Return at most this many samples, evenly spaced."""
        rows = torch.arange(len(self.target))[:: max(1, -(-len(self.target) // number))]
        return Samples(self.target[rows], TopPredictions(*(part[rows] for part in self.top)))

    def followed_by(self, others: Samples) -> Samples:
        """Return these samples followed by others."""
        top = (torch.cat(parts) for parts in zip(self.top, others.top, strict=True))
        return Samples(torch.cat([self.target, others.target]), TopPredictions(*top))


def samples_of(table: SampleTable, is_held_out: bool | None) -> Samples:
    """Return samples that have predictions, from all processes and on the CPU.

    `is_held_out` selects the held-out samples (True), all others (False), or both (None). If there
    are more than `MOST_MATCHED`, the result has about that many, drawn at random. The samples and
    their order do not depend on how the table is divided among processes.
    """
    shards: Shards = table.shards
    chosen = table.predicted_visits > 0
    if is_held_out is not None:
        chosen &= (table.role == HELD_OUT) == is_held_out
    rows = chosen.nonzero()[:, 0]
    number = int(shards.total(torch.tensor(len(rows))))
    if number > MOST_MATCHED:
        rows = rows[is_drawn(rows * shards.count + shards.rank, MOST_MATCHED / number, draw=1)]
    index = rows * shards.count + shards.rank
    columns = [index, table.target[rows], table.predicted_class[rows], table.predicted_mass[rows]]
    columns = [column.cpu() for column in columns]
    if shards.several:
        parts = shards.processes.all_gather_objects(columns)
        columns = [torch.cat(each) for each in zip(*parts, strict=True)]
        order = columns[0].argsort()
        columns = [column[order] for column in columns]
    _, target, classes, mass = columns
    return Samples(target.long(), TopPredictions(classes.long(), mass.float()))


def class_counts(table: SampleTable, num_classes: int) -> Tensor:
    """Return the number of visited samples of each class in all processes, on the CPU."""
    counts = torch.zeros(num_classes, dtype=torch.int64)
    for rows in table.chunks():
        known = table.target[rows].long()
        counts += torch.bincount(known[known >= 0], minlength=num_classes).cpu()
    return table.shards.total(counts)
