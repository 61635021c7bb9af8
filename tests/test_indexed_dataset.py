"""Batches that carry the index of each sample, whatever was done to the dataset before."""

import copy
import pickle
from collections import UserDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)

from discrimloss import DiscrimLoss, IndexedDataset


class Image(NamedTuple):
    pixels: float
    target: int


class Numbers(Dataset[tuple[float, int]]):
    """Sample i is (start + i, target), so that each sample tells where it comes from."""

    def __init__(self, size: int, start: int = 0) -> None:
        self.size, self.start = size, start

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, position: int) -> tuple[float, int]:
        if not -self.size <= position < self.size:
            raise IndexError(position)
        position = range(self.size)[position]
        return float(self.start + position), position % 3


class BatchedNumbers(Numbers):
    """Fetches whole batches, and only those."""

    def __getitem__(self, position: int) -> tuple[float, int]:
        raise AssertionError("one sample at a time")

    def __getitems__(self, positions: list[int]) -> list[tuple[float, int]]:
        return [(float(self.start + position), position % 3) for position in positions]


class FilteredNumbers:
    """As other libraries have it: no `Subset`, but `dataset` and `indices`."""

    def __init__(self, dataset: Numbers, indices: Any) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: int) -> tuple[float, int]:
        return self.dataset[int(self.indices[position])]


def values_and_indices(dataset: Any, **options: Any) -> list[tuple[float, int]]:
    """What a loader delivers: the value of each sample and its index."""
    batches = list(DataLoader(dataset, batch_size=4, **options))
    for *_, index in batches:
        assert index.dtype == torch.int64
        assert index.dim() == 1
    values = torch.cat([batch[0] for batch in batches]).tolist()
    return list(zip(values, torch.cat([batch[-1] for batch in batches]).tolist(), strict=True))


# Kinds of samples.


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ((0.5, 7), (0.5, 7, 1)),
        ([0.5, 7], (0.5, 7, 1)),
        (Image(0.5, 7), (0.5, 7, 1)),
        ((), (1,)),
        (0.5, (0.5, 1)),
        ("text", ("text", 1)),
        ({"pixels": 0.5, "target": 7}, {"pixels": 0.5, "target": 7, "index": 1}),
        (UserDict(pixels=0.5), {"pixels": 0.5, "index": 1}),
    ],
    ids=["tuple", "list", "namedtuple", "empty tuple", "number", "text", "dict", "mapping"],
)
def test_every_kind_of_sample_gets_an_index(sample: Any, expected: Any) -> None:
    before = copy.copy(sample)
    assert IndexedDataset(["another", sample])[1] == expected
    assert sample == before  # the original is left alone


def test_a_bare_tensor_becomes_a_pair() -> None:
    images = torch.rand(3, 2, 2)
    image, index = IndexedDataset(images)[2]
    assert torch.equal(image, images[2])
    assert index == 2


def test_batches_of_tensors() -> None:
    images, target = torch.rand(10, 2), torch.arange(10) % 3
    loader = DataLoader(IndexedDataset(TensorDataset(images, target)), batch_size=4)
    seen = []
    for x, y, index in loader:
        assert index.dtype == torch.int64
        assert torch.equal(x, images[index])
        assert torch.equal(y, target[index])
        seen += index.tolist()
    assert seen == list(range(10))


@pytest.mark.parametrize("mapping", [dict, UserDict])
def test_batches_of_mappings(mapping: Any) -> None:
    samples = [mapping(x=float(i), target=i % 3) for i in range(6)]
    batch = next(iter(DataLoader(IndexedDataset(samples), batch_size=4)))
    assert sorted(batch) == ["index", "target", "x"]
    assert batch["index"].tolist() == [0, 1, 2, 3]
    assert batch["index"].dtype == torch.int64


def test_the_key_can_be_chosen() -> None:
    assert IndexedDataset([{"index": 9}], key="row")[0] == {"index": 9, "row": 0}


