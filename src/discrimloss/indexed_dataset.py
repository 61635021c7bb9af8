"""Batches that carry the index of each sample, so that a loss can remember it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import ConcatDataset, Dataset, IterableDataset

from discrimloss.state.sample_ids import SampleId

Index = npt.NDArray[np.int64]


class IndexedDataset(Dataset[Any]):
    """Wraps any map-style dataset and adds each sample's index to it.

    A tuple or list gets one more element, a mapping one more key, anything else becomes a pair:

    >>> from torch.utils.data import Subset
    >>> letters = IndexedDataset([("a", 0), ("b", 1), ("c", 0)])
    >>> letters[2]
    ('c', 0, 2)

    The index is the position in the original data, whatever is taken from it: a `Subset` (or
    anything with `dataset` and `indices`, as other libraries' filtered sets have) is looked
    through, on either side of the wrapper, and a `ConcatDataset` numbers its parts one after the
    other, the same part only once. Wrap the `ConcatDataset`, not its parts: each part alone would
    count from 0. Where a dataset of your own hides what it was taken from, give `index`.

    >>> Subset(letters, [2])[0], IndexedDataset(Subset([("a", 0), ("b", 1), ("c", 0)], [2]))[0]
    (('c', 0, 2), ('c', 0, 2))

    Args:
        dataset: has `__getitem__` and `__len__`.
        key: the key under which a mapping carries the index.
        index: the index of each item, where the dataset cannot tell (a filtered copy, say).
        ids: the name of each item, carried instead of an index; for a `DiscrimLoss` with `ids`.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        key: str = "index",
        index: Sequence[int] | Index | None = None,
        ids: Sequence[SampleId] | None = None,
    ) -> None:
        _require_map_style(dataset)
        if ids is not None and index is not None:
            raise ValueError("give index or ids, not both: a sample carries one of them")
        if ids is not None and len(ids) != len(dataset):
            raise ValueError(f"there are {len(ids)} ids for {len(dataset)} items of the dataset")
        self.dataset = dataset
        self.key = key
        self._ids = _given_ids(ids)
        origin = _origin(dataset) if index is None else _given_origin(dataset, index)
        self._index, self.num_samples = origin
        """`num_samples`: what `DiscrimLoss` needs; the size of the original data."""

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> Any:
        return self._with_index(self.dataset[position], position)

    def __getitems__(self, positions: list[int]) -> list[Any]:
        """A batch at once, where the dataset can (the loader asks for this first)."""
        fetch = getattr(self.dataset, "__getitems__", None)
        samples = fetch(positions) if fetch else [self.dataset[i] for i in positions]
        return [self._with_index(*pair) for pair in zip(samples, positions, strict=True)]

    def _index_at(self, position: int) -> SampleId:
        position = int(position) + (len(self) if position < 0 else 0)
        if self._ids is not None:
            return self._ids[position]
        return position if self._index is None else int(self._index[position])

    def _with_index(self, sample: Any, position: int) -> Any:
        index = self._index_at(position)
        if isinstance(sample, Mapping):
            if self.key in sample:
                raise ValueError(
                    f"samples already have a key {self.key!r}: choose another with "
                    "IndexedDataset(dataset, key=…)"
                )
            return {**sample, self.key: index}
        if isinstance(sample, (tuple, list)):
            return (*sample, index)
        return sample, index


def _given_ids(ids: Any) -> Sequence[SampleId] | None:
    """Names by position: a pandas column would look them up by its own index."""
    if ids is None:
        return None
    names: Sequence[SampleId] = ids.tolist() if hasattr(ids, "tolist") else ids
    distinct = len(set(names))
    if distinct < len(names):
        warnings.warn(
            f"there are {distinct} different ids for {len(names)} items: "
            "items with the same id are one sample to DiscrimLoss",
            stacklevel=3,
        )
    return names


def _require_map_style(dataset: Any) -> None:
    is_iterable_only = isinstance(dataset, IterableDataset)
    if is_iterable_only or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise TypeError(
            f"IndexedDataset needs a map-style dataset, with __getitem__ and __len__; "
            f"{type(dataset).__name__} has no positions to take an index from"
        )


def _given_origin(dataset: Any, index: Sequence[int] | Index) -> tuple[Index, int]:
    _trace(dataset, {})  # refuses what carries an index already
    array = np.asarray(index, dtype=None if len(index) else np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) != len(dataset):
        raise ValueError(
            f"index must be {len(dataset)} whole numbers, one for each item of the dataset, "
            f"not {array.dtype} of shape {array.shape}"
        )
    if len(array) and array.min() < 0:
        raise ValueError(f"index must not be negative, but holds {array.min()}")
    return array.astype(np.int64), int(array.max()) + 1 if len(array) else 0


def _origin(dataset: Any) -> tuple[Index | None, int]:
    """Each item's position in the original data (None: its own), and the size of that data."""
    sources: dict[int, tuple[int, Any]] = {}
    index = _trace(dataset, sources)
    size = sum(len(source) for _, source in sources.values())
    is_identity = len(sources) == 1 and len(index) == size and bool((np.diff(index) == 1).all())
    return (None if is_identity else index), size


def _trace(dataset: Any, sources: dict[int, tuple[int, Any]]) -> Index:
    """Positions among all `sources`, which are numbered one after the other as they are met."""
    if isinstance(dataset, IndexedDataset):
        raise ValueError("the dataset carries an index already: it was wrapped before")
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([_trace(part, sources) for part in dataset.datasets])
    if hasattr(dataset, "dataset") and hasattr(dataset, "indices"):
        return _trace(dataset.dataset, sources)[np.asarray(dataset.indices, dtype=np.int64)]
    if id(dataset) not in sources:
        sources[id(dataset)] = sum(len(source) for _, source in sources.values()), dataset
    offset, _ = sources[id(dataset)]
    return np.arange(offset, offset + len(dataset))
