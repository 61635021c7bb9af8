"""Label noise: makes a known fraction of the labels wrong, and keeps the clean labels.

>>> import torch
>>> from discrimloss.data import noise
>>> clean_target = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
>>> labels = noise.symmetric(clean_target, 0.4, torch.Generator().manual_seed(0), num_classes=3)
>>> int(labels.is_wrong.sum()), labels.rate
(4, 0.4)
>>> labels.transitions.sum(dim=1)  # of the true classes
tensor([5, 3, 2])

Rates are exact: the rate times the number of samples is rounded with `round`, and exactly that
many samples are chosen. The labels and the generator must be on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from discrimloss.data.label_file import is_integer, read_label_file

__all__ = [
    "CIFAR10_LOOK_ALIKES",
    "NOISE_KINDS",
    "NoisyLabels",
    "asymmetric",
    "human",
    "instance",
    "pair",
    "permuted",
    "read_label_file",
    "symmetric",
]

NOISE_KINDS = ("none", "symmetric", "permuted", "asymmetric", "pair", "instance", "human")

CIFAR10_LOOK_ALIKES = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
"""The usual map for `asymmetric` noise on CIFAR-10 (Patrini et al., 2017): truck to automobile,
bird to airplane, deer to horse, cat and dog to each other."""
FLIP_RATE_SPREAD = 0.1
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class NoisyLabels:
    """Given labels, some of which are wrong, and the clean labels."""

    target: Tensor
    """Shape (samples,): the given labels, for training."""
    clean_target: Tensor
    """Shape (samples,): the labels before the noise. For evaluation only."""
    num_classes: int | None
    """Number of classes; None for regression."""

    def select(self, index: Tensor) -> NoisyLabels:
        """Return the labels of these samples, in this order."""
        return NoisyLabels(self.target[index], self.clean_target[index], self.num_classes)

    @property
    def is_wrong(self) -> Tensor:
        """Shape (samples,), bool: whether each given label is wrong. For evaluation only."""
        return self.target != self.clean_target

    @property
    def rate(self) -> float:
        """The fraction of labels that are wrong. For evaluation only."""
        return int(self.is_wrong.sum()) / max(len(self.target), 1)

    @property
    def transitions(self) -> Tensor | None:
        """Shape (classes, classes), int64: number of samples per true class and given class.

        Rows are true classes, columns are given classes. None for regression. For evaluation only.
        """
        if self.num_classes is None:
            return None
        cell = self.clean_target * self.num_classes + self.target
        return torch.bincount(cell, minlength=self.num_classes**2).view(self.num_classes, -1)


def symmetric(
    clean_target: Tensor, rate: float, generator: torch.Generator, num_classes: int | None = None
) -> NoisyLabels:
    """Return labels with symmetric noise: all wrong classes are equally likely.

    Exactly ``round(rate * samples)`` labels are wrong. In classification, a wrong label is
    drawn uniformly from the other classes. In regression, it is the target of a random sample with
    a different value, so values that are frequent in the data are also frequent among the wrong
    targets.

    Args:
        clean_target: shape (samples,), int64 classes, or floating point regression targets.
        rate: the fraction of all samples that get a wrong label.
        generator: the random generator.
        num_classes: number of classes; None for regression.
    """
    if num_classes is None:
        return _symmetric_regression(clean_target, rate, generator)
    check_classes(clean_target, num_classes, "symmetric")
    num_wrong = num_samples_of(rate, len(clean_target))
    chosen = torch.randperm(len(clean_target), generator=generator)[:num_wrong]
    shift = torch.randint(1, num_classes, (num_wrong,), generator=generator)
    target = clean_target.clone()
    target[chosen] = (target[chosen] + shift) % num_classes
    return NoisyLabels(target, clean_target, num_classes)


def _symmetric_regression(
    clean_target: Tensor, rate: float, generator: torch.Generator
) -> NoisyLabels:
    check_regression_targets(clean_target)
    num_wrong = num_samples_of(rate, len(clean_target))
    chosen = torch.randperm(len(clean_target), generator=generator)[:num_wrong]
    draw = torch.rand(num_wrong, generator=generator, dtype=torch.float64)
    # After sorting, samples with the same value form a block. A position is drawn among the samples
    # outside of a sample's own block. Adding the size of the block to later positions skips it.
    numbers, order = clean_target.sort()
    _, block, size = torch.unique_consecutive(numbers, return_inverse=True, return_counts=True)
    if num_wrong and len(size) == 1:
        raise ValueError(
            f"{num_wrong} of {len(clean_target)} labels cannot be made wrong: all have the same "
            f"value, {float(numbers[0])}, and there is no other to draw from"
        )
    start = size.cumsum(0) - size
    block_of_sample = torch.empty_like(order)
    block_of_sample[order] = block
    own = block_of_sample[chosen]
    num_others = len(clean_target) - size[own]
    place = (draw * num_others).long().minimum(num_others - 1)
    place += torch.where(place >= start[own], size[own], 0)
    target = clean_target.clone()
    target[chosen] = numbers[place]
    return NoisyLabels(target, clean_target, None)


def permuted(
    clean_target: Tensor, rate: float, generator: torch.Generator, num_classes: int | None = None
) -> NoisyLabels:
    """Return labels that are permuted at random among the chosen samples.

    Exactly ``round(rate * samples)`` samples are chosen. The frequency of each label does not
    change. With C balanced classes, about one in C of the chosen samples keeps a correct label. The
    authors' released code of DiscrimLoss makes this noise.

    Args:
        clean_target: shape (samples,), int64 classes, or floating point regression targets.
        rate: the fraction of all samples that are chosen.
        generator: the random generator.
        num_classes: number of classes; None for regression.
    """
    if num_classes is None:
        check_regression_targets(clean_target)
    else:
        check_classes(clean_target, num_classes, "permuted")
    num_chosen = num_samples_of(rate, len(clean_target))
    chosen = torch.randperm(len(clean_target), generator=generator)[:num_chosen]
    target = clean_target.clone()
    target[chosen] = clean_target[chosen[torch.randperm(num_chosen, generator=generator)]]
    return NoisyLabels(target, clean_target, num_classes)


def asymmetric(
    clean_target: Tensor,
    rate: float,
    generator: torch.Generator,
    num_classes: int | None,
    mapping: Mapping[int, int] | None = None,
) -> NoisyLabels:
    """Return labels with asymmetric noise: each class has only one wrong class.

    As is usual, the rate is relative to the samples of mapped classes: exactly
    ``round(rate * samples of mapped classes)`` labels are wrong. For example, `CIFAR10_LOOK_ALIKES`
    maps half of the classes, so a rate of 0.4 makes 20 % of the labels of CIFAR-10 wrong.

    Args:
        clean_target: shape (samples,), int64.
        rate: the fraction of the samples of mapped classes that get a wrong label.
        generator: the random generator.
        num_classes: number of classes.
        mapping: the wrong class of each mapped class. Other classes stay correct. By default every
            class is mapped to the next one, and the last class to the first ("pair flip").
    """
    num_classes = check_classes(clean_target, num_classes, "asymmetric")
    taken_for = torch.arange(num_classes)
    for source, given in _checked_mapping(mapping, num_classes).items():
        taken_for[source] = given
    candidates = (taken_for[clean_target] != clean_target).nonzero().flatten()
    num_wrong = num_samples_of(rate, len(candidates))
    chosen = candidates[torch.randperm(len(candidates), generator=generator)[:num_wrong]]
    target = clean_target.clone()
    target[chosen] = taken_for[target[chosen]]
    return NoisyLabels(target, clean_target, num_classes)


pair = asymmetric


def _checked_mapping(mapping: Mapping[int, int] | None, num_classes: int) -> dict[int, int]:
    if mapping is None:
        return {label: (label + 1) % num_classes for label in range(num_classes)}
    if not mapping:
        raise ValueError("mapping is empty: no label could be made wrong")
    for source, given in mapping.items():
        if source not in range(num_classes) or given not in range(num_classes):
            raise ValueError(
                f"mapping has {source!r} to {given!r}, but classes are 0 to {num_classes - 1}"
            )
        if source == given:
            raise ValueError(f"mapping has class {source} to itself: such a label is not wrong")
    return {int(source): int(given) for source, given in mapping.items()}


def human(clean_target: Tensor, labels: Tensor, num_classes: int | None) -> NoisyLabels:
    """Return labels from human annotators, such as those of CIFAR-10N.

    `read_label_file` reads such labels from a file.

    Args:
        clean_target: shape (samples,), int64.
        labels: shape (samples,), whole numbers, in the order of `clean_target`.
        num_classes: number of classes.
    """
    num_classes = check_classes(clean_target, num_classes, "human")
    if not is_integer(labels):
        raise ValueError(f"labels must hold whole numbers, not {labels.dtype}")
    check_shape(labels, "labels")
    if len(labels) != len(clean_target):
        raise ValueError(f"there are {len(labels)} labels for {len(clean_target)} samples")
    target = labels.to(torch.int64, copy=True)
    check_range(target, num_classes, "labels")
    return NoisyLabels(target, clean_target, num_classes)


def instance(
    clean_target: Tensor,
    rate: float,
    generator: torch.Generator,
    num_classes: int | None,
    features: Tensor,
) -> NoisyLabels:
    """Return labels with instance-dependent noise (part-dependent noise, Xia et al. 2020).

    As published, every sample has a flip rate, drawn from a normal distribution around `rate` with
    standard deviation 0.1, truncated to [0, 1]. Every class has a random matrix, with standard
    normal entries, that projects the features onto the classes. The wrong label of a sample is
    drawn from the softmax of its projection, without its own class. So samples with similar
    features get similar wrong labels.

    The published method flips each label independently. This function makes exactly
    ``round(rate * samples)`` labels wrong. The probability that a sample is one of them is about
    proportional to its flip rate.

    Args:
        clean_target: shape (samples,), int64.
        rate: the fraction of all samples that get a wrong label.
        generator: the random generator.
        num_classes: number of classes.
        features: shape (samples, features), floating point, e.g. the normalised pixels. Their scale
            matters: the larger the norm of a sample's features, the more certain is its wrong
            label.
    """
    num_classes = check_classes(clean_target, num_classes, "instance")
    num_wrong = num_samples_of(rate, len(clean_target))
    _check_features(features, len(clean_target))

    flip_rates = truncated_normal(rate, len(clean_target), generator)
    chosen = choose_in_proportion(flip_rates, num_wrong, generator)
    # The class with the largest sum of logit and Gumbel noise is a draw from the softmax.
    uniform = torch.rand(num_wrong, num_classes, generator=generator)
    gumbel = -(-uniform.clamp_min(torch.finfo(uniform.dtype).tiny).log()).log()

    target = clean_target.clone()
    clean_of_chosen = clean_target[chosen]
    for label in range(num_classes):
        # One class and some rows at a time, so that memory need not hold all projections or a copy
        # of the features.
        projection = torch.randn(features.shape[1], num_classes, generator=generator)
        of_label = (clean_of_chosen == label).nonzero().flatten()
        for rows in torch.split(of_label, ROWS_AT_ONCE):
            logits = features[chosen[rows]].to(projection.dtype) @ projection
            if not logits.isfinite().all():
                raise ValueError("features hold numbers that are not finite, or far too large")
            scores = logits + gumbel[rows]
            scores[:, label] = -torch.inf
            target[chosen[rows]] = scores.argmax(dim=1)
    return NoisyLabels(target, clean_target, num_classes)


def truncated_normal(mean: float, number: int, generator: torch.Generator) -> Tensor:
    """Draw from a normal distribution with standard deviation 0.1, truncated to [0, 1].

    Returns:
        Shape (number,), float64.
    """
    ends = (torch.tensor([0.0, 1.0], dtype=torch.float64) - mean) / FLIP_RATE_SPREAD
    low, high = torch.special.ndtr(ends)
    uniform = torch.rand(number, generator=generator, dtype=torch.float64)
    standard: Tensor = torch.special.ndtri(low + (high - low) * uniform)
    return standard.mul(FLIP_RATE_SPREAD).add(mean).clamp(0, 1)


def choose_in_proportion(weights: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Draw exactly `number` different positions, with probability about proportional to weight.

    With independent draws, a sample of weight w is chosen if a uniform number u is below w, that
    is, if u/w is below 1. This function chooses the samples with the smallest u/w, which makes
    their number exact (sequential Poisson sampling; Ohlsson, 1998).
    """
    uniform = torch.rand(len(weights), generator=generator, dtype=torch.float64)
    ratio = uniform / weights.clamp_min(torch.finfo(weights.dtype).tiny)
    return ratio.argsort()[:number]


