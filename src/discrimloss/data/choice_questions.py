"""Multiple-choice questions as texts, and the two kinds of files they are published in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.data.base import DataError, Split

Texts = npt.NDArray[np.object_]

# BIG-bench wraps the publisher's prompt in a sentence: "The most reasonable goal of '…' is ".
_WRAPPED = re.compile(
    r"\s*(?:The most reasonable (?:goal|step) of '(.*)' is|In order to '(.*?)', one)"
)


class Question(NamedTuple):
    """A multiple choice."""

    context: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class QuestionInputs:
    """Multiple-choice questions as texts; a model of texts tokenizes them a batch at a time."""

    contexts: Texts
    """Shape (questions,)."""
    choices: Texts
    """Shape (questions, choices)."""
    in_memory: bool = True

    def __len__(self) -> int:
        return len(self.contexts)

    def rows(self, index: Tensor) -> list[Question]:
        """The questions of some samples."""
        rows = index.numpy()
        pairs = zip(self.contexts[rows], self.choices[rows].tolist(), strict=True)
        return [Question(context, tuple(choices)) for context, choices in pairs]

    def select(self, index: Tensor) -> QuestionInputs:
        """Only these questions, in this order."""
        rows = index.numpy()
        return QuestionInputs(self.contexts[rows], self.choices[rows])


def read_swag_csv(file: Path, num_choices: int) -> Split:
    """Questions from columns ``sent1``, ``sent2``, ``ending0`` …, ``label``; others are ignored.

    The context is ``sent1`` followed by ``sent2``, or ``startphrase`` where both are empty.
    """
    import pandas

    endings = [f"ending{number}" for number in range(num_choices)]
    wanted = {"sent1", "sent2", "startphrase", "label", *endings}
    try:
        # Not all columns, for the sake of memory. "None", "NA" and "null" are texts here.
        table = pandas.read_csv(
            file, usecols=wanted.__contains__, dtype=str, keep_default_na=False, encoding="utf-8"
        )
    except (ValueError, OSError) as error:  # pandas' parser errors are ValueErrors
        reason = str(error).strip().replace("\n", " ")
        raise DataError(f"cannot read {file} as a CSV file: {reason}") from error
    missing = [name for name in [*endings, "label"] if name not in table]
    has_context = "sent1" in table or "startphrase" in table
    if missing or not has_context:
        missing += [] if has_context else ["sent1"]
        raise DataError(
            f"{file} is not in the SWAG layout for {num_choices} choices: "
            f"it has no column {', '.join(missing)}"
        )
    label = pandas.to_numeric(table["label"], errors="coerce").to_numpy(np.float64)
    wrong = np.flatnonzero(~np.isin(label, range(num_choices)))
    if len(wrong):
        raise DataError(
            f"{file} has the label {table['label'].iloc[wrong[0]]!r} in row {wrong[0] + 1}; "
            f"labels run from 0 to {num_choices - 1}"
        )
    if not len(table):
        raise DataError(f"{file} holds no questions")
    contexts = _column(table, "sent1") + " " + _column(table, "sent2")
    contexts = contexts.str.strip().mask(lambda text: text == "", _column(table, "startphrase"))
    inputs = QuestionInputs(contexts.to_numpy(object), table[endings].to_numpy(object))
    return Split(inputs, torch.from_numpy(label.astype(np.int64)))


def read_benchmark(
    file: Path, num_choices: int, generator: torch.Generator
) -> tuple[Split, tuple[str, ...]]:
    """Questions of BIG-bench, and notes about those that were left out.

    The right choice comes first more often than by chance there, so choices are shuffled.
    """
    try:
        examples = json.loads(file.read_text(encoding="utf-8"))["examples"]
        parsed = [_benchmark_question(example, num_choices) for example in examples]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"cannot read {file} as a BIG-bench task with examples of input and target_scores: "
            f"{type(error).__name__} {error}"
        ) from error
    kept = [question for question in parsed if question is not None]
    if not kept:
        raise DataError(f"{file} holds no questions with {num_choices} choices and one right one")
    skipped = len(parsed) - len(kept)
    note = f"{skipped} questions of {file.name} without {num_choices} choices, one right, left out"

    right_first = np.array([choices for _, choices in kept], dtype=object)
    order = torch.rand(right_first.shape, generator=generator).argsort(dim=1)
    choices = np.take_along_axis(right_first, order.numpy(), axis=1)
    inputs = QuestionInputs(np.array([context for context, _ in kept], dtype=object), choices)
    return Split(inputs, order.argmin(dim=1)), (note,) if skipped else ()


def _benchmark_question(example: Any, num_choices: int) -> tuple[str, list[str]] | None:
    """The context, and the choices with the right one first."""
    scores = {text.removesuffix("."): score for text, score in example["target_scores"].items()}
    right = [text for text, score in scores.items() if score == 1]
    if len(right) != 1:
        return None
    wrong = [text for text, score in scores.items() if score != 1]
    if len(wrong) >= num_choices:  # two questions list their answer again, misspelt, as wrong
        wrong = [text for text in wrong if _letters(text) != _letters(right[0])]
    if len(wrong) != num_choices - 1:
        return None
    found = _WRAPPED.match(example["input"])
    context = (found[1] or found[2]) if found else example["input"].strip()
    return context, [*right, *wrong]


def _column(table: Any, name: str) -> Any:
    return table[name] if name in table else table["label"].str.slice(0, 0)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()
