"""Verdicts from predictions that the user already has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from discrimloss.judging.noise_model import LabelErrors, estimate_class_errors
from discrimloss.judging.regression_noise import estimate_target_errors
from discrimloss.judging.verdicts import EASY, HARD, INCORRECT, INCORRECT_ABOVE, Verdicts
from discrimloss.state.sample_ids import SampleId

FEWEST_SAMPLES = 30
"""Fewer labels say too little about their noise."""
FEWEST_OF_CLASS = 5
"""A class with fewer labels gets a note: hardly anything is known about it."""
SUM_TOLERANCE = 1e-2
"""How far the sum of a row of probabilities may be from 1."""
SMALLEST_PROBABILITY = 1e-6
"""A model never rules out a class: probabilities of 0 count as this."""
CLEAR_DEVIATIONS = 3.0
"""Predictions know something about the labels if they gain so many standard errors."""
EASY_ERRORS = 2.0
"""A regression target is easy within so many median absolute errors of its prediction."""
SAME_AS_GIVEN = (
    "All predictions agree with the given labels: a model that was trained on the same labels "
    "hides the wrong ones, so make sure that the predictions are out of sample."
)
NO_PROBABILITIES = "pass the output of a network before its softmax as logits="


def find_label_errors(
    labels: Any,
    *,
    pred_probs: Any | None = None,
    logits: Any | None = None,
    predictions: Any | None = None,
    class_names: Sequence[Any] | None = None,
    ids: Sequence[SampleId] | None = None,
) -> Verdicts:
    """Find wrong labels with predictions that exist already.

    The predictions must be out of sample: for each sample from a model that was not trained on it,
    for instance by cross-validation. A model that has seen a label has partly memorised it.

    Pass exactly one of `pred_probs`, `logits` and `predictions`. All arguments may be NumPy arrays,
    torch tensors, pandas objects or lists.

    Labels of a classification are names or positions:

    - Names belong to the columns by `class_names`, or by the columns of a data frame of
      predictions. Without either, the columns are the sorted names, as in scikit-learn and
      cleanlab.
    - Integers are positions of columns, unless all of them, as text, are among the given class
      names.

    A label is ``"incorrect"`` where its probability of being wrong is above 0.5. The other labels
    are ``"easy"`` where the prediction agrees with them: their class has the highest probability,
    or the regression target is within twice the median absolute error of the prediction. All others
    are ``"hard"``.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> true = rng.integers(0, 3, 600)
    >>> pred_probs = np.full((600, 3), 0.05)
    >>> pred_probs[np.arange(600), true] = 0.9
    >>> labels = true.copy()
    >>> labels[:30] = (labels[:30] + 1) % 3
    >>> find_label_errors(labels, pred_probs=pred_probs).counts
    {'easy': 570, 'hard': 0, 'incorrect': 30, 'unseen': 0}

    Args:
        labels: the labels to check, one per sample: names or positions of classes, or regression
            targets with `predictions`.
        pred_probs: predicted probabilities, shape (samples, classes); every row sums to 1.
        logits: predicted logits, shape (samples, classes).
        predictions: predicted regression targets, shape (samples,).
        class_names: names of the classes, in the order of the columns.
        ids: names of the samples. By default the index of `labels`, if it is a pandas Series whose
            index is not 0, 1, 2, and so on.

    Returns:
        Verdicts with given and suggested labels, in the names that the labels have.
        ``average_loss`` is the cross-entropy of the given label, or the absolute error; ``weight``
        is None. ``notes`` say what limits the result.

    Raises:
        ValueError: the labels and the predictions do not fit together, or are too few.
    """
    passed = {"pred_probs": pred_probs, "logits": logits, "predictions": predictions}
    names = [name for name, value in passed.items() if value is not None]
    if len(names) != 1:
        found = " and ".join(names) if names else "none of them"
        raise ValueError(f"pass one of pred_probs, logits and predictions, but got {found}")
    predicted: Any = passed[names[0]]
    _require_same_index(labels, predicted, names[0])
    given = _checked_labels(_as_array(labels))
    if len(given) < FEWEST_SAMPLES:
        raise ValueError(
            f"{len(given)} labels are too few to estimate their noise: {FEWEST_SAMPLES} are needed"
        )
    ids = _default_ids(labels) if ids is None else list(ids)
    if ids is not None and len(ids) != len(given):
        raise ValueError(f"there are {len(ids)} ids for {len(given)} labels")
    if predictions is not None:
        if class_names is not None:
            raise ValueError("class_names belong to a classification: predictions= is a regression")
        return _of_regression(given, _as_array(predictions), ids)
    if class_names is None and hasattr(predicted, "columns"):
        columns = list(predicted.columns)
        class_names = None if columns == list(range(len(columns))) else columns
    scores = _prediction_matrix(predicted, names[0], len(given))
    classes = _match_classes(given, scores.shape[1], class_names, names[0])
    return _of_classes(classes, scores, names[0], ids)


@dataclass(frozen=True)
class _Classes:
    """Labels as positions of columns, and how the user calls the columns."""

    position: npt.NDArray[np.int64]
    names: list[Any]
    """Strings or integers."""

    def named(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        kind = object if any(isinstance(name, str) for name in self.names) else np.int64
        return np.array(self.names, dtype=kind)[positions]


def _of_classes(
    classes: _Classes, predicted: Tensor, name: str, ids: Sequence[SampleId] | None
) -> Verdicts:
    if name == "pred_probs":
        predicted = predicted.clamp(min=SMALLEST_PROBABILITY).log()
    given = torch.from_numpy(classes.position)
    estimate = estimate_class_errors(predicted, given, torch.ones(len(given), dtype=torch.bool))
    losses = cross_entropy(predicted.float(), given, reduction="none")
    agrees = predicted.argmax(1) == given
    notes = _notes_on_classes(classes, bool(agrees.all()))
    can_tell = _know_labels(predicted, given)
    if not can_tell:
        notes.append(
            "The predictions say no more about the labels than how frequent each class is: they "
            "cannot tell which labels are wrong."
        )
    return _verdicts(
        estimate,
        agrees,
        losses,
        given_label=classes.named(classes.position),
        suggested_label=classes.named(estimate.suggested.numpy()),
        ids=ids,
        notes=notes,
        can_tell=can_tell,
    )


def _of_regression(
    given: npt.NDArray[Any], predicted: npt.NDArray[Any], ids: Sequence[SampleId] | None
) -> Verdicts:
    if predicted.ndim == 2 and predicted.shape[1] == 1:
        predicted = predicted[:, 0]
    if predicted.shape != given.shape:
        raise ValueError(
            f"predictions must have the shape {given.shape}, one for each label, "
            f"but have {predicted.shape}"
        )
    target = torch.from_numpy(_finite(given, "labels"))
    prediction = torch.from_numpy(_finite(predicted, "predictions"))
    estimate = estimate_target_errors(prediction, target, torch.ones(len(target), dtype=torch.bool))
    errors = (target - prediction).abs()
    can_tell = estimate.noise_interval is not None
    notes = []
    if not can_tell:
        notes.append(
            "The predictions hardly correlate with the targets: they cannot tell which targets "
            "are wrong."
        )
    elif not errors.any():
        notes.append(SAME_AS_GIVEN)
    return _verdicts(
        estimate,
        errors <= EASY_ERRORS * errors.median(),
        errors,
        given_label=target.numpy(),
        suggested_label=estimate.suggested.numpy(),
        ids=ids,
        notes=notes,
        can_tell=can_tell,
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
) -> Verdicts:
    p_incorrect = estimate.p_incorrect.numpy()
    code = np.where(agrees.numpy(), EASY, HARD).astype(np.int8)
    code[p_incorrect > INCORRECT_ABOVE] = INCORRECT
    return Verdicts(
        code=code,
        p_incorrect=p_incorrect,
        score=estimate.score.numpy(),
        average_loss=losses.float().numpy(),
        given_label=given_label,
        suggested_label=suggested_label,
        ids=ids,
        noise_interval=estimate.noise_interval if can_tell else None,
        notes=tuple(notes),
        can_tell_noise=can_tell,
    )


def _notes_on_classes(classes: _Classes, all_agree: bool) -> list[str]:
    counts = np.bincount(classes.position, minlength=len(classes.names))
    notes = [
        f"Class {name!r} has {count} of {len(classes.position)} labels: too few to tell which of "
        "them are wrong."
        for name, count in zip(classes.names, counts.tolist(), strict=True)
        if count < FEWEST_OF_CLASS
    ]
    return [*notes, SAME_AS_GIVEN] if all_agree else notes


def _know_labels(logits: Tensor, given: Tensor) -> bool:
    """Whether logits of given labels are higher than those of the same class elsewhere."""
    logits = logits - logits.mean(1, keepdim=True)
    gain = logits[torch.arange(len(given)), given] - logits.mean(0)[given]
    return bool(gain.mean() > CLEAR_DEVIATIONS * gain.std() / len(gain) ** 0.5)


def _as_array(values: Any) -> npt.NDArray[Any]:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.float() if values.dtype == torch.bfloat16 else values
        return np.asarray(values.numpy())
    return np.asarray(values)


def _require_same_index(labels: Any, predicted: Any, name: str) -> None:
    """Refuse pandas objects whose rows are in another order."""
    ours: Any = getattr(labels, "index", None)
    theirs: Any = getattr(predicted, "index", None)
    if not (hasattr(ours, "equals") and hasattr(theirs, "equals")):
        return
    if len(labels) == len(predicted) and not ours.equals(theirs):
        raise ValueError(
            f"labels and {name} have different indexes: bring the rows into the same order, or "
            "pass arrays"
        )


def _default_ids(labels: Any) -> list[SampleId] | None:
    index: Any = getattr(labels, "index", None)
    if not hasattr(index, "equals") or not index.is_unique:
        return None
    values = index.tolist()
    is_numbered = values == list(range(len(values)))
    return None if is_numbered or not all(isinstance(v, (str, int)) for v in values) else values


def _checked_labels(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels without missing ones; integers among objects become an array of integers."""
    if labels.ndim != 1:
        raise ValueError(f"labels must have the shape (samples,), but have {labels.shape}")
    missing: npt.NDArray[np.bool_] = np.zeros(len(labels), dtype=np.bool_)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "O":
        # pandas has null values of its own, which are not equal to themselves either.
        missing = np.array([one is None or (one == one) is not True for one in labels])
    if missing.any():
        raise ValueError(
            f"the label of sample {int(missing.argmax())} is missing: leave out samples without "
            "a label"
        )
    if labels.dtype.kind == "O" and all(type(label) is int for label in labels):
        return labels.astype(np.int64)
    return labels