def _check_features(features: Tensor, num_samples: int) -> None:
    if not features.is_floating_point():
        raise ValueError(f"features must hold floating point numbers, not {features.dtype}")
    if features.dim() != 2 or len(features) != num_samples:
        raise ValueError(
            f"features must have shape ({num_samples}, features), not {tuple(features.shape)}"
        )


def num_samples_of(rate: float, num_samples: int) -> int:
    """Return `rate` times the number of samples, rounded half to even."""
    if not 0 <= rate <= 1:  # also true of NaN
        raise ValueError(f"rate must be between 0 and 1, not {rate}")
    return round(rate * num_samples)


def check_classes(clean_target: Tensor, num_classes: int | None, kind: str) -> int:
    """Return the number of classes. Raise a `ValueError` unless labels are int64 and in range."""
    if num_classes is None:
        raise ValueError(
            f"{kind} noise is for classes: for regression there are symmetric and permuted"
        )
    if num_classes < 2:
        raise ValueError(f"num_classes must be at least 2, not {num_classes}")
    if clean_target.dtype != torch.int64:
        raise ValueError(f"clean_target must hold int64 classes, not {clean_target.dtype}")
    check_shape(clean_target, "clean_target")
    check_range(clean_target, num_classes, "clean_target")
    return num_classes


def check_regression_targets(clean_target: Tensor) -> None:
    """Raise a `ValueError` unless the regression targets are floating point and finite."""
    if not clean_target.is_floating_point():
        raise ValueError(
            f"clean_target for regression must have floating point numbers, not "
            f"{clean_target.dtype}: for classes, pass num_classes"
        )
    check_shape(clean_target, "clean_target")
    if not clean_target.isfinite().all():
        raise ValueError("clean_target holds numbers that are not finite")


def check_shape(labels: Tensor, name: str) -> None:
    """Raise a `ValueError` unless the labels have shape (samples,)."""
    if labels.dim() != 1:
        raise ValueError(f"{name} must have shape (samples,), not {tuple(labels.shape)}")


def check_range(labels: Tensor, num_classes: int, name: str) -> None:
    """Raise a `ValueError` that names the first label that is not a class, if there is one."""
    outside = ((labels < 0) | (labels >= num_classes)).nonzero().flatten()
    if len(outside):
        first = int(outside[0])
        raise ValueError(
            f"{name}[{first}] is {int(labels[first])}, but classes are 0 to {num_classes - 1}"
        )