def test_a_key_that_exists_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="already have a key 'index'"):
        IndexedDataset([{"index": 9}])[0]


# The loader.


def test_shuffled_batches_carry_the_right_indices() -> None:
    torch.manual_seed(0)
    pairs = values_and_indices(IndexedDataset(Numbers(11)), shuffle=True)
    indices = [index for _, index in pairs]
    assert indices != sorted(indices) == list(range(11))
    assert all(value == index for value, index in pairs)


@pytest.mark.parametrize("shuffle", [False, True])
def test_worker_processes(shuffle: bool) -> None:
    dataset = IndexedDataset(Subset(Numbers(20), range(5, 16)))
    pairs = values_and_indices(dataset, num_workers=2, shuffle=shuffle)
    assert sorted(pairs) == [(float(i), i) for i in range(5, 16)]


def test_a_dataset_that_fetches_batches_is_asked_for_batches() -> None:
    pairs = values_and_indices(IndexedDataset(BatchedNumbers(6)))
    assert pairs == [(float(i), i) for i in range(6)]
    pairs = values_and_indices(Subset(IndexedDataset(BatchedNumbers(6)), [5, 2]))
    assert pairs == [(5.0, 5), (2.0, 2)]
    pairs = values_and_indices(IndexedDataset(Subset(BatchedNumbers(6), [5, 2])))
    assert pairs == [(5.0, 5), (2.0, 2)]


def test_a_batch_of_the_wrong_length_is_an_error() -> None:
    class Forgetful(Numbers):
        def __getitems__(self, positions: list[int]) -> list[tuple[float, int]]:
            return [self[position] for position in positions[1:]]

    with pytest.raises(ValueError, match="longer"):
        IndexedDataset(Forgetful(6)).__getitems__([0, 1, 2])


# Where an index comes from. Values start at 0 in the first dataset and at 100 in the second.


@pytest.mark.parametrize(
    ("make_dataset", "expected", "num_samples"),
    [
        (lambda a, b: IndexedDataset(a), range(10), 10),
        (lambda a, b: IndexedDataset(Subset(a, [7, 2, 7])), [7, 2, 7], 10),
        (lambda a, b: Subset(IndexedDataset(a), [7, 2]), [7, 2], 10),
        (lambda a, b: IndexedDataset(Subset(a, [-1, 0])), [9, 0], 10),
        (lambda a, b: IndexedDataset(Subset(Subset(a, [8, 6, 4]), [2, 0])), [4, 8], 10),
        (lambda a, b: Subset(IndexedDataset(Subset(a, [8, 6, 4])), [2, 0]), [4, 8], 10),
        (lambda a, b: IndexedDataset(Subset(a, range(9, -1, -1))), range(9, -1, -1), 10),
        (lambda a, b: IndexedDataset(Subset(a, torch.tensor([3, 1]))), [3, 1], 10),
        (lambda a, b: IndexedDataset(Subset(a, np.array([3, 1]))), [3, 1], 10),
        (lambda a, b: IndexedDataset(FilteredNumbers(a, [3, 1])), [3, 1], 10),
        (lambda a, b: IndexedDataset(FilteredNumbers(a, np.array([3, 1]))), [3, 1], 10),
        (lambda a, b: IndexedDataset(ConcatDataset([a, b])), range(15), 15),
        (lambda a, b: IndexedDataset(Subset(ConcatDataset([a, b]), [12, 0])), [12, 0], 15),
        (lambda a, b: IndexedDataset(ConcatDataset([a, a])), [*range(10), *range(10)], 10),
        (
            lambda a, b: IndexedDataset(ConcatDataset([Subset(a, [1, 2]), Subset(a, [9])])),
            [1, 2, 9],
            10,
        ),
        (
            lambda a, b: IndexedDataset(ConcatDataset([Subset(a, [1]), b, Subset(a, [9])])),
            [1, 10, 11, 12, 13, 14, 9],
            15,
        ),
        (
            lambda a, b: IndexedDataset(ConcatDataset([Subset(b, [4]), ConcatDataset([b, a])])),
            [4, 0, 1, 2, 3, 4, *range(5, 15)],
            15,
        ),
        (lambda a, b: IndexedDataset(b, index=[4, 0, 70, 4, 1]), [4, 0, 70, 4, 1], 71),
        (lambda a, b: IndexedDataset(b, index=np.arange(5, dtype=np.uint8)), range(5), 5),
        (lambda a, b: Subset(IndexedDataset(b, index=[4, 0, 70, 4, 1]), [2, 3]), [70, 4], 71),
    ],
    ids=[
        "plain",
        "Subset",
        "Subset after wrapping",
        "Subset with a negative position",
        "nested Subset",
        "Subset before and after",
        "reversed",
        "Subset by a tensor",
        "Subset by an array",
        "duck-typed",
        "duck-typed, by an array",
        "ConcatDataset",
        "Subset of a ConcatDataset",
        "the same dataset twice",
        "two Subsets of one dataset",
        "two Subsets and another dataset between",
        "nested ConcatDataset",
        "explicit",
        "explicit, small integers",
        "Subset of explicit",
    ],
)
def test_the_index_is_the_position_in_the_original_data(
    make_dataset: Any, expected: Any, num_samples: int
) -> None:
    dataset = make_dataset(Numbers(10), Numbers(5, start=100))
    assert [index for *_, index in (dataset[i] for i in range(len(dataset)))] == list(expected)
    assert [index for _, index in values_and_indices(dataset)] == list(expected)
    wrapper = dataset if isinstance(dataset, IndexedDataset) else dataset.dataset
    assert wrapper.num_samples == num_samples
    assert len(wrapper) == len(wrapper.dataset)