def _finite(values: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from error
    finite = np.isfinite(numbers).reshape(len(numbers), -1).all(1)
    if not finite.all():
        raise ValueError(f"{name} of sample {int((~finite).argmax())} are not finite numbers")
    return np.asarray(numbers)


def _prediction_matrix(predicted: Any, name: str, samples: int) -> Tensor:
    """Predictions as a float64 tensor of shape (samples, classes), checked."""
    array = _as_array(predicted)
    if array.ndim != 2 or len(array) != samples or array.shape[1] < 2:
        raise ValueError(
            f"{name} must have the shape ({samples}, classes), a row for each label and at least "
            f"two columns, but have {array.shape}"
        )
    array = _finite(array, name)
    if name == "pred_probs":
        wrong = (array < 0.0).any(1)
        if wrong.any():
            raise ValueError(
                f"pred_probs of sample {int(wrong.argmax())} are negative: {NO_PROBABILITIES}"
            )
        sums = array.sum(1)
        wrong = np.abs(sums - 1.0) > SUM_TOLERANCE
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"pred_probs of sample {row} sum to {sums[row]:.4g}, not to 1: {NO_PROBABILITIES}"
            )
    return torch.from_numpy(array)


def _match_classes(
    given: npt.NDArray[Any], number: int, class_names: Sequence[Any] | None, name: str
) -> _Classes:
    """Labels as positions of columns."""
    if given.dtype.kind == "f":
        if (given != np.floor(given)).any():
            raise ValueError(
                "labels are fractions: classes need names or whole numbers, and a regression needs "
                "predictions="
            )
        given = given.astype(np.int64)
    if given.dtype.kind == "b":
        given = given.astype(np.int64)
    names = None if class_names is None else _names(class_names)
    if names is None and given.dtype.kind not in "iu":
        names = sorted({str(label) for label in given})
        if len(names) != number:
            raise ValueError(
                f"labels name {len(names)} classes and {name} have {number} columns: pass "
                "class_names, the name of each column"
            )
    if names is None:
        names = list(range(number))
    elif len(names) != number:
        raise ValueError(f"class_names name {len(names)} classes, but {name} have {number} columns")
    classes = _Classes(_positions(given, names), names)
    counts = np.bincount(classes.position, minlength=number)
    if not counts.all():
        absent = ", ".join(repr(names[i]) for i in np.flatnonzero(counts == 0))
        raise ValueError(
            f"no label names the class {absent}: without its labels, its noise cannot be "
            f"estimated. Leave out its column of {name}"
            + (" and divide each row by its new sum" if name == "pred_probs" else "")
        )
    return classes


def _names(class_names: Sequence[Any]) -> list[Any]:
    """Names as strings, or as integers where all are integers."""
    are_integers = all(isinstance(name, (int, np.integer)) for name in class_names)
    names = [int(name) if are_integers else str(name) for name in class_names]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"class_names hold {repeated!r} more than once")
    return names


def _positions(given: npt.NDArray[Any], names: list[Any]) -> npt.NDArray[np.int64]:
    column_of = {str(name): column for column, name in enumerate(names)}
    labels = [str(label) for label in given.tolist()]
    unknown = next((i for i, label in enumerate(labels) if label not in column_of), None)
    if unknown is None:
        return np.array([column_of[label] for label in labels], dtype=np.int64)
    if given.dtype.kind in "iu" and given.min() >= 0 and given.max() < len(names):
        return given.astype(np.int64)  # positions of classes that have names
    shown = ", ".join(repr(name) for name in names[:10]) + (", …" if len(names) > 10 else "")
    raise ValueError(
        f"the label {given.tolist()[unknown]!r} of sample {unknown} is none of the classes "
        f"{shown}: correct it, or pass class_names, the name of each column"
    )
