"""Verdicts from out-of-fold predictions, and notes on their limits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from discrimloss.auditing.out_of_fold.classes import ClassPredictions
from discrimloss.judging.find_label_errors import (
    FEWEST_SAMPLES,
    MOST_HARD,
    OVERLAP,
    know_labels,
    unsure_contradictions,
    verdict_codes,
)
from discrimloss.judging.judgeable import (
    first_names,
    is_judgeable,
    limit_unrecognised,
    limited_score,
    notes_on_small_classes,
    notes_on_unrecognised,
    score_without_evidence,
)
from discrimloss.judging.label_errors import note_on_given_rate
from discrimloss.judging.suggestions import suggest_other_classes
from discrimloss.judging.verdicts import CANNOT_TELL, INCORRECT, Verdicts

SAME_CLASS = 0.65
"""Two classes are confused if the AUROC of the predictions between them is smaller than this."""
MOST_COMPARED_CLASSES = 60
FEWEST_COMPARED = 10
MOST_COMPARED = 500
"""Maximum number of compared samples of each class."""
LEARNED_AS_THEY_ARE = 0.005
"""Below this noise rate, models can learn nearly all labels as they are, wrong ones included."""

CHECK_SOME = (
    "The contradicted labels are undecided, and the interval of the noise rate includes them. If "
    "you know how many labels are wrong, for instance because you checked 100 random ones, pass "
    "that noise rate to the audit."
)
SYSTEMATIC = (
    "Predictions agree with nearly all labels, so systematic errors, such as those of keyword "
    f"rules, do not show. {CHECK_SOME}"
)
OVERLAP_OR_ERRORS = (
    "Predictions contradict {:.0f} % of the labels. Overlapping classes explain this, and so would "
    "wrong labels that all go from one class to another. " + CHECK_SOME
)


def class_verdicts(
    found: ClassPredictions,
    target: Tensor,
    class_names: Sequence[str],
    noise_rate: float | None = None,
) -> Verdicts:
    """Return verdicts on all labels. Suggestions are positions of classes.

    A label is incorrect if its probability of being wrong is above 0.5, easy if the prediction
    agrees with it, hard if the prediction contradicts it but this probability is small, and
    undecided otherwise. Labels that cannot be judged (in a small class, or if predictions are not
    better than chance) are never called incorrect or hard. If many labels would be hard, none is
    called hard, because the classes probably overlap. In a class that the predictions hardly
    recognise, only as many labels are called incorrect as the noise rate explains.

    If the noise rate is below `LEARNED_AS_THEY_ARE`, the noise interval includes the fraction of
    labels that predictions contradict, because systematic errors cannot be detected.

    Args:
        found: see `out_of_fold_classes`.
        target: given labels.
        class_names: one per class.
        noise_rate: the fraction of wrong labels, if it is known. By default it is estimated.
    """
    predicted, errors = found.log_probabilities, found.errors
    is_estimated = errors.noise_interval is not None
    if noise_rate is not None:
        errors = errors.at_noise_rate(noise_rate)
    losses = cross_entropy(predicted, target, reduction="none")
    knows = know_labels(predicted, target)
    is_enough = len(target) >= FEWEST_SAMPLES
    can_tell = is_enough and knows and (is_estimated or noise_rate is not None)
    judged = is_judgeable(target, len(class_names)) & can_tell
    known = errors.score if can_tell else score_without_evidence(errors.score)
    agrees = predicted.argmax(1) == target
    score, unrecognised = limit_unrecognised(
        limited_score(known, judged), agrees, target, len(class_names), errors.evident_rate
    )
    p_incorrect = score.double().sigmoid().float().numpy()
    # If labels are learned as they are, correct and wrong ones look alike.
    shows = noise_rate is not None or errors.noise_rate >= LEARNED_AS_THEY_ARE
    doubtful = unsure_contradictions(agrees, torch.from_numpy(p_incorrect))
    may_be_hard = shows and doubtful <= MOST_HARD
    code = verdict_codes(agrees, p_incorrect, judged & may_be_hard)
    interval = errors.noise_interval if can_tell else None
    if interval is not None and not shows:
        interval = (interval[0], max(interval[1], doubtful))
    notes = []
    if not is_enough:
        notes.append(
            f"{len(target)} samples are too few for an audit of labels ({FEWEST_SAMPLES} are "
            "needed): none is called incorrect."
        )
    elif not knows:
        notes.append(
            "The predictions are no better than chance, so the inputs do not tell which labels are "
            "wrong: none is called incorrect."
        )
    elif not can_tell:
        notes.append(CANNOT_TELL)
    else:
        if noise_rate is not None:
            estimate = found.errors.noise_rate if is_estimated else None
            notes.append(note_on_given_rate(noise_rate, estimate))
        notes += notes_on_small_classes(target, class_names)
        notes += notes_on_unrecognised(unrecognised, class_names)
        notes += _notes_on_confused(predicted, target, code != INCORRECT, class_names)
        if not shows:
            many = doubtful > MOST_HARD
            notes.append(OVERLAP_OR_ERRORS.format(100 * doubtful) if many else SYSTEMATIC)
        elif not may_be_hard:
            notes.append(OVERLAP.format(100 * doubtful))
    assert errors.other is not None
    return Verdicts(
        code=code,
        p_incorrect=p_incorrect,
        score=score.numpy(),
        average_loss=losses.numpy(),
        suggested_label=suggest_other_classes(code, score, errors.other, target).numpy(),
        noise_interval=interval,
        notes=tuple(notes),
        can_tell_noise=can_tell,
    )


def _notes_on_confused(
    predicted: Tensor, target: Tensor, is_kept: npt.NDArray[np.bool_], class_names: Sequence[str]
) -> list[str]:
    """Return a note on the pairs of classes that the predictions do not distinguish, if any.

    Labels that are called incorrect are left out. Otherwise, a rare class with mostly wrong labels
    would seem to be confused with the class that its samples belong to.
    """
    if len(class_names) > MOST_COMPARED_CLASSES:
        return []
    kept = torch.from_numpy(is_kept)
    rows = [
        (kept & (target == place)).nonzero()[:MOST_COMPARED, 0] for place in range(len(class_names))
    ]
    pairs = []
    for first in range(len(class_names)):
        for second in range(first + 1, len(class_names)):
            if min(len(rows[first]), len(rows[second])) < FEWEST_COMPARED:
                continue
            contrast = predicted[:, first] - predicted[:, second]
            right = _ordered_rightly(contrast[rows[first]], contrast[rows[second]])
            if right < SAME_CLASS:
                pairs.append((right, f"{class_names[first]!r} and {class_names[second]!r}"))
    if not pairs:
        return []
    names = [name for _, name in sorted(pairs)]
    return [
        (
            f"The inputs hardly tell these classes apart: {first_names(names)}. Their labels are "
            "confused rather than wrong: find out what distinguishes them before correcting labels."
        )
    ]


def _ordered_rightly(high: Tensor, low: Tensor) -> float:
    """Return how often a value of `high` is above a value of `low` (AUROC)."""
    both = torch.cat([high, low])
    ranks = both.argsort().argsort().double()
    above = float(ranks[: len(high)].sum()) - len(high) * (len(high) - 1) / 2
    return above / (len(high) * len(low))