def test_indices_name_one_value_each_across_a_concatenation() -> None:
    first, second = Numbers(10), Numbers(5, start=100)
    parts = [Subset(second, [3, 0]), first, Subset(second, [0, 1]), Subset(first, [9])]
    value_of: dict[int, float] = {}
    for value, index in values_and_indices(IndexedDataset(ConcatDataset(parts))):
        assert value_of.setdefault(index, value) == value
    assert len(set(value_of.values())) == len(value_of) == 13


@pytest.mark.parametrize("wrap_first", [True, False])
def test_random_split_keeps_the_original_indices(wrap_first: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    data: Any = IndexedDataset(Numbers(10)) if wrap_first else Numbers(10)
    parts: Any = random_split(data, [7, 3], generator)
    if not wrap_first:
        parts = [IndexedDataset(part) for part in parts]
        assert [part.num_samples for part in parts] == [10, 10]
    pairs = [values_and_indices(part) for part in parts]
    assert [len(part) for part in pairs] == [7, 3]
    assert sorted(pairs[0] + pairs[1]) == [(float(i), i) for i in range(10)]


def test_negative_positions() -> None:
    assert IndexedDataset(Numbers(10))[-1] == (9.0, 0, 9)
    assert IndexedDataset(Subset(Numbers(10), [3, 8]))[-2] == (3.0, 0, 3)
    assert IndexedDataset(Numbers(10)).__getitems__([-1, 0]) == [(9.0, 0, 9), (0.0, 0, 0)]


@pytest.mark.parametrize("position", [3, -4])
def test_a_position_outside_is_an_error(position: int) -> None:
    with pytest.raises(IndexError):
        IndexedDataset(Numbers(3))[position]


def test_a_loop_over_the_dataset_ends() -> None:
    assert list(IndexedDataset(Numbers(3))) == [(0.0, 0, 0), (1.0, 1, 1), (2.0, 2, 2)]


def test_positions_may_be_tensors_or_numpy_integers() -> None:
    dataset = IndexedDataset(Subset(Numbers(10), [3, 8]))
    for position in (torch.tensor(1), np.int64(1)):
        *_, index = dataset[position]  # type: ignore[call-overload]
        assert index == 8
        assert type(index) is int


def test_an_empty_dataset() -> None:
    for dataset in (IndexedDataset([]), IndexedDataset(Subset(Numbers(10), []))):
        assert len(dataset) == 0
        assert list(DataLoader(dataset)) == []


def test_copies_are_equal() -> None:
    dataset = IndexedDataset(Subset(TensorDataset(torch.arange(6.0)), [5, 1]), key="row")
    for copied in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert (len(copied), copied.num_samples, copied.key) == (2, 6, "row")
        assert values_and_indices(copied) == [(5.0, 5), (1.0, 1)]


# Mistakes.


@pytest.mark.parametrize(
    "wrap",
    [
        IndexedDataset,
        lambda wrapped: IndexedDataset(Subset(wrapped, [0])),
        lambda wrapped: IndexedDataset(ConcatDataset([wrapped, Numbers(2)])),
        lambda wrapped: IndexedDataset(wrapped, index=[0, 1, 2]),
    ],
    ids=["directly", "through a Subset", "through a ConcatDataset", "with an explicit index"],
)
def test_wrapping_twice_is_an_error(wrap: Any) -> None:
    wrapped = IndexedDataset(Numbers(3))
    with pytest.raises(ValueError, match="already wrapped in IndexedDataset"):
        wrap(wrapped)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class StreamWithEverything(Stream):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, position: int) -> int:
        return position


