"""Torch datasets whose items are an input and a label."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from discrimloss.auditing.sources.base import (
    AuditSource,
    Corrections,
    Label,
    SourceError,
    SourceOptions,
    Store,
)
from discrimloss.auditing.sources.features import Array, array_checksum, require_memory
from discrimloss.auditing.sources.images import PictureRows
from discrimloss.auditing.sources.in_memory import open_inputs
from discrimloss.auditing.sources.labels import read_samples
from discrimloss.auditing.sources.values import Spelling, is_a, kept_rows, tensor_array

LABEL_KEYS = ("label", "labels", "target", "targets", "y")
INPUT_KEYS = (
    *("image", "img", "pixel_values", "text", "sentence", "features", "x", "input", "inputs"),
)


def open_torch_dataset(dataset: Any, options: SourceOptions) -> AuditSource:
    """Open a dataset with a length, whose items are ``(input, label)`` or dictionaries.

    An input is a tensor or an array of features, an image (a tensor or a Pillow image), or a text.
    All items are read once. Pillow images are read again when needed. The dataset should not
    augment its items at random.

    Args:
        dataset: the dataset, which is not changed.
        options: `label`, and `text` or `image`, name keys of dictionaries.
    """
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise SourceError(
            f"a {type(dataset).__name__} has no fixed order of samples: pass a dataset with "
            "a length and an index, or collect it into a pair (X, y)"
        )
    options.refuse(("id",), because="a torch dataset has no ids")
    store = TorchItems(dataset, options)
    if store.inputs is not None:
        return open_inputs(options, store, store.inputs)
    pictures = PictureRows(store.picture, [str(row) for row in range(len(store))], None)
    return pictures.source(options, store, read_samples(store, options, pictures.unusable))


class TorchItems(Store):
    """The items of a torch dataset.

    Args:
        dataset: a dataset with a length.
        options: the options, which may name the keys of dictionaries.
    """

    name = "the dataset"

    def __init__(self, dataset: Any, options: SourceOptions) -> None:
        self._dataset, self._options = dataset, options
        self._lock = Lock()  # datasets may not be thread-safe
        if len(dataset) == 0:
            raise SourceError("the dataset is empty: there is nothing to audit")
        self._given: list[Any] = []
        inputs: list[Any] = []
        for row in range(len(dataset)):
            one, label = self._item(row)
            self._require_like_first(row, one)
            inputs.append(None if is_a(one, "PIL.Image", "Image") else one)
            self._given.append(label)
        self.inputs: Array | list[str] | None = inputs
        """One array, or texts. None for Pillow images, which are not kept in memory."""
        if not isinstance(self._first, str):
            self.inputs = np.stack(inputs) if isinstance(self._first, np.ndarray) else None
        self._names = _class_names(dataset, self._given)

    def __len__(self) -> int:
        return len(self._given)

    def labels(self) -> list[Any]:
        """Return the labels, as class names if the dataset has ``classes``."""
        if self._names is None:
            return self._given
        return [self._names[label] for label in self._given]

    def checksum(self) -> str:
        """Return a checksum of labels, texts and some of the features."""
        digest = hashlib.sha256(repr(self.labels()).encode())
        inputs = self.inputs
        text = array_checksum(inputs) if isinstance(inputs, np.ndarray) else repr(inputs)
        digest.update(text.encode())
        return digest.hexdigest()

    def picture(self, row: int) -> Any:
        """Return the image of an item."""
        with self._lock:
            return self._item(row)[0]

    def require_label(self, label: Label) -> None:
        """Raise a `SourceError` if the dataset has no such label."""
        self._spelled(label)

    def write(self, directory: Path, corrections: Corrections) -> list[Path]:
        """Raise an error: a torch dataset has no file format."""
        raise SourceError(
            "a torch dataset has no file format: use the returned dataset, or audit a pair (X, y)"
        )

    def corrected(self, corrections: Corrections) -> CorrectedDataset:
        """Return a dataset of the remaining items with the new labels."""
        labels = {row: self._spelled(label) for row, label in corrections.labels.items()}
        rows = kept_rows(len(self), corrections.dropped).tolist()
        return CorrectedDataset(self._dataset, rows, labels, self._options.label)

    def _spelled(self, label: Label) -> Any:
        if self._names is None:
            return self._spelling(label)
        if label not in self._names:
            raise SourceError(
                f"the dataset has no class {label!r}: choose one of {', '.join(self._names)}"
            )
        return self._names.index(str(label))

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self._given, subject="the labels of the dataset are")

    def _item(self, row: int) -> tuple[Any, Any]:
        try:
            item = self._dataset[row]
        except Exception as error:  # user code may raise any type
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise SourceError(f"item {row} of the dataset cannot be read ({reason})") from error
        if isinstance(item, Mapping):
            label_key = _label_key(item, self._options.label)
            inputs, label = item[self._input_key(item, label_key)], item[label_key]
        elif isinstance(item, (tuple, list)) and len(item) >= 2:
            inputs, label = item[0], item[1]
        else:
            raise SourceError(
                f"item {row} of the dataset is a {type(item).__name__}: items must be "
                "(input, label) or dictionaries with a label"
            )
        if isinstance(label, (Tensor, np.ndarray, np.generic)):
            if np.prod(label.shape) != 1:
                raise SourceError(
                    f"the label of item {row} has the shape {tuple(label.shape)}: give one label"
                )
            label = label.item()
        if isinstance(inputs, Tensor):
            inputs = tensor_array(inputs)
        return inputs, label

    def _input_key(self, item: Mapping[str, Any], label_key: str) -> str:
        wanted = self._options.text or self._options.image
        if wanted is not None:
            if wanted not in item:
                raise SourceError(f"the items have no key {wanted!r}: they have {_keys(item)}")
            return wanted
        others = [key for key in item if key != label_key]
        usual = [key for key in INPUT_KEYS if key in others]
        if usual:
            return usual[0]
        if len(others) != 1:
            raise SourceError(f"choose the key of the inputs, --text or --image: {_keys(item)}")
        return others[0]

    def _require_like_first(self, row: int, inputs: Any) -> None:
        if not isinstance(inputs, (str, np.ndarray)) and not is_a(inputs, "PIL.Image", "Image"):
            raise SourceError(
                f"the input of item {row} is a {type(inputs).__name__}: it must be a tensor, an "
                "image or a text"
            )
        if row == 0:
            if isinstance(inputs, np.ndarray):
                size = float(inputs.nbytes) * len(self._dataset)
                require_memory(size, f"reading the {len(self._dataset):,} items of the dataset")
            self._first = inputs
        elif type(inputs) is not type(self._first) and not is_a(inputs, "PIL.Image", "Image"):
            raise SourceError(
                f"item 0 of the dataset is a {type(self._first).__name__}, and item {row} a "
                f"{type(inputs).__name__}: all items must be alike"
            )
        elif isinstance(inputs, np.ndarray) and inputs.shape != self._first.shape:
            raise SourceError(
                f"item 0 of the dataset has the shape {self._first.shape}, and item {row} "
                f"{inputs.shape}: all must have the same shape"
            )


class CorrectedDataset(Dataset[Any]):
    """Some items of a dataset, some of them with new labels.

    Args:
        dataset: the original.
        rows: the items to keep.
        labels: new labels, by item of the original.
        label_key: the key of labels in items that are dictionaries, if it is not a usual one.
    """

    def __init__(
        self,
        dataset: Any,
        rows: Sequence[int],
        labels: Mapping[int, Any],
        label_key: str | None = None,
    ) -> None:
        self.dataset, self.indices, self.labels = dataset, list(rows), dict(labels)
        self._label_key = label_key

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: int) -> Any:
        """Return the item, with its new label if it has one."""
        row = self.indices[position]
        item = self.dataset[row]
        if row not in self.labels:
            return item
        if isinstance(item, Mapping):
            key = _label_key(item, self._label_key)
            return {**item, key: _like(item[key], self.labels[row])}
        changed = [item[0], _like(item[1], self.labels[row]), *item[2:]]
        return changed if isinstance(item, list) else tuple(changed)


def _label_key(item: Mapping[str, Any], wanted: str | None) -> str:
    for key in (wanted,) if wanted is not None else LABEL_KEYS:
        if key in item:
            return key
    asked = f"no key {wanted!r}" if wanted is not None else "no label"
    raise SourceError(f"the items have {asked} (--label): they have {_keys(item)}")


def _keys(item: Mapping[str, Any]) -> str:
    return ", ".join(map(str, item))


def _like(old: Any, new: Any) -> Any:
    if isinstance(old, Tensor):
        return torch.as_tensor(new).to(old.dtype).reshape(old.shape)
    return new


def _class_names(dataset: Any, given: Sequence[Any]) -> list[str] | None:
    """Return the names in ``dataset.classes``, as in torchvision, if all labels are positions."""
    names = getattr(dataset, "classes", None)
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        return None
    fits = all(isinstance(label, int) and 0 <= label < len(names) for label in given)
    return list(names) if fits and len(set(names)) == len(names) else None
