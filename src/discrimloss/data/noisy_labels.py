"""Given labels beside the true ones, and what every kind of noise checks first."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class NoisyLabels:
    """Labels of which some are wrong, and what they were."""

    target: Tensor
    """Shape (samples,): the labels as given. What training may see."""
    clean_target: Tensor
    """Shape (samples,): the labels as they were. For evaluation only."""
    num_classes: int | None
    """None for a regression."""

    def select(self, index: Tensor) -> NoisyLabels:
        """Only those of these samples, in this order."""
        return NoisyLabels(self.target[index], self.clean_target[index], self.num_classes)

    @property
    def is_wrong(self) -> Tensor:
        """Shape (samples,): which of the given labels are wrong. For evaluation only."""
        return self.target != self.clean_target

    @property
    def rate(self) -> float:
        """The share of labels that are really wrong. For evaluation only."""
        return int(self.is_wrong.sum()) / max(len(self.target), 1)

    @property
    def transitions(self) -> Tensor | None:
        """Shape (classes, classes), int64: how many samples of each class were given which label.

        Rows are the true classes, columns the given ones. None for a regression. For evaluation
        only.
        """
        if self.num_classes is None:
            return None
        cell = self.clean_target * self.num_classes + self.target
        return torch.bincount(cell, minlength=self.num_classes**2).view(self.num_classes, -1)


def num_samples_of(rate: float, num_samples: int) -> int:
    """The whole number nearest to a share of the samples; of two alike, the even one."""
    if not 0 <= rate <= 1:  # also true of NaN
        raise ValueError(f"rate must be between 0 and 1, not {rate}")
    return round(rate * num_samples)


def check_classes(clean_target: Tensor, num_classes: int | None, kind: str) -> int:
    """Refuse what has no classes or wrong ones; the number of classes."""
    if num_classes is None:
        raise ValueError(
            f"{kind} noise is for classes: for a regression there are symmetric and permuted"
        )
    if num_classes < 2:
        raise ValueError(f"num_classes must be at least 2, not {num_classes}")
    if clean_target.dtype != torch.int64:
        raise ValueError(f"clean_target must hold int64 classes, not {clean_target.dtype}")
    check_shape(clean_target, "clean_target")
    check_range(clean_target, num_classes, "clean_target")
    return num_classes


def check_numbers(clean_target: Tensor) -> None:
    """Refuse what cannot be the target of a regression."""
    if not clean_target.is_floating_point():
        raise ValueError(
            f"clean_target of a regression must hold floating point numbers, not "
            f"{clean_target.dtype}: for classes, give num_classes"
        )
    check_shape(clean_target, "clean_target")
    if not clean_target.isfinite().all():
        raise ValueError("clean_target holds numbers that are not finite")


def check_shape(labels: Tensor, name: str) -> None:
    """Refuse anything but one label per sample."""
    if labels.dim() != 1:
        raise ValueError(f"{name} must have shape (samples,), not {tuple(labels.shape)}")


def check_range(labels: Tensor, num_classes: int, name: str) -> None:
    """Refuse labels that are no class, and say where the first one is."""
    outside = ((labels < 0) | (labels >= num_classes)).nonzero().flatten()
    if len(outside):
        first = int(outside[0])
        raise ValueError(
            f"{name}[{first}] is {int(labels[first])}, but classes are 0 to {num_classes - 1}"
        )
