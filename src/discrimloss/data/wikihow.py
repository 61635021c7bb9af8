"""WikiHow: multiple-choice questions about goals, the steps towards them, and their order.

From Zhang, Lyu and Callison-Burch (2020). The training questions are generated automatically and
contain wrong labels. The test questions were checked by humans.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discrimloss.data.base import DataError, Split, TaskData, datasets
from discrimloss.data.published_files import ByHand, KnownFile, in_folder, obtained

Task = Literal["goal", "step", "order"]

NUM_CHOICES = {"goal": 4, "step": 4, "order": 2}
BENCHMARK = {"goal": "goal_inference", "step": "step_inference", "order": "step_ordering"}
SOURCE = "the repository zharry29/wikihow-goal-step links to the files"

Texts = npt.NDArray[np.object_]

# BIG-bench wraps the publisher's prompt in a sentence: "The most reasonable goal of '…' is ".
_WRAPPED = re.compile(
    r"\s*(?:The most reasonable (?:goal|step) of '(.*)' is|In order to '(.*?)', one)"
)

BY_HAND = ByHand(
    "follow the Google Drive link for training and benchmark data at "
    "https://github.com/zharry29/wikihow-goal-step and put goal/train.csv, step/train.csv and "
    "order/train.csv, each with a val.csv beside it, into a folder wikihow of the data directory; "
    "the benchmark questions are also in https://github.com/google/BIG-bench as "
    "goal_step_wikihow, whose task.json files may lie there as goal_inference.json, "
    "step_inference.json and step_ordering.json",
    forms=tuple(
        in_folder("wikihow", [KnownFile(name.format(task)) for name in names for task in BENCHMARK])
        for names in (
            ("{}/train.csv", "{}/val.csv"),
            ("{}/train.csv", "{}/test.csv"),
            ("{}_train.csv", "{}_val.csv"),
            ("{}_train.csv", "{}_test.csv"),
        )
    )
    + tuple(
        in_folder(
            "wikihow",
            [
                *(KnownFile(name.format(task)) for task in BENCHMARK),
                *(KnownFile(f"{questions}.json") for questions in BENCHMARK.values()),
            ],
        )
        for name in ("{}/train.csv", "{}_train.csv")
    ),
)


@datasets.register("wikihow")
@obtained(BY_HAND)
def load_wikihow(
    directory: Path,
    *,
    task: Task = "goal",
    split_seed: int = 0,
    validation_share: float = 0.1,
    train_on_benchmark: bool = False,
    test_share: float = 0.2,
) -> TaskData:
    """WikiHow questions (goal, step or order), as SWAG-layout CSV or BIG-bench JSON.

    The files are in ``directory/wikihow``. For the task ``goal``:

    - Training: ``goal/train.csv``, as in the publisher's archive, or ``goal_train.csv``. By
      default, a tenth of it becomes the validation split.
    - Testing: ``goal/val.csv``, ``goal/test.csv``, ``goal_val.csv`` or ``goal_test.csv``; else
      BIG-bench's ``goal_inference.json`` or ``goal_inference/task.json``.

    The names for ``step`` (BIG-bench: ``step_inference``) and ``order`` (``step_ordering``) are
    alike.

    `train_on_benchmark` is for users who have only the benchmark questions. They are split into a
    training and a test split. Such results can be compared with each other, but not with those of
    the paper.

    Args:
        directory: the data directory.
        task: ``"goal"``: the goal of a step; ``"step"``: a step of a goal; ``"order"``: the earlier
            of two steps.
        split_seed: seed of the splits, and of the shuffling of the benchmark's choices.
        validation_share: fraction of the training questions that is used for validation.
        train_on_benchmark: whether to split the benchmark's questions into training and test.
        test_share: with `train_on_benchmark`, the fraction of its questions for testing.
    """
    folder = directory / "wikihow"
    generator = torch.Generator().manual_seed(split_seed)
    if train_on_benchmark:
        return _split_benchmark(folder, task, validation_share, test_share, generator)

    train_files = [folder / task / "train.csv", folder / f"{task}_train.csv"]
    train_file = _first(train_files)
    if train_file is None:
        raise DataError(_no_training_file(train_files, _first(_benchmark_files(folder, task))))
    questions = read_swag_csv(train_file, NUM_CHOICES[task])
    count = len(questions)
    validation, train = _split(torch.arange(count), count, validation_share, generator)
    test, notes = _read_test(folder, task, generator)
    return TaskData(
        train=questions.select(train),
        validation=questions.select(validation) if len(validation) else None,
        test=test,
        num_classes=NUM_CHOICES[task],
        train_labels_are_clean=False,
        notes=notes,
    )


def _read_test(
    folder: Path, task: Task, generator: torch.Generator
) -> tuple[Split, tuple[str, ...]]:
    tables = [
        file
        for name in ("val", "test")
        for file in (folder / task / f"{name}.csv", folder / f"{task}_{name}.csv")
    ]
    if table := _first(tables):
        return read_swag_csv(table, NUM_CHOICES[task]), ()
    benchmark = _benchmark_files(folder, task)
    if file := _first(benchmark):
        return read_benchmark(file, NUM_CHOICES[task], generator)
    raise DataError(
        f"no test questions for wikihow {task}: looked for {_listed(tables + benchmark)}; {SOURCE}"
    )


def _split_benchmark(
    folder: Path,
    task: Task,
    validation_share: float,
    test_share: float,
    generator: torch.Generator,
) -> TaskData:
    files = _benchmark_files(folder, task)
    file = _first(files)
    if file is None:
        raise DataError(f"no benchmark questions for wikihow {task}: looked for {_listed(files)}")
    questions, notes = read_benchmark(file, NUM_CHOICES[task], generator)
    # Some prompts occur twice: questions with the same prompt must be in the same split.
    assert isinstance(questions.inputs, QuestionInputs)
    contexts, group = np.unique(questions.inputs.contexts.astype(str), return_inverse=True)
    groups = torch.from_numpy(group.reshape(-1))
    test, rest = _split(groups, len(contexts), test_share, generator)
    held_out, train = _split(groups[rest], len(contexts), validation_share, generator)
    if not (len(test) and len(train)):
        raise DataError(f"{file} has too few questions to split into training and test questions")
    notes += (f"trained and tested on a split of {file.name}: not comparable with the paper",)
    return TaskData(
        train=questions.select(rest[train]),
        validation=questions.select(rest[held_out]) if len(held_out) else None,
        test=questions.select(test),
        num_classes=NUM_CHOICES[task],
        notes=notes,
    )


def _split(
    group: Tensor, num_groups: int, fraction: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return the rows of a random fraction of the groups, and the other rows."""
    if not 0.0 <= fraction < 1.0:
        raise DataError(f"a fraction of the questions must be from 0 to below 1, not {fraction}")
    rank = torch.randperm(num_groups, generator=generator)
    is_chosen = rank[group] < round(fraction * num_groups)
    return is_chosen.nonzero().flatten(), (~is_chosen).nonzero().flatten()


