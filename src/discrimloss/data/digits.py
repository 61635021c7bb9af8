"""The handwritten digits that come with scikit-learn: nothing to download."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from discrimloss.data.base import DataError, Split, TaskData, TensorInputs, datasets
from discrimloss.data.published_files import BuiltIn, obtained

NUM_DIGITS = 1797
NUM_CLASSES = 10
TEST_FRACTION = 0.25
SIDES = (8, 8)
INK = 16
"""The largest value of a pixel."""


def split_rows(split_seed: int) -> tuple[Tensor, Tensor]:
    """Return the rows of `sklearn.datasets.load_digits()` for training, and those for testing."""
    order = torch.randperm(NUM_DIGITS, generator=torch.Generator().manual_seed(split_seed))
    num_test = round(TEST_FRACTION * NUM_DIGITS)
    return order[num_test:], order[:num_test]


@datasets.register("digits")
@obtained(BuiltIn("the digits come with scikit-learn"))
def load_digits(directory: Path, *, split_seed: int = 0) -> TaskData:
    """1,797 handwritten digits of 8 × 8 pixels, which are part of scikit-learn.

    Args:
        directory: not used.
        split_seed: seed that selects the quarter of the digits for testing.
    """
    try:
        from sklearn import datasets as embedded
    except ImportError as error:
        raise DataError(
            "the digits come with scikit-learn, which is not installed: `pip install scikit-learn`"
        ) from error
    pixels, labels = embedded.load_digits(return_X_y=True)
    features = torch.from_numpy(pixels).float() / INK
    target = torch.from_numpy(labels).long()
    everything = Split(TensorInputs(features), target)
    train, test = split_rows(split_seed)
    return TaskData(
        train=everything.select(train),
        test=everything.select(test),
        num_classes=NUM_CLASSES,
        input_shape=tuple(features.shape[1:]),
        class_names=tuple(str(digit) for digit in range(NUM_CLASSES)),
        picture_shape=SIDES,
    )
