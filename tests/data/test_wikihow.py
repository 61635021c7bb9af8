"""WikiHow: both layouts, splits that do not leak, and a sentence for everything that is missing."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_text_data import write_benchmark, write_swag_csv, write_wikihow

from discrimloss.data import DataError, Split, TaskData, datasets
from discrimloss.data.wikihow import Question, load_wikihow, read_benchmark, read_swag_csv

REAL = Path(os.environ.get("DISCRIMLOSS_DATA", "nowhere"))


def questions(part: Split) -> list[Question]:
    rows: list[Question] = part.inputs.rows(torch.arange(len(part)))
    return rows


def answers(part: Split) -> list[str]:
    pairs = zip(questions(part), part.target.tolist(), strict=True)
    return [question.choices[right] for question, right in pairs]


def contexts(part: Split) -> set[str]:
    return {question.context for question in questions(part)}


def parts(data: TaskData) -> list[Split]:
    assert data.validation is not None
    return [data.train, data.validation, data.test]


@pytest.mark.parametrize(("task", "choices"), [("goal", 4), ("step", 4), ("order", 2)])
def test_the_publisher_s_files_are_read(tmp_path: Path, task: str, choices: int) -> None:
    data = datasets.get("wikihow")(write_wikihow(tmp_path), task=task)
    assert [len(part) for part in parts(data)] == [36, 4, 10]
    assert data.num_classes == choices
    assert not data.train_labels_are_clean  # generated automatically
    assert all(len(question.choices) == choices for question in questions(data.train))
    for part, kind in zip(parts(data), ["train", "train", "val"], strict=True):
        assert part.target.dtype == torch.int64
        for question, answer in zip(questions(part), answers(part), strict=True):
            number = question.context.removeprefix(f"{task} of {kind} ")
            assert answer == f"{kind} {number}"


def test_training_and_validation_share_nothing_and_miss_nothing(tmp_path: Path) -> None:
    write_wikihow(tmp_path, tasks=("goal",))
    data = load_wikihow(tmp_path)
    train, validation, _ = (contexts(part) for part in parts(data))
    assert not train & validation
    assert len(train | validation) == 40


def test_the_seed_decides_the_split(tmp_path: Path) -> None:
    write_wikihow(tmp_path, tasks=("goal",))
    once, again, other = (load_wikihow(tmp_path, split_seed=seed) for seed in (1, 1, 2))
    assert questions(once.train) == questions(again.train)
    assert contexts(once.train) != contexts(other.train)


def test_other_file_names_will_do(tmp_path: Path) -> None:
    write_swag_csv(tmp_path / "wikihow" / "step_train.csv", "step", 20)
    write_benchmark(tmp_path / "wikihow" / "step_inference" / "task.json", "step", 7)
    data = load_wikihow(tmp_path, task="step")
    assert (len(data.train), len(data.test)) == (18, 7)
    assert contexts(data.test) == {f"step of benchmark {number}" for number in range(7)}


def test_selecting_keeps_questions_and_targets_together(tmp_path: Path) -> None:
    data = load_wikihow(write_wikihow(tmp_path, tasks=("goal",)))
    chosen = torch.tensor([5, 3])
    selected = data.train.select(chosen)
    assert questions(selected) == data.train.inputs.rows(chosen)
    assert answers(selected) == [answers(data.train)[5], answers(data.train)[3]]


def test_texts_that_look_like_missing_values_stay_texts(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text(
        'sent1,sent2,ending0,ending1,label\nNone,,NA,"null, or 1",1\n1,de trop,é,,0\n',
        encoding="utf-8",
    )
    part = read_swag_csv(file, 2)
    assert questions(part) == [("None", ("NA", "null, or 1")), ("1 de trop", ("é", ""))]
    assert part.target.tolist() == [1, 0]


def test_the_start_phrase_stands_in_for_empty_sentences(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("startphrase,sent1,sent2,ending0,ending1,label\nDo it,,,a,b,0\n")
    assert questions(read_swag_csv(file, 2))[0].context == "Do it"


@pytest.mark.parametrize("task", ["goal", "step", "order"])
def test_benchmark_questions_come_without_their_sentence(tmp_path: Path, task: str) -> None:
    file = tmp_path / "task.json"
    write_benchmark(file, task, 50)
    part, notes = read_benchmark(file, 2 if task == "order" else 4, torch.Generator())
    assert notes == ()
    assert [question.context for question in questions(part)] == [
        f"{task} of benchmark {number}" for number in range(50)
    ]
    assert answers(part) == [f"benchmark {number}" for number in range(50)]


def test_benchmark_choices_are_shuffled(tmp_path: Path) -> None:
    file = tmp_path / "task.json"
    example = {"input": "Why?", "target_scores": {"a": 1, "b": 0, "c": 0, "d": 0}}
    file.write_text(json.dumps({"examples": [example] * 4000}))
    part, _ = read_benchmark(file, 4, torch.Generator().manual_seed(0))
    # 1,000 expected of each, with a standard deviation of 27.
    assert (torch.bincount(part.target) - 1000).abs().max() < 150
    assert set(answers(part)) == {"a"}
    assert {question.context for question in questions(part)} == {"Why?"}


def test_a_misspelt_copy_of_the_answer_is_no_choice(tmp_path: Path) -> None:
    file = tmp_path / "task.json"
    scores = {"Use Examplecom": 0, "b": 0, "c": 0, "d": 0, "Use Example.Com": 1}
    odd = {"input": "?", "target_scores": {"a": 1, "b": 1, "c": 0, "d": 0}}
    file.write_text(json.dumps({"examples": [{"input": "?", "target_scores": scores}, odd]}))
    part, notes = read_benchmark(file, 4, torch.Generator())
    assert sorted(questions(part)[0].choices) == ["Use Example.Com", "b", "c", "d"]
    assert answers(part) == ["Use Example.Com"]
    assert "1 questions of task.json" in notes[0]


def test_training_on_the_benchmark_never_shares_a_prompt_with_the_test(tmp_path: Path) -> None:
    write_wikihow(tmp_path, tasks=("goal",), train=0, test=0, benchmark=60)
    file = tmp_path / "wikihow" / "goal_inference.json"
    task = json.loads(file.read_text())
    task["examples"] *= 2  # every prompt twice
    file.write_text(json.dumps(task))
    data = load_wikihow(tmp_path, train_on_benchmark=True, test_share=0.25)
    assert len(data.test) == 30
    assert sum(len(part) for part in parts(data)) == 120
    train, validation, test = (contexts(part) for part in parts(data))
    assert train.isdisjoint(test)
    assert train.isdisjoint(validation)
    assert validation.isdisjoint(test)
    assert data.train_labels_are_clean
    assert "not comparable" in data.notes[-1]


def test_missing_training_questions_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no training questions .*goal.train\.csv") as nothing:
        load_wikihow(tmp_path)
    assert "train_on_benchmark" not in str(nothing.value)
    write_wikihow(tmp_path, train=0)
    with pytest.raises(DataError, match=r"set data\.train_on_benchmark=true"):
        load_wikihow(tmp_path)


def test_missing_test_questions_are_explained(tmp_path: Path) -> None:
    write_wikihow(tmp_path, tasks=("order",), test=0, benchmark=0)
    with pytest.raises(DataError, match=r"no test questions .*order.val\.csv.*step_ordering\.json"):
        load_wikihow(tmp_path, task="order")
    with pytest.raises(DataError, match=r"no benchmark questions .*step_ordering\.json"):
        load_wikihow(tmp_path, task="order", train_on_benchmark=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sent1,ending0,label\na,b,0\n", "no column ending1"),
        ("ending0,ending1,label\na,b,0\n", "no column sent1"),
        ("sent1,ending0,ending1,label\na,b,c,2\n", "label '2' in row 1; labels run from 0 to 1"),
        ("sent1,ending0,ending1,label\na,b,c,0\na,b,c,x\n", "label 'x' in row 2"),
        ("sent1,ending0,ending1,label\n", "holds no questions"),
        ("", "cannot read"),
        ('sent1,ending0,ending1,label\n"a,b,c,0\n', "cannot read"),
    ],
)
def test_broken_csv_files_are_explained(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "broken.csv"
    file.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_swag_csv(file, 2)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "[1, 2]", "{}", '{"examples": [{"input": "a"}]}'])
def test_broken_benchmark_files_are_explained(tmp_path: Path, content: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(content)
    with pytest.raises(DataError, match=r"cannot read .*broken\.json"):
        read_benchmark(file, 4, torch.Generator())


def test_shares_outside_their_range_are_refused(tmp_path: Path) -> None:
    write_wikihow(tmp_path, tasks=("goal",))
    with pytest.raises(DataError, match=r"not 1\.5"):
        load_wikihow(tmp_path, validation_share=1.5)


def test_a_large_file_is_held_as_arrays(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    write_swag_csv(file, "goal", 20_000)
    part = read_swag_csv(file, 4)
    inputs = part.select(torch.arange(0, 20_000, 2)).inputs
    assert isinstance(inputs.choices, np.ndarray)  # type: ignore[attr-defined]
    assert len(inputs) == 10_000
    assert inputs.rows(torch.tensor([9_999]))[0].context == "goal of train 19998"


@pytest.mark.skipif(
    not (REAL / "wikihow" / "step_ordering.json").exists(),
    reason="needs BIG-bench's WikiHow questions below DISCRIMLOSS_DATA",
)
@pytest.mark.parametrize(("task", "size"), [("goal", 1703), ("step", 2250), ("order", 3100)])
def test_the_real_benchmark_has_the_paper_s_sizes(task: str, size: int) -> None:
    data = load_wikihow(REAL, task=task, train_on_benchmark=True)  # type: ignore[arg-type]
    assert sum(len(part) for part in parts(data)) == size
    assert len(data.notes) == 1  # nothing was left out
    everything = [question for part in parts(data) for question in questions(part)]
    assert not any("reasonable" in question.context[:20] for question in everything)
    share = torch.bincount(data.train.target) / len(data.train)
    assert (share - 1 / len(share)).abs().max() < 0.05
