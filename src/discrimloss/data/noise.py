"""Label noise: makes a known share of labels wrong, and keeps what they were.

>>> import torch
>>> from discrimloss.data import noise
>>> clean_target = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
>>> labels = noise.symmetric(clean_target, 0.4, torch.Generator().manual_seed(0), num_classes=3)
>>> int(labels.is_wrong.sum()), labels.rate
(4, 0.4)
>>> labels.transitions.sum(dim=1)  # of the true classes
tensor([5, 3, 2])

Shares are exact: a rate times the number of samples is rounded to a whole number (`round`), and
exactly so many are chosen. Labels and generator are on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from discrimloss.data.instance_noise import instance
from discrimloss.data.label_file import is_integer, read_label_file
from discrimloss.data.noisy_labels import (
    NoisyLabels,
    check_classes,
    check_numbers,
    check_range,
    check_shape,
    num_samples_of,
)

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


def symmetric(
    clean_target: Tensor, rate: float, generator: torch.Generator, num_classes: int | None = None
) -> NoisyLabels:
    """Noise of which every other label is as likely.

    Exactly ``round(rate * samples)`` labels are wrong. Of a class, the wrong label is any other
    class. Of a number, it is the label of any other sample whose number differs, so that numbers
    that are frequent in the data are frequent among the wrong labels, too.

    Args:
        clean_target: shape (samples,), int64 classes, or floating point numbers.
        rate: the share of all samples that is made wrong.
        generator: what is drawn from.
        num_classes: None for a regression.
    """
    if num_classes is None:
        return _symmetric_numbers(clean_target, rate, generator)
    check_classes(clean_target, num_classes, "symmetric")
    num_wrong = num_samples_of(rate, len(clean_target))
    chosen = torch.randperm(len(clean_target), generator=generator)[:num_wrong]
    shift = torch.randint(1, num_classes, (num_wrong,), generator=generator)
    target = clean_target.clone()
    target[chosen] = (target[chosen] + shift) % num_classes
    return NoisyLabels(target, clean_target, num_classes)


def _symmetric_numbers(
    clean_target: Tensor, rate: float, generator: torch.Generator
) -> NoisyLabels:
    check_numbers(clean_target)
    num_wrong = num_samples_of(rate, len(clean_target))
    chosen = torch.randperm(len(clean_target), generator=generator)[:num_wrong]
    draw = torch.rand(num_wrong, generator=generator, dtype=torch.float64)
    # Sorted, the samples with the same number are a block. A place among the samples outside of a
    # sample's own block is a place among all of them, once the block is jumped over.
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
    """Noise that only moves labels: those of the chosen samples are permuted among them.

    Exactly ``round(rate * samples)`` samples are chosen, and how often each label is given stays as
    it was. Some of the chosen keep a right label: about one in C, if there are C balanced classes.
    This is what the released code of DiscrimLoss does.

    Args:
        clean_target: shape (samples,), int64 classes, or floating point numbers.
        rate: the share of all samples that is chosen.
        generator: what is drawn from.
        num_classes: None for a regression.
    """
    if num_classes is None:
        check_numbers(clean_target)
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
    """Noise that takes a class for one certain other class.

    The rate is of the samples that can be wrong, as is the custom: of all samples, if every class
    is mapped, but with `CIFAR10_LOOK_ALIKES`, which leaves half of the classes alone, a rate of 0.4
    makes 20 % of CIFAR-10 wrong. Exactly ``round(rate * samples of mapped classes)`` are.

    Args:
        clean_target: shape (samples,), int64.
        rate: the share of the samples of mapped classes that is made wrong.
        generator: what is drawn from.
        num_classes: how many classes there are.
        mapping: what a class is taken for; classes that are not in it stay right. Without, every
            class is taken for the next, and the last for the first ("pair flip").
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
    """Labels that people gave, e.g. CIFAR-10N's: see `read_label_file`.

    Args:
        clean_target: shape (samples,), int64.
        labels: shape (samples,), whole numbers, in the order of `clean_target`.
        num_classes: how many classes there are.
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
