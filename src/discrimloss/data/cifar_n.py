"""CIFAR-10N and CIFAR-100N: labels that people gave to the training images of CIFAR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from discrimloss.data.base import DataError
from discrimloss.data.label_file import read_label_file
from discrimloss.data.layout import how_to_get, listed
from discrimloss.options import OptionError, did_you_mean

FOLDERS = ("cifar-n", "CIFAR-N", ".")
FILES = {"cifar10": "CIFAR-10_human", "cifar100": "CIFAR-100_human"}
ENDINGS = (".npz", ".pt")
CLEAN_KEY = "clean_label"


@dataclass(frozen=True)
class HumanLabels:
    """Reads human labels by name, once somebody asks for them.

    Their order is that of CIFAR's binary and python releases (not that of TensorFlow), and the file
    proves it: its own clean labels must equal those of the images.

    Args:
        dataset: ``"cifar10"`` or ``"cifar100"``.
        directory: the data directory.
        keys: the name of each kind of labels, and its key in the file.
        clean_target: shape (train,): the labels of the training images.
    """

    dataset: str
    directory: Path
    keys: Mapping[str, str]
    clean_target: Tensor

    def __call__(self, name: str) -> Tensor:
        """Shape (train,), int64."""
        if name not in self.keys:
            hint = did_you_mean(name, self.keys)
            raise OptionError(f"{self.dataset} has no human labels {name!r}: {hint}")
        path = self._find()
        if not torch.equal(read_label_file(path, CLEAN_KEY), self.clean_target):
            raise DataError(
                f"the clean labels in {path} are not those of the {len(self.clean_target):,} "
                f"training images of {self.dataset}: it belongs to other images or another order"
            )
        labels = read_label_file(path, self.keys[name])
        if len(labels) != len(self.clean_target):
            raise DataError(
                f"{self.keys[name]!r} in {path} has {len(labels):,} labels for "
                f"{len(self.clean_target):,} training images: get it once more"
            )
        return labels

    def _find(self) -> Path:
        places = [
            self.directory / folder / f"{FILES[self.dataset]}{ending}"
            for folder in FOLDERS
            for ending in ENDINGS
        ]
        for place in places:
            if place.is_file():
                return place
        wanted = " or ".join(f"{FILES[self.dataset]}{ending}" for ending in ENDINGS)
        raise DataError(
            f"no human labels for {self.dataset} in {self.directory}: looked for {wanted} in "
            f"{listed(FOLDERS)}; {how_to_get(self.dataset)}"
        )
