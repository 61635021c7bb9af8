"""Find wrong labels from existing predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from discrimloss.judging.judgeable import (
    limit_unrecognised,
    limited_score,
    notes_on_unrecognised,
    score_without_evidence,
)
from discrimloss.judging.label_errors import LabelErrors, note_on_given_rate, require_noise_rate
from discrimloss.judging.noise_model import estimate_class_errors
from discrimloss.judging.prediction_input import (
    LabelClasses,
    as_array,
    checked_labels,
    default_ids,
    finite_numbers,
    match_classes,
    prediction_matrix,
    require_same_index,
)
from discrimloss.judging.regression_noise import estimate_target_errors
from discrimloss.judging.verdicts import (
    CANNOT_TELL,
    EASY,
    HARD,
    HARD_BELOW,
    INCORRECT,
    INCORRECT_ABOVE,
    UNDECIDED,
    Verdicts,
)
from discrimloss.state.sample_ids import SampleId

FEWEST_SAMPLES = 30
"""Minimum number of labels. Fewer are not enough to estimate the noise."""
FEWEST_OF_CLASS = 5
"""A class with fewer labels gets a note that it is too small."""
SMALLEST_PROBABILITY = 1e-6
"""Smaller predicted probabilities are raised to this."""
CLEAR_DEVIATIONS = 3.0
"""Predictions are informative if their gain is this many standard errors. See `know_labels`."""
EASY_ERRORS = 2.0
"""A regression target is easy if its error is at most this many median absolute errors."""
MOST_HARD = 0.1
"""If predictions contradict more than this fraction of the labels that are not called incorrect,
classes overlap and none of these labels is called hard. On datasets with real errors, up to two
fifths of such labels are wrong (mammographic_radiologist)."""
OVERLAP = (
    "Predictions contradict {:.0f} % of the labels without being confident: classes overlap, so "
    "these labels are undecided, not hard."
)
SAME_AS_GIVEN = (
    "All predictions agree with the given labels: a model that was trained on the same labels "
    "hides the wrong ones, so make sure that the predictions are out of sample."
)


def find_label_errors(
    labels: Any,
    *,
    pred_probs: Any | None = None,
    logits: Any | None = None,
    predictions: Any | None = None,
    class_names: Sequence[Any] | None = None,
    ids: Sequence[SampleId] | None = None,
    noise_rate: float | None = None,
) -> Verdicts:
    """Find wrong labels from existing predictions.

    The predictions must be out of sample, for instance from cross-validation: each sample is
    predicted by a model that was not trained on it. A model that was trained on a label has partly
    memorised it.

    Pass exactly one of `pred_probs`, `logits` and `predictions`. All arguments may be NumPy arrays,
    torch tensors, pandas objects or lists.

    Class labels are names or positions:

    - Names are matched to columns by `class_names`, or by the column names if the predictions are a
      data frame. Without either, the columns are the sorted names, as in scikit-learn and cleanlab.
    - Integers are positions of columns, unless all of them, as text, are among the class names.

    The verdict of a label is

    - ``"incorrect"`` if its probability of being wrong is above 0.5;
    - ``"easy"`` if the prediction agrees with it: its class has the highest probability, or the
      regression target is within twice the median absolute error of the prediction;
    - ``"hard"`` if the prediction disagrees, but the probability of being wrong is at most 0.1;
    - ``"undecided"`` otherwise. Labels are also undecided instead of hard if the predictions say
      too little about the labels, or if more than a tenth of the labels would be hard because
      classes overlap.

    Wrong regression targets are assumed to come from the distribution of all targets. If they lie
    far outside of it instead, only some of them are found.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> true = rng.integers(0, 3, 600)
    >>> pred_probs = np.full((600, 3), 0.05)
    >>> pred_probs[np.arange(600), true] = 0.9
    >>> labels = true.copy()
    >>> labels[:30] = (labels[:30] + 1) % 3
    >>> find_label_errors(labels, pred_probs=pred_probs).counts
    {'easy': 570, 'hard': 0, 'undecided': 0, 'incorrect': 30, 'unseen': 0}

    Args:
        labels: labels to check, one per sample: names or positions of classes, or regression
            targets with `predictions`.
        pred_probs: predicted probabilities, shape (samples, classes). Every row sums to 1.
        logits: predicted logits, shape (samples, classes).
        predictions: predicted regression targets, shape (samples,).
        class_names: names of the classes, in the order of the columns.
        ids: ids of the samples. By default the index of `labels`, if it is a pandas Series whose
            index is not 0, 1, 2, and so on.
        noise_rate: the fraction of wrong labels, if you know it, for instance because you checked
            100 random labels. By default it is estimated. It does not change the ranking.

    Returns:
        Verdicts with given and suggested labels, named as in `labels`. ``average_loss`` is the
        cross-entropy of the given label, or the absolute error. ``weight`` is None. ``notes``
        describe limits of the result. ``noise_rate`` is None if the predictions say too little
        about the labels: they hardly depend on the labels, or the interval of the noise rate is
        wider than 0.5.

    Raises:
        ValueError: the labels and the predictions do not fit together, or are too few.
    """
    require_noise_rate(noise_rate)
    passed = {"pred_probs": pred_probs, "logits": logits, "predictions": predictions}
    names = [name for name, value in passed.items() if value is not None]
    if len(names) != 1:
        found = " and ".join(names) if names else "none of them"
        raise ValueError(f"pass one of pred_probs, logits and predictions, but got {found}")
    predicted: Any = passed[names[0]]
    require_same_index(labels, predicted, names[0])
    given = checked_labels(as_array(labels))
    if len(given) < FEWEST_SAMPLES:
        raise ValueError(
            f"{len(given)} labels are too few to estimate their noise: {FEWEST_SAMPLES} are needed"
        )
    ids = default_ids(labels) if ids is None else list(ids)
    if ids is not None and len(ids) != len(given):
        raise ValueError(f"there are {len(ids)} ids for {len(given)} labels")
    if predictions is not None:
        if class_names is not None:
            raise ValueError("class_names are for classes, but predictions= is for regression")
        return _of_regression(given, as_array(predictions), ids, noise_rate)
    if class_names is None and hasattr(predicted, "columns"):
        columns = list(predicted.columns)
        class_names = None if columns == list(range(len(columns))) else columns
    scores = prediction_matrix(predicted, names[0], len(given))
    classes = match_classes(given, scores.shape[1], class_names, names[0])
    return _of_classes(classes, scores, names[0], ids, noise_rate)


def _of_classes(
    classes: LabelClasses,
    predicted: Tensor,
    name: str,
    ids: Sequence[SampleId] | None,
    noise_rate: float | None,
) -> Verdicts:
    if name == "pred_probs":
        predicted = predicted.clamp(min=SMALLEST_PROBABILITY).log()
    given = torch.from_numpy(classes.position)
    estimate = estimate_class_errors(predicted, given, torch.ones(len(given), dtype=torch.bool))
    estimate, notes = _at_given_rate(estimate, noise_rate)
    losses = cross_entropy(predicted.float(), given, reduction="none")
    agrees = predicted.argmax(1) == given
    score, unrecognised = limit_unrecognised(
        estimate.score, agrees, given, len(classes.names), estimate.evident_rate
    )
    estimate = replace(estimate, score=score)
    notes += _notes_on_classes(classes, bool(agrees.all()))
    notes += notes_on_unrecognised(unrecognised, [str(name) for name in classes.names])
    doubtful = unsure_contradictions(agrees, estimate.p_incorrect)
    if doubtful > MOST_HARD:
        notes.append(OVERLAP.format(100 * doubtful))
    return _verdicts(
        estimate,
        agrees,
        losses,
        given_label=classes.named(classes.position),
        suggested_label=classes.named(estimate.suggested.numpy()),
        ids=ids,
        notes=notes,
        can_tell=know_labels(predicted, given)
        and (noise_rate is not None or estimate.noise_interval is not None),
        may_be_hard=doubtful <= MOST_HARD,
    )


def _at_given_rate(
    estimate: LabelErrors, noise_rate: float | None
) -> tuple[LabelErrors, list[str]]:
    """Return the estimates at the given noise rate, and a note; unchanged without a rate."""
    if noise_rate is None:
        return estimate, []
    estimated = None if estimate.noise_interval is None else estimate.noise_rate
    return estimate.at_noise_rate(noise_rate), [note_on_given_rate(noise_rate, estimated)]


def _of_regression(
    given: npt.NDArray[Any],
    predicted: npt.NDArray[Any],
    ids: Sequence[SampleId] | None,
    noise_rate: float | None,
) -> Verdicts:
    if predicted.ndim == 2 and predicted.shape[1] == 1:
        predicted = predicted[:, 0]
    if predicted.shape != given.shape:
        raise ValueError(
            f"predictions must have the shape {given.shape}, one for each label, "
            f"but have {predicted.shape}"
        )
    target = torch.from_numpy(finite_numbers(given, "labels"))
    prediction = torch.from_numpy(finite_numbers(predicted, "predictions"))
    estimate = estimate_target_errors(prediction, target, torch.ones(len(target), dtype=torch.bool))
    estimate, notes = _at_given_rate(estimate, noise_rate)
    errors = (target - prediction).abs()
    return _verdicts(
        estimate,
        errors <= EASY_ERRORS * errors.median(),
        errors,
        given_label=target.numpy(),
        suggested_label=estimate.suggested.numpy(),
        ids=ids,
        notes=notes if errors.any() else [*notes, SAME_AS_GIVEN],
        can_tell=noise_rate is not None or estimate.noise_interval is not None,
    )


def _verdicts(
    estimate: LabelErrors,
    agrees: Tensor,
    losses: Tensor,
    *,
    given_label: npt.NDArray[Any],
    suggested_label: npt.NDArray[Any],
    ids: Sequence[SampleId] | None,
    notes: Sequence[str],
    can_tell: bool,
    may_be_hard: bool = True,
) -> Verdicts:
    if not can_tell:
        score = score_without_evidence(estimate.score)
        none = torch.zeros(len(score), dtype=torch.bool)
        estimate = replace(estimate, score=limited_score(score, none))
    p_incorrect = estimate.p_incorrect.numpy()
    return Verdicts(
        code=verdict_codes(agrees, p_incorrect, can_tell and may_be_hard),
        p_incorrect=p_incorrect,
        score=estimate.score.numpy(),
        average_loss=losses.float().numpy(),
        given_label=given_label,
        suggested_label=suggested_label,
        ids=ids,
        noise_interval=estimate.noise_interval if can_tell else None,
        notes=tuple(notes) if can_tell else (*notes, CANNOT_TELL),
        can_tell_noise=can_tell,
    )


def verdict_codes(
    agrees: Tensor, p_incorrect: npt.NDArray[np.float32], can_tell: bool | Tensor
) -> npt.NDArray[np.int8]:
    """Return the verdict of each label: incorrect, easy, hard or undecided.

    A label that the prediction contradicts is called hard only if it is probably right.

    Args:
        agrees: shape (samples,), bool: whether the prediction agrees with the label.
        p_incorrect: shape (samples,).
        can_tell: whether the predictions can tell wrong labels from hard samples, for all
            samples or with shape (samples,). If not, no label is hard.
    """
    is_hard = (p_incorrect <= HARD_BELOW) & np.asarray(can_tell)
    code = np.where(agrees.numpy(), EASY, np.where(is_hard, HARD, UNDECIDED)).astype(np.int8)
    code[p_incorrect > INCORRECT_ABOVE] = INCORRECT
    return code


def unsure_contradictions(agrees: Tensor, p_incorrect: Tensor) -> float:
    """Return the fraction of labels that predictions contradict but that are not called incorrect.

    Args:
        agrees: shape (samples,), bool: whether the prediction agrees with the label.
        p_incorrect: shape (samples,).
    """
    return float((~agrees & (p_incorrect <= INCORRECT_ABOVE)).float().mean())


def _notes_on_classes(classes: LabelClasses, all_agree: bool) -> list[str]:
    counts = np.bincount(classes.position, minlength=len(classes.names))
    notes = [
        f"Class {name!r} has {count} of {len(classes.position)} labels: too few to tell which of "
        "them are wrong."
        for name, count in zip(classes.names, counts.tolist(), strict=True)
        if count < FEWEST_OF_CLASS
    ]
    return [*notes, SAME_AS_GIVEN] if all_agree else notes


def know_labels(logits: Tensor, given: Tensor) -> bool:
    """Return whether the logits of the given labels are clearly higher than their class means."""
    logits = logits - logits.mean(1, keepdim=True)
    gain = logits[torch.arange(len(given)), given] - logits.mean(0)[given]
    return bool(gain.mean() > CLEAR_DEVIATIONS * gain.std() / len(gain) ** 0.5)
