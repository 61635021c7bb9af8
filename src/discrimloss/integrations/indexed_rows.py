"""Rows that bring their index along, past whatever a trainer does to columns and features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from discrimloss.indexed_dataset import IndexedDataset

INDEX_KEY = "discrimloss_index"
"""Where a batch carries the index of each of its samples, until the loss takes it out."""


@dataclass(frozen=True)
class IndexedRow:
    """A sample as the dataset gave it, and its index beside it: no column that could be dropped."""

    sample: Any
    index: int


class IndexedRows(IndexedDataset):
    """Any map-style dataset, as `IndexedRow`s. The index is that of `IndexedDataset`.

    >>> IndexedRows([{"label": 3}, {"label": 5}])[1]
    IndexedRow(sample={'label': 5}, index=1)
    """

    def __init__(self, dataset: Any) -> None:
        given = dataset if isinstance(dataset, IndexedDataset) else None
        super().__init__(given.dataset if given else dataset)
        if given:  # it may have been told the indices
            self._index, self.num_samples = given._index, given.num_samples

    def _with_index(self, sample: Any, position: int) -> IndexedRow:
        position = int(position) + (len(self) if position < 0 else 0)
        return IndexedRow(sample, position if self._index is None else int(self._index[position]))


class IndexedCollator:
    """Lets a collator see the samples alone, and adds their indices to the batch it makes."""

    def __init__(self, collator: Callable[[list[Any]], Any]) -> None:
        self.collator = collator

    def __call__(self, rows: list[IndexedRow]) -> Any:
        """A batch of the collator, with the indices under `INDEX_KEY`."""
        batch = self.collator([row.sample for row in rows])
        batch[INDEX_KEY] = torch.tensor([row.index for row in rows])
        return batch
