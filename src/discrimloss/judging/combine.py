"""Combines the verdicts of several runs on the same samples."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.judging.verdicts import (
    EASY,
    HARD,
    HARD_BELOW,
    INCORRECT,
    INCORRECT_ABOVE,
    UNDECIDED,
    UNSEEN,
    Verdicts,
)


def combine_verdicts(several: Sequence[Verdicts]) -> Verdicts:
    """Average the verdicts of several runs on the same samples.

    Probabilities, scores, losses and weights are means over the runs in which a sample was seen.
    The noise interval is the mean over all runs. A label is incorrect if its mean probability is
    above 0.5. Otherwise, the sample is easy if more runs call it easy than hard or undecided.
    It is hard if no run calls it undecided, or if at least as many runs call it hard and the mean
    probability is at most 0.1. The suggested class is the most frequent suggestion. If the label
    is called incorrect, runs that trust it adopt the suggestion of the run with the highest
    probability. The suggested regression target is the mean.

    Args:
        several: at least one verdicts object. All have the same samples in the same order.
    """
    if not several:
        raise ValueError("there are no verdicts to combine")
    first = several[0]
    lengths = sorted({len(one) for one in several})
    if len(lengths) > 1:
        raise ValueError(f"verdicts on {lengths[0]} and on {lengths[-1]} samples cannot combine")
    if len(several) == 1:
        return first
    p_incorrect = _mean([one.p_incorrect for one in several])
    easy, hard, undecided = (
        sum((one.code == code).astype(int) for one in several) for code in (EASY, HARD, UNDECIDED)
    )
    is_hard = (hard >= undecided) & (p_incorrect <= HARD_BELOW)
    others = np.where(is_hard | (undecided == 0), HARD, UNDECIDED)
    code = np.where(easy > hard + undecided, EASY, others).astype(np.int8)
    code[p_incorrect > INCORRECT_ABOVE] = INCORRECT
    code[np.isnan(p_incorrect)] = UNSEEN
    intervals = [one.noise_interval for one in several if one.noise_interval is not None]
    return Verdicts(
        code=code,
        p_incorrect=p_incorrect,
        score=_mean([one.score for one in several]),
        average_loss=_optional_mean([one.average_loss for one in several]),
        weight=_optional_mean([one.weight for one in several]),
        given_label=first.given_label,
        suggested_label=_suggested(several, p_incorrect),
        ids=first.ids,
        rule=first.rule,
        noise_interval=_mean_interval(intervals) if len(intervals) == len(several) else None,
        notes=tuple(dict.fromkeys(note for one in several for note in one.notes)),
        can_tell_noise=all(one.can_tell_noise for one in several),
    )


def _mean_interval(intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    low, high = np.mean(intervals, axis=0).tolist()
    return low, high


def _mean(columns: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice")  # of samples that no run has seen
        mean = np.nanmean(np.stack(columns), axis=0, dtype=np.float64)
    return np.asarray(mean, dtype=np.float32)


def _optional_mean(
    columns: Sequence[npt.NDArray[np.float32] | None],
) -> npt.NDArray[np.float32] | None:
    known = [column for column in columns if column is not None]
    return _mean(known) if len(known) == len(columns) else None


def _suggested(
    several: Sequence[Verdicts], p_incorrect: npt.NDArray[np.float32]
) -> npt.NDArray[Any] | None:
    known = [one.suggested_label for one in several if one.suggested_label is not None]
    if len(known) < len(several):
        return None
    if all(labels.dtype.kind == "f" for labels in known):
        return np.asarray(np.mean(known, axis=0))
    return _most_frequent(np.stack(known), several, p_incorrect)


def _most_frequent(
    suggested: npt.NDArray[Any],
    several: Sequence[Verdicts],
    p_incorrect: npt.NDArray[np.float32],
) -> npt.NDArray[Any]:
    """Return the class that most runs suggest. See `combine_verdicts` for incorrect labels.

    Args:
        suggested: shape (runs, samples).
        several: the verdicts of the runs.
        p_incorrect: shape (samples,): the mean.
    """
    probabilities = np.stack([np.nan_to_num(one.p_incorrect, nan=-1.0) for one in several])
    surest = np.take_along_axis(suggested, probabilities.argmax(0)[None], axis=0)
    trusts = probabilities <= INCORRECT_ABOVE
    votes = np.where(trusts & (p_incorrect > INCORRECT_ABOVE), surest, suggested)
    names = {name: code for code, name in enumerate(dict.fromkeys(votes.ravel().tolist()))}
    codes = np.array([[names[name] for name in row] for row in votes.tolist()], dtype=np.int64)
    support = (codes[:, None, :] == codes[None, :, :]).sum(1)  # runs with the same suggestion
    chosen = np.take_along_axis(votes, support.argmax(0)[None], axis=0)
    return np.asarray(chosen[0])
