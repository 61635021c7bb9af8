"""Scikit-learn's handwritten digits, with a known share of wrong training labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor

from discrimloss.data.noise import symmetric

NUM_PIXELS = 64
NUM_CLASSES = 10
TEST_SHARE = 0.25


@dataclass(frozen=True)
class NoisyDigits:
    """A training set with wrong labels, and a test set without."""

    index: Tensor
    """Shape (train,): the row of each training sample in `sklearn.datasets.load_digits()`."""
    images: Tensor
    """Shape (train, 64), from 0 (paper) to 1 (ink)."""
    target: Tensor
    """Shape (train,): the labels as given, some of them wrong."""
    clean_target: Tensor
    """Shape (train,): the labels as they were. For evaluation only."""
    test_images: Tensor
    """Shape (test, 64)."""
    test_target: Tensor
    """Shape (test,): clean. For evaluation only."""

    @property
    def is_wrong(self) -> Tensor:
        """Shape (train,): which of the given labels are wrong. For evaluation only."""
        return self.target != self.clean_target


def noisy_digits(noise: float, generator: torch.Generator) -> NoisyDigits:
    """Split the digits at random, and make a share `noise` of the training labels wrong."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels).float() / 16
    clean_target = torch.from_numpy(labels).long()

    order = torch.randperm(len(images), generator=generator)
    num_test = round(TEST_SHARE * len(images))
    test, train = order[:num_test], order[num_test:]
    noisy = symmetric(clean_target[train], noise, generator, NUM_CLASSES)
    return NoisyDigits(
        index=train,
        images=images[train],
        target=noisy.target,
        clean_target=noisy.clean_target,
        test_images=images[test],
        test_target=clean_target[test],
    )
