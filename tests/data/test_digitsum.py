"""Digit Sum: the sizes of the paper, right sums, and nothing seen twice."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from discrimloss.data import DataError, TaskData, TensorInputs, datasets
from discrimloss.data.digitsum import PADDING, even_lengths, load_digitsum


def sequences(data: TaskData, part: str) -> torch.Tensor:
    inputs = getattr(data, part).inputs
    assert isinstance(inputs, TensorInputs)
    return inputs.tensor


def test_the_sizes_are_those_of_the_paper() -> None:
    data = datasets.get("digitsum")(Path("nowhere"))
    assert (len(data.train), len(data.validation), len(data.test)) == (1000, 200, 200)
    assert data.is_regression
    assert data.train.target.dtype == torch.float32
    assert sequences(data, "train").dtype == torch.int64
    for part in ("validation", "test"):
        assert sequences(data, part).shape == (200, 20)
        assert not (sequences(data, part) == PADDING).any()


def test_targets_are_sums_counted_one_by_one() -> None:
    data = load_digitsum(Path("nowhere"), train_size=60)
    for part in ("train", "validation", "test"):
        target = getattr(data, part).target
        for row, total in zip(sequences(data, part).tolist(), target.tolist(), strict=True):
            assert total == sum(digit for digit in row if digit != PADDING)


def test_training_lengths_are_even_sorted_and_kept_as_difficulty() -> None:
    data = load_digitsum(Path("nowhere"))
    train = sequences(data, "train")
    assert data.difficulty is not None
    assert torch.equal((train != PADDING).sum(dim=1), data.difficulty)
    assert torch.equal(data.difficulty, data.difficulty.sort().values)
    counts = torch.bincount(data.difficulty)
    assert counts[:2].sum() == 0
    assert len(counts) == 21
    assert {52, 53} == set(counts[2:].tolist())
    # Padding is on the right only: symbols never follow it.
    is_padding = train == PADDING
    assert not (is_padding[:, :-1] & ~is_padding[:, 1:]).any()


def test_no_sequence_occurs_twice() -> None:
    data = load_digitsum(Path("nowhere"), train_size=150, max_length=3, test_size=300)
    rows = [
        tuple(row)
        for part in ("train", "validation", "test")
        for row in sequences(data, part).tolist()
    ]
    assert len(set(rows)) == 150 + 200 + 300


def test_all_digits_are_as_frequent() -> None:
    counts = torch.bincount(sequences(load_digitsum(Path("nowhere")), "test").flatten())
    # 400 expected of each, with a standard deviation of 19.
    assert (counts - 400).abs().max() < 100


def test_the_seed_decides() -> None:
    once, again, other = (load_digitsum(Path("nowhere"), split_seed=seed) for seed in (1, 1, 2))
    assert torch.equal(sequences(once, "train"), sequences(again, "train"))
    assert torch.equal(once.test.target, again.test.target)
    assert not torch.equal(sequences(once, "train"), sequences(other, "train"))


@given(st.integers(1, 500), st.integers(1, 30), st.integers(0, 30))
def test_lengths_differ_by_one_in_number(count: int, shortest: int, more: int) -> None:
    lengths = even_lengths(count, shortest, shortest + more)
    counts = torch.bincount(lengths, minlength=shortest + more + 1)[shortest:]
    assert len(lengths) == count
    assert len(counts) == more + 1
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_size": 4000}, "only 100 sequences of length 2, 211 were requested"),
        ({"min_length": 5, "max_length": 4}, "min_length <= max_length, not 5 and 4"),
        ({"train_size": 0}, "at least one training"),
    ],
)
def test_what_cannot_be_generated_is_said(options: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_digitsum(Path("nowhere"), **options)


def test_so_many_samples_for_each_length() -> None:
    data = load_digitsum(Path(), per_length=1000)
    assert len(data.train) == 18_100  # as in the authors' released files
    assert data.difficulty is not None
    counts = torch.bincount(data.difficulty)[2:].tolist()
    assert counts == [100] + [1000] * 18
    sequences = data.train.inputs.rows(torch.arange(18_100))
    assert len(torch.unique(sequences, dim=0)) == 18_100
    assert torch.equal(data.difficulty, (sequences != PADDING).sum(1))
    assert data.test is not None
    assert len(data.test) == 200


def test_per_length_must_be_above_zero() -> None:
    with pytest.raises(DataError, match="per_length of at least 1, not 0"):
        load_digitsum(Path(), per_length=0)
