"""Scikit-learn's handwritten digits, with a known share of wrong training labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor

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
    return NoisyDigits(
        index=train,
        images=images[train],
        target=symmetric_noise(clean_target[train], noise, generator),
        clean_target=clean_target[train],
        test_images=images[test],
        test_target=clean_target[test],
    )


def symmetric_noise(
    clean_target: Tensor, noise: float, generator: torch.Generator, num_classes: int = NUM_CLASSES
) -> Tensor:
    """A copy in which exactly the nearest whole number to a share `noise` of labels is wrong.

    A wrong label is any of the other labels, each as likely:

    >>> clean_target = torch.zeros(10, dtype=torch.int64)
    >>> target = symmetric_noise(clean_target, 0.4, torch.Generator().manual_seed(0))
    >>> int((target != clean_target).sum())
    4
    """
    num_wrong = round(noise * len(clean_target))
    chosen = torch.randperm(len(clean_target), generator=generator)[:num_wrong]
    shift = torch.randint(1, num_classes, (num_wrong,), generator=generator)
    target = clean_target.clone()
    target[chosen] = (target[chosen] + shift) % num_classes
    return target
