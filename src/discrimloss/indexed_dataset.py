"""Datasets whose samples contain their index."""

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
    """Wrap a map-style dataset, and add its index to each sample.

    A tuple or list gets one more element, a mapping gets one more key, and anything else becomes a
    pair:

    >>> from torch.utils.data import Subset
    >>> letters = IndexedDataset([("a", 0), ("b", 1), ("c", 0)])
    >>> letters[2]
    ('c', 0, 2)

    The index is the position in the original data. A `Subset`, or any other dataset with
    attributes `dataset` and `indices`, keeps the positions in the dataset that it selects from,
    whether it is inside the wrapper or around it. In a `ConcatDataset`, positions count through its
    datasets, one after the other; a dataset that it contains twice is counted once. Wrap the
    `ConcatDataset`, not the datasets in it, because each of those would count from 0. If the
    original positions cannot be found in this way, pass `index`.

    >>> Subset(letters, [2])[0], IndexedDataset(Subset([("a", 0), ("b", 1), ("c", 0)], [2]))[0]
    (('c', 0, 2), ('c', 0, 2))

    Other attributes are those of the wrapped dataset: ``letters.classes`` is
    ``letters.dataset.classes``.

    Args:
        dataset: Dataset with `__getitem__` and `__len__`.
        key: Key of the index in samples that are mappings.
        index: Index of each item, for example if the dataset is a filtered copy.
        ids: Id of each item, instead of its index. For a `DiscrimLoss` with `ids`.
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
            raise ValueError("give index or ids, not both: a sample contains only one of them")
        if ids is not None and len(ids) != len(dataset):
            raise ValueError(f"there are {len(ids)} ids for {len(dataset)} items of the dataset")
        self.dataset = dataset
        self.key = key
        self._ids = _given_ids(ids)
        origin = _origin(dataset) if index is None else _given_origin(dataset, index)
        self._index, self.num_samples = origin
        """The number of samples in the original data, for `num_samples` of `DiscrimLoss`."""

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> Any:
        return self._with_index(self.dataset[position], position)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped dataset, such as `classes` or `targets`."""
        # `indices` is hidden, because the index already contains the positions of a `Subset`.
        if name.startswith("__") or name == "indices" or "dataset" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dataset, name)

    def __getitems__(self, positions: list[int]) -> list[Any]:
        """Return a batch of samples. `DataLoader` prefers this method."""
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
    """Return ids indexed by position. A pandas column, indexed by label, becomes a list."""
    if ids is None:
        return None
    names: Sequence[SampleId] = ids.tolist() if hasattr(ids, "tolist") else ids
    distinct = len(set(names))
    if distinct < len(names):
        warnings.warn(
            f"there are {distinct} different ids for {len(names)} items: "
            "DiscrimLoss treats items with the same id as one sample",
            stacklevel=3,
        )
    return names


def _require_map_style(dataset: Any) -> None:
    is_iterable_only = isinstance(dataset, IterableDataset)
    if is_iterable_only or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise TypeError(
            f"IndexedDataset needs a map-style dataset, with __getitem__ and __len__; "
            f"{type(dataset).__name__} has no positions to use as indices"
        )


def _given_origin(dataset: Any, index: Sequence[int] | Index) -> tuple[Index, int]:
    _trace(dataset, {})  # raises if the samples contain an index already
    array = np.asarray(index, dtype=None if len(index) else np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) != len(dataset):
        raise ValueError(
            f"index must be {len(dataset)} integers, one for each item of the dataset, "
            f"not {array.dtype} of shape {array.shape}"
        )
    if len(array) and array.min() < 0:
        raise ValueError(f"index must not be negative, but holds {array.min()}")
    return array.astype(np.int64), int(array.max()) + 1 if len(array) else 0


def _origin(dataset: Any) -> tuple[Index | None, int]:
    """Return each item's position in the original data (None if unchanged), and the data's size."""
    sources: dict[int, tuple[int, Any]] = {}
    index = _trace(dataset, sources)
    size = sum(len(source) for _, source in sources.values())
    is_identity = len(sources) == 1 and len(index) == size and bool((np.diff(index) == 1).all())
    return (None if is_identity else index), size


def _trace(dataset: Any, sources: dict[int, tuple[int, Any]]) -> Index:
    """Return each item's position in the concatenation of `sources`, and add new sources to it."""
    if isinstance(dataset, IndexedDataset):
        raise ValueError("the dataset is already wrapped in IndexedDataset")
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([_trace(part, sources) for part in dataset.datasets])
    if hasattr(dataset, "dataset") and hasattr(dataset, "indices"):
        return _trace(dataset.dataset, sources)[np.asarray(dataset.indices, dtype=np.int64)]
    if id(dataset) not in sources:
        sources[id(dataset)] = sum(len(source) for _, source in sources.values()), dataset
    offset, _ = sources[id(dataset)]
    return np.arange(offset, offset + len(dataset))
