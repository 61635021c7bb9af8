"""How a network learned the label of a sample: early, late, or never."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FEWEST_VISITS = 4
LAST_EPOCHS = 0.25
"""This fraction of the epochs, at the end, decides whether a label is learned."""
STAYS_LEARNED = 0.7
"""A label is learned in the first epoch that predicts it and from which on at least this fraction
of the predictions agrees with it."""
EARLY = 1.0 / 3.0


def learning_sentence(
    predicted: npt.NDArray[np.float32],
    epochs: npt.NDArray[np.int64],
    given: int,
    class_names: Sequence[str],
) -> str | None:
    """Return a sentence on how the network learned the label of one sample.

    Args:
        predicted: shape (epochs,): the predicted class at each visit; NaN without a visit.
        epochs: shape (epochs,): the numbers of the epochs, from 1.
        given: the position of the given label.
        class_names: one per class.
    """
    visited = np.isfinite(predicted)
    last = int(epochs[-1])
    if int(visited.sum()) < FEWEST_VISITS:
        return None
    classes, numbers = predicted[visited].astype(np.int64), epochs[visited]
    is_right = classes == given
    tail = max(2, round(LAST_EPOCHS * len(classes)))
    name = class_names[given]
    from_here = np.cumsum(is_right[::-1])[::-1] / np.arange(len(is_right), 0, -1)
    stays = np.flatnonzero(is_right & (from_here >= STAYS_LEARNED))
    if is_right[-tail:].mean() > 0.5 and len(stays):
        epoch = int(numbers[stays[0]])
        if epoch <= EARLY * last:
            return f"The network learned the label {name!r} early, in epoch {epoch} of {last}."
        return (
            f"The network learned the label {name!r} late, in epoch {epoch} of {last}, so it may "
            "have memorised the label."
        )
    late = classes[len(classes) // 2 :]
    other, count = _most_frequent(late[late != given])
    instead = f"it predicted {class_names[other]!r} in {count} of the last {len(late)} epochs"
    if is_right.any():
        return f"The network did not retain the label {name!r}: {instead}."
    return f"The network never learned the label {name!r}: {instead}."


def _most_frequent(classes: npt.NDArray[np.int64]) -> tuple[int, int]:
    values, counts = np.unique(classes, return_counts=True)
    best = int(counts.argmax())
    return int(values[best]), int(counts[best])
