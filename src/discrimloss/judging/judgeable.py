"""Labels that an audit cannot judge, and notes about them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from discrimloss.judging.optimization import bisect_root

FEWEST_OF_CLASS = 10
"""In a class with fewer labels, an audit cannot tell which are wrong. Fewer are enough if all
classes are small."""
FEWEST_OF_SMALL_CLASSES = 3
"""Minimum number of labels of a class if all classes are small."""
LARGEST_KEPT = -1e-6
"""Highest score of a label that must not be called incorrect: just below 0."""
LEAST_RECOGNISED = 0.15
"""If predictions agree with a smaller fraction of a class's labels, they hardly recognise the
class."""
TYPICAL_NOISE = 0.1
"""Assumed fraction of wrong labels if the predictions give no estimate."""
MOST_NAMED = 5


def is_judgeable(target: Tensor, num_classes: int) -> Tensor:
    """Return which labels belong to a large enough class, shape (samples,), bool."""
    counts = torch.bincount(target, minlength=num_classes)
    return (counts >= fewest_to_judge(counts))[target]


def fewest_to_judge(counts: Tensor) -> int:
    """Return the number of labels that a class needs: half the average class, at most 10.

    Models learn little about a class that is much smaller than the others, and contradict its
    labels because it is rare. If all classes are small, this does not apply.

    >>> fewest_to_judge(torch.tensor([500, 40, 8])), fewest_to_judge(torch.tensor([7, 12, 5]))
    (10, 4)

    Args:
        counts: the number of labels of each class, shape (classes,).
    """
    average = float(counts.sum()) / max(int((counts > 0).sum()), 1)
    return min(FEWEST_OF_CLASS, max(math.ceil(average / 2), FEWEST_OF_SMALL_CLASSES))


def limited_score(score: Tensor, judged: Tensor) -> Tensor:
    """Lower the scores of labels that cannot be judged, so that none is called incorrect.

    Args:
        score: log-odds of being wrong, shape (samples,).
        judged: which labels can be judged.
    """
    return torch.where(judged, score, score.clamp(max=LARGEST_KEPT))


def limit_unrecognised(
    score: Tensor, agrees: Tensor, target: Tensor, num_classes: int, rate: float
) -> tuple[Tensor, list[int]]:
    """Limit how many labels of a class that predictions hardly recognise are called incorrect.

    The only evidence against such a label is that the class is rare, so genuine samples would be
    called incorrect together with wrong ones. The number of incorrect labels is therefore limited
    to the number expected if wrong labels were drawn uniformly from the other classes.

    >>> score, agrees = torch.tensor([2.0, 1.0, 3.0] + [-1.0] * 17), torch.arange(20) > 2
    >>> target = torch.tensor([1] * 3 + [0] * 17)
    >>> limit_unrecognised(score, agrees, target, num_classes=2, rate=0.1)[0][:3] > 0
    tensor([False, False,  True])

    Args:
        score: log-odds of being wrong, shape (samples,).
        agrees: shape (samples,), bool: whether the prediction agrees with the label.
        target: given labels, shape (samples,), int64.
        num_classes: number of classes.
        rate: the fraction of wrong labels.

    Returns:
        The scores, and the classes whose labels are limited.
    """
    counts = torch.bincount(target, minlength=num_classes)
    recognised = torch.bincount(target[agrees], minlength=num_classes)
    is_unrecognised = recognised < LEAST_RECOGNISED * counts
    most = (rate * (len(target) - counts) / max(num_classes - 1, 1)).long()
    rows = (is_unrecognised[target] & (score > 0)).nonzero()[:, 0]
    rows = rows[score[rows].argsort(descending=True, stable=True)]
    rows = rows[target[rows].argsort(stable=True)]  # by class, most suspicious first
    classes = target[rows]
    place = torch.arange(len(rows)) - torch.searchsorted(classes, classes)
    beyond = rows[place >= most[classes]]
    limited = score.clone()
    limited[beyond] = LARGEST_KEPT
    return limited, sorted(set(target[beyond].tolist()))


def with_mean_probability(score: Tensor, rate: float) -> Tensor:
    """Shift scores so that their probabilities have this mean.

    >>> shifted = with_mean_probability(torch.tensor([3.0, 1.0, 0.0]), 0.25)
    >>> round(float(shifted.sigmoid().mean()), 4)
    0.25

    Args:
        score: log-odds of being wrong, shape (samples,).
        rate: the mean, between 0 and 1.
    """
    exact = score.double()
    reach = float(exact.abs().max()) + 20.0
    offset = bisect_root(
        rate, lambda shift: float((exact + shift - reach).sigmoid().mean()), 2.0 * reach
    )
    return (exact + offset - reach).float()


def score_without_evidence(score: Tensor) -> Tensor:
    """Lower scores if their mean probability is above `TYPICAL_NOISE`, as the rate is unknown."""
    if float(score.double().sigmoid().mean()) <= TYPICAL_NOISE:
        return score
    return with_mean_probability(score, TYPICAL_NOISE)


def notes_on_small_classes(target: Tensor, class_names: Sequence[str]) -> list[str]:
    """Return a note that names the classes that are too small to be judged, if there are any."""
    counts = torch.bincount(target, minlength=len(class_names))
    fewest = fewest_to_judge(counts)
    small = [
        f"{name!r} ({count})"
        for name, count in zip(class_names, counts.tolist(), strict=True)
        if 0 < count < fewest
    ]
    if not small:
        return []
    what = "Class" if len(small) == 1 else "Classes"
    return [
        (
            f"{what} too small to be judged: {first_names(small)}. At least {fewest} "
            "samples are needed, so none of their labels is called incorrect."
        )
    ]


def notes_on_unrecognised(classes: Sequence[int], class_names: Sequence[str]) -> list[str]:
    """Return a note that names the classes of `limit_unrecognised`, if there are any."""
    if not classes:
        return []
    names = first_names([repr(class_names[place]) for place in classes])
    what = "this class" if len(classes) == 1 else "these classes"
    return [
        (
            f"The predictions hardly recognise {what}: {names}. Only as many of the labels are "
            "called incorrect as the noise rate explains; check the others by hand."
        )
    ]


def first_names(names: Sequence[str]) -> str:
    """Return the first names, separated by commas, and the number of the others."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
