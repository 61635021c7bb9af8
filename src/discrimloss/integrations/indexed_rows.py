"""Samples with an attached index, which a trainer's column handling does not remove."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import IterableDataset

from discrimloss.indexed_dataset import IndexedDataset
from discrimloss.state.sample_ids import SampleId

INDEX_KEY = "discrimloss_index"
"""Key of the sample indices in a batch. The loss removes it before the model is called."""


@dataclass(frozen=True)
class IndexedRow:
    """A sample and its index. The index is not a column, so a trainer cannot drop it."""

    sample: Any
    index: SampleId


class IndexedRows(IndexedDataset):
    """Wraps a map-style dataset and returns `IndexedRow`s, with the index of `IndexedDataset`.

    >>> IndexedRows([{"label": 3}, {"label": 5}])[1]
    IndexedRow(sample={'label': 5}, index=1)
    """

    def __init__(self, dataset: Any, ids: Sequence[SampleId] | None = None) -> None:
        given = dataset if isinstance(dataset, IndexedDataset) else None
        super().__init__(given.dataset if given else dataset, ids=ids)
        if given:  # keep indices that the user has passed
            self._index, self.num_samples = given._index, given.num_samples

    def _with_index(self, sample: Any, position: int) -> IndexedRow:
        return IndexedRow(sample, self._index_at(position))


class NamedRows(IndexedRows):
    """A map-style dataset with a column of sample ids."""

    def __init__(self, dataset: Any, id_column: str) -> None:
        super().__init__(dataset)
        self.id_column = id_column

    def _with_index(self, sample: Any, position: int) -> IndexedRow:
        return IndexedRow(sample, id_of(sample, self.id_column))


class NamedStream(IterableDataset[IndexedRow]):
    """An iterable dataset with a column of sample ids."""

    def __init__(self, dataset: Any, id_column: str, *, only_numbers: bool = False) -> None:
        self.dataset = dataset
        self.id_column = id_column
        self.only_numbers = only_numbers

    def __iter__(self) -> Iterator[IndexedRow]:
        for sample in self.dataset:
            name = id_of(sample, self.id_column)
            if self.only_numbers and isinstance(name, str):
                raise ValueError(
                    "in several processes the ids of a stream must be whole numbers: convert "
                    'them, or pass accelerator_config={"dispatch_batches": False} to '
                    "TrainingArguments"
                )
            yield IndexedRow(sample, name)

    def __len__(self) -> int:
        return len(self.dataset)  # raises the usual TypeError if the dataset has no length

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on, so that streams shuffle differently in each epoch."""
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)


def is_stream(dataset: Any) -> bool:
    """Return whether the samples of a dataset have no positions.

    Streams of the library `datasets` have no positions, although they define ``__getitem__``.
    """
    has_positions = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    return isinstance(dataset, IterableDataset) or not has_positions


def id_of(sample: Any, id_column: str) -> SampleId:
    """Return the id of a sample."""
    try:
        name = sample[id_column]
    except (KeyError, TypeError, IndexError):
        columns = ", ".join(map(str, sample)) if isinstance(sample, dict) else type(sample).__name__
        raise ValueError(
            f"a training sample has no column {id_column!r} (sample_id): it has {columns}"
        ) from None
    found: SampleId = int(name) if isinstance(name, torch.Tensor) else name
    return found


class IndexedCollator:
    """Passes samples to a collator, and adds their indices to the batch."""

    def __init__(self, collator: Callable[[list[Any]], Any]) -> None:
        self.collator = collator

    def __call__(self, rows: list[IndexedRow]) -> Any:
        """Return the batch of the collator, with the indices under `INDEX_KEY`."""
        batch = self.collator([row.sample for row in rows])
        index = [row.index for row in rows]
        are_numbers = all(isinstance(each, int) for each in index)
        batch[INDEX_KEY] = torch.tensor(index) if are_numbers else index
        return batch