@pytest.mark.parametrize("stream", [Stream(), StreamWithEverything(), iter([1, 2]), {1, 2}])
def test_a_dataset_without_positions_is_an_error_that_names_it(stream: Any) -> None:
    with pytest.raises(TypeError, match=f"map-style dataset.*{type(stream).__name__}"):
        IndexedDataset(stream)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 1], r"index must be 3 integers.*shape \(2,\)"),
        ([0, 1, 2, 3], r"shape \(4,\)"),
        ([[0], [1], [2]], r"shape \(3, 1\)"),
        ([0.0, 1.0, 2.0], "float64"),
        ([True, False, True], "bool"),
        (["a", "b", "c"], "integers"),
        ([0, -5, 1], "not be negative, but holds -5"),
    ],
)
def test_a_wrong_explicit_index_is_an_error_that_says_why(index: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IndexedDataset(Numbers(3), index=index)


# Together with the loss.


def classification_data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 4, generator=generator)
    return x, (x[:, 0] > 0).long()


@pytest.mark.parametrize("wrap_first", [True, False])
def test_training_on_a_part_leaves_the_other_rows_unseen(wrap_first: bool) -> None:
    data, chosen = TensorDataset(*classification_data()), list(range(1, 50, 2))
    if wrap_first:
        wrapper = IndexedDataset(data)
        loader = DataLoader(Subset(wrapper, chosen), batch_size=8, shuffle=True)
    else:
        wrapper = IndexedDataset(Subset(data, chosen))
        loader = DataLoader(wrapper, batch_size=8, shuffle=True)

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    criterion = DiscrimLoss(wrapper.num_samples, epochs=3)
    for epoch in (1, 2, 3):
        criterion.set_epoch(epoch)
        for x, target, index in loader:
            losses = functional.cross_entropy(model(x), target, reduction="none")
            optimizer.zero_grad()
            criterion(losses, index).backward()
            optimizer.step()

    seen = np.flatnonzero(criterion.verdicts().label != "unseen")
    assert seen.tolist() == chosen
    assert criterion.state_dict()["table.visits"][chosen].tolist() == [3] * len(chosen)


def test_attributes_are_those_of_the_dataset() -> None:
    class Letters(list[str]):
        classes = ("vowel", "consonant")

    dataset = IndexedDataset(Letters("ab"))
    assert dataset.classes == ("vowel", "consonant")
    assert copy.deepcopy(dataset)[1] == ("b", 1)
    assert not hasattr(IndexedDataset(Subset(Letters("ab"), [1])), "indices")
    with pytest.raises(AttributeError, match="nothing"):
        _ = dataset.nothing