def _no_training_file(train_files: Sequence[Path], benchmark_file: Path | None) -> str:
    missing = f"no training questions for wikihow: looked for {_listed(train_files)}; {SOURCE}"
    if benchmark_file is None:
        return missing
    return (
        f"{missing}, or set data.train_on_benchmark=true to train on a split of {benchmark_file} "
        "as a substitute"
    )


def _benchmark_files(folder: Path, task: Task) -> list[Path]:
    return [folder / f"{BENCHMARK[task]}.json", folder / BENCHMARK[task] / "task.json"]


def _first(files: Sequence[Path]) -> Path | None:
    return next((file for file in files if file.is_file()), None)


def _listed(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))


class Question(NamedTuple):
    """A multiple-choice question."""

    context: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class QuestionInputs:
    """Multiple-choice questions as texts. A text model tokenizes them batch by batch."""

    contexts: Texts
    """Shape (questions,)."""
    choices: Texts
    """Shape (questions, choices)."""
    in_memory: bool = True

    def __len__(self) -> int:
        return len(self.contexts)

    def rows(self, index: Tensor) -> list[Question]:
        """Return the questions of some samples."""
        rows = index.numpy()
        pairs = zip(self.contexts[rows], self.choices[rows].tolist(), strict=True)
        return [Question(context, tuple(choices)) for context, choices in pairs]

    def select(self, index: Tensor) -> QuestionInputs:
        """Return only these questions, in this order."""
        rows = index.numpy()
        return QuestionInputs(self.contexts[rows], self.choices[rows])


def read_swag_csv(file: Path, num_choices: int) -> Split:
    """Read questions from the columns ``sent1``, ``sent2``, ``ending0`` …, and ``label``.

    The context is ``sent1`` followed by ``sent2``, or ``startphrase`` if both are empty.
    """
    import pandas

    endings = [f"ending{number}" for number in range(num_choices)]
    wanted = {"sent1", "sent2", "startphrase", "label", *endings}
    try:
        # Only the needed columns, to save memory. "None", "NA" and "null" are texts here.
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
    """Return questions of BIG-bench, and notes about those that were left out.

    The choices are shuffled, because in BIG-bench the correct one is first more often than by
    chance.
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
    """Return the context, and the choices with the correct one first."""
    scores = {text.removesuffix("."): score for text, score in example["target_scores"].items()}
    right = [text for text, score in scores.items() if score == 1]
    if len(right) != 1:
        return None
    wrong = [text for text, score in scores.items() if score != 1]
    if len(wrong) >= num_choices:  # two questions list the right choice again, misspelt, as wrong
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
