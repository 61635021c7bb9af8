"""Turns the results of an audit into evidence on each suspicious sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.evidence.clues import Clues
from discrimloss.auditing.evidence.why import Evidence, Explained
from discrimloss.auditing.health.check import Comparison
from discrimloss.judging.verdicts import EASY, INCORRECT, UNSEEN, Verdicts

Rows = npt.NDArray[np.int64]
MakeClues = Callable[[Rows, Rows, npt.NDArray[np.bool_]], list[Clues]]
"""Finds clues. Arguments: the samples to explain, their suggested classes, the trusted samples."""
Learned = Callable[[Rows], list[str | None]]
"""Says how a network learned each sample. Argument: the samples to explain."""

MOST_EXPLAINED = 20_000
"""Maximum number of explained samples, the most suspicious first."""
ALSO_EXPLAINED = 100
"""This number of the most suspicious samples is explained, whatever their verdict."""
SIMILAR = 5


@dataclass(frozen=True)
class Basis:
    """The data from which evidence is computed."""

    verdicts: Verdicts
    """The verdicts, with ids and labels."""
    target: npt.NDArray[Any]
    """Shape (samples,): positions of classes, or regression targets."""
    class_names: Sequence[str]
    compared: Comparison
    log_probabilities: npt.NDArray[np.float32] | None = None
    """Shape (samples, classes): predictions by models that were not trained on the sample."""
    clues: MakeClues | None = None
    clue_word: str = "Words"
    """The kind of clues: words or columns."""
    learned: Learned | None = None


def find_evidence(basis: Basis) -> Evidence:
    """Return the evidence on all samples that are not easy, and on the most suspicious ones."""
    verdicts = basis.verdicts
    rows = _suspicious(verdicts)
    suggested: Rows = np.empty(0, np.int64)
    clues = [Clues()] * len(rows)
    if basis.class_names:
        suggested = _positions(verdicts.suggested_label, rows, basis.class_names)
        if basis.clues is not None and len(rows):
            clues = basis.clues(rows, suggested, verdicts.code != INCORRECT)
    learned = [None] * len(rows) if basis.learned is None else basis.learned(rows)
    median = None if basis.class_names else _median_error(verdicts, basis.target)
    found = {}
    for place, row in enumerate(rows.tolist()):
        similar = basis.compared.neighbours.index[row][:SIMILAR].tolist()
        copies = [basis.compared.keys[other] == basis.compared.keys[row] for other in similar]
        if basis.class_names:
            new = int(suggested[place])
            sentences = [
                *_similar_classes(basis, row, similar, copies),
                *_clue_sentences(basis, clues[place], row, new),
                *_predicted(basis, row, new),
                *([learned[place]] if learned[place] is not None else []),
                _probability_sentence(basis, row, new),
            ]
        else:
            sentences = [
                *_similar_targets(basis, row, similar),
                *_predicted_target(basis, row, median),
                f"The target is wrong with a probability of {_percent(verdicts.p_incorrect[row])}.",
            ]
        found[row] = Explained(
            tuple(str(one) for one in sentences),
            tuple(similar),
            tuple(bool(flag) for flag in copies),
            clues[place].suggested,
            clues[place].given,
        )
    return Evidence(found)


def _suspicious(verdicts: Verdicts) -> Rows:
    is_suspicious = (verdicts.code != EASY) & (verdicts.code != UNSEEN)
    is_suspicious[verdicts.most_suspicious(ALSO_EXPLAINED)] = True
    worst: Rows = verdicts.order[is_suspicious[verdicts.order]]
    return worst[:MOST_EXPLAINED]


def _positions(labels: Any, rows: Rows, class_names: Sequence[str]) -> Rows:
    position = {name: place for place, name in enumerate(class_names)}
    return np.array([position[labels[row]] for row in rows.tolist()], dtype=np.int64)


def _similar_classes(
    basis: Basis, row: int, similar: Sequence[int], copies: Sequence[bool]
) -> list[str]:
    if not similar:
        return []
    names, target = basis.class_names, basis.target
    sentences = []
    given = int(target[row])
    for other, is_copy in zip(similar, copies, strict=True):
        if is_copy and int(target[other]) != given:
            name = names[int(target[other])]
            sentences.append(f"An identical sample is labelled {name!r}.")
            break
    counts = Counter(int(target[other]) for other in similar).most_common()
    first, number = counts[0]
    if len(similar) == 1:
        sentences.append(f"The most similar sample is labelled {names[first]!r}.")
        return sentences
    rest = "".join(f", {count} {names[place]!r}" for place, count in counts[1:])
    all_or = "All" if number == len(similar) else f"{number} of the"
    sentences.append(
        f"{all_or} {len(similar)} most similar samples are labelled {names[first]!r}{rest}."
    )
    return sentences


def _clue_sentences(basis: Basis, clues: Clues, row: int, suggested: int) -> list[str]:
    names, given = basis.class_names, int(basis.target[row])
    separator = ", " if basis.clue_word == "Words" else ". "  # a column's clue is a sentence
    sentences = []
    if clues.suggested:
        listed = separator.join(clues.suggested)
        sentences.append(f"{basis.clue_word} that suggest {names[suggested]!r}: {listed}.")
    if clues.given:
        listed = separator.join(clues.given)
        sentences.append(f"{basis.clue_word} that suggest {names[given]!r}: {listed}.")
    return sentences


def _predicted(basis: Basis, row: int, suggested: int) -> list[str]:
    if basis.log_probabilities is None:
        return []
    given = int(basis.target[row])
    of_given = np.exp(basis.log_probabilities[row, given])
    text = f"{_percent(of_given)} to the given label {basis.class_names[given]!r}"
    if suggested != given:
        of_suggested = np.exp(basis.log_probabilities[row, suggested])
        text = f"{_percent(of_suggested)} to {basis.class_names[suggested]!r} and of {text}"
    return [f"Models that were not trained on this sample assign a probability of {text}."]


def _probability_sentence(basis: Basis, row: int, suggested: int) -> str:
    wrong = float(basis.verdicts.p_incorrect[row])
    text = f"The label is wrong with a probability of {_percent(wrong)}"
    given = int(basis.target[row])
    if basis.log_probabilities is None or suggested == given:
        return f"{text}."
    others = np.exp(basis.log_probabilities[row].astype(np.float64))
    others[given] = 0.0
    right = wrong * float(others[suggested] / max(others.sum(), 1e-12))
    name = basis.class_names[suggested]
    return f"{text}, and {name!r} is right with a probability of {_percent(right)}."


def _similar_targets(basis: Basis, row: int, similar: Sequence[int]) -> list[str]:
    if not similar:
        return []
    targets = basis.target[list(similar)].astype(np.float64)
    low, high, own = targets.min(), targets.max(), float(basis.target[row])
    what = f"The {len(similar)} most similar samples have targets from {low:.4g} to {high:.4g}"
    return [f"{what}. The target of this sample is {own:.4g}."]


def _median_error(verdicts: Verdicts, target: npt.NDArray[Any]) -> float | None:
    if verdicts.suggested_label is None:
        return None
    error = np.abs(target.astype(np.float64) - verdicts.suggested_label.astype(np.float64))
    return float(np.nanmedian(error))


def _predicted_target(basis: Basis, row: int, median: float | None) -> list[str]:
    suggested = basis.verdicts.suggested_label
    if suggested is None or median is None:
        return []
    off = abs(float(basis.target[row]) - float(suggested[row]))
    times = f", {off / median:.1f} times the median error" if median > 0.0 else ""
    predicted = f"The prediction is {float(suggested[row]):.4g}"
    return [f"{predicted}. It differs from the target by {off:.3g}{times}."]


def _percent(probability: Any) -> str:
    value = 100.0 * float(probability)
    if value < 1.0:
        return "less than 1 %"
    return "more than 99 %" if value > 99.0 else f"{value:.0f} %"
