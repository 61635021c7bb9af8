"""Which samples make up a batch, in which order, on which process."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from discrimloss.data.base import Split, TensorInputs
from discrimloss.training.batches import PassParts, epoch_batches, load_batches, own_slice

CPU = torch.device("cpu")


def shuffled(num_samples: int) -> Any:
    return lambda number: torch.randperm(
        num_samples, generator=torch.Generator().manual_seed(number)
    )


@given(st.integers(1, 70), st.integers(1, 20), st.integers(1, 5))
def test_an_epoch_visits_every_sample_once(num_samples: int, batch_size: int, epoch: int) -> None:
    order = shuffled(num_samples)
    batches = epoch_batches(order, epoch, batch_size, None)
    assert torch.equal(torch.cat(batches), order(epoch))
    sizes = [len(batch) for batch in batches]
    assert all(size == batch_size for size in sizes[:-1])
    if batch_size > 1 and num_samples > 1:
        assert 2 <= sizes[-1] <= batch_size + 1
    if batch_size == 1:
        assert sizes == [1] * num_samples


def test_a_lone_last_sample_joins_the_batch_before() -> None:
    assert [len(batch) for batch in epoch_batches(shuffled(9), 1, 4, None)] == [4, 5]
    assert [len(batch) for batch in epoch_batches(shuffled(10), 1, 4, None)] == [4, 4, 2]
    assert [len(batch) for batch in epoch_batches(shuffled(1), 1, 4, None)] == [1]


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 8), st.integers(1, 5))
def test_steps_walk_through_pass_after_pass_without_a_gap(
    num_samples: int, batch_size: int, steps: int, epochs: int
) -> None:
    order = shuffled(num_samples)
    walked = []
    for epoch in range(1, epochs + 1):
        batches = epoch_batches(order, epoch, batch_size, steps)
        assert [len(batch) for batch in batches] == [batch_size] * steps
        walked += batches
    passes = torch.cat(
        [order(1 + n) for n in range(epochs * steps * batch_size // num_samples + 1)]
    )
    assert torch.equal(torch.cat(walked), passes[: epochs * steps * batch_size])


@given(st.integers(2, 70), st.integers(2, 20), st.integers(1, 4))
def test_processes_share_a_batch_equally(num_samples: int, batch_size: int, count: int) -> None:
    batches = epoch_batches(shuffled(num_samples), 1, batch_size, None)
    shares = [own_slice(batches, rank, count) for rank in range(count)]
    assert len({len(share) for share in shares}) == 1  # or one would wait for the others for ever
    usable = [batch for batch in batches if len(batch) >= count]
    for number, batch in enumerate(usable):
        parts = [share[number] for share in shares]
        assert {len(part) for part in parts} == {len(batch) // count}
        together = torch.cat(parts)
        assert len(together.unique()) == len(together) > len(batch) - count
        assert torch.equal(together, batch[: len(together)])
    assert len(shares[0]) == len(usable)


def some_part(num_samples: int = 11) -> Split:
    features = torch.arange(3.0 * num_samples).view(num_samples, 3)
    return Split(TensorInputs(features), torch.arange(num_samples) % 4)


def test_rows_targets_and_indices_belong_together() -> None:
    part = some_part()
    wanted = epoch_batches(shuffled(11), 1, 4, None)
    loaded = list(load_batches(part, wanted, CPU))
    assert len(loaded) == len(wanted)
    for batch, index in zip(loaded, wanted, strict=True):
        assert torch.equal(batch.index, index)
        assert torch.equal(batch.inputs, part.inputs.rows(index))
        assert torch.equal(batch.target, part.target[index])


def test_loading_draws_nothing_from_the_global_generator() -> None:
    before = torch.get_rng_state()
    list(load_batches(some_part(), [torch.tensor([1, 2])], CPU))
    assert torch.equal(torch.get_rng_state(), before)


def words(rows: Tensor) -> dict[str, Tensor]:
    return {"tokens": rows.long(), "length": torch.full((len(rows),), 3)}


def test_a_tokenizer_makes_dicts() -> None:
    part = some_part()
    (batch,) = load_batches(part, [torch.tensor([4, 2])], CPU, words)
    assert batch.inputs.keys() == {"tokens", "length"}
    assert torch.equal(batch.inputs["tokens"], part.inputs.rows(torch.tensor([4, 2])).long())


@dataclass(frozen=True)
class SlowInputs:
    """Inputs that worker processes read: each says which one it was."""

    number: int
    in_memory: bool = False

    def __len__(self) -> int:
        return self.number

    def rows(self, index: Tensor) -> Tensor:
        worker = torch.utils.data.get_worker_info()
        who = -1 if worker is None else worker.id
        return torch.stack([index, torch.full_like(index, who)], dim=1)

    def select(self, index: Tensor) -> SlowInputs:
        raise NotImplementedError


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_workers_give_the_same_batches() -> None:
    part = Split(SlowInputs(20), torch.arange(20))
    wanted = epoch_batches(shuffled(20), 1, 3, None)
    before = torch.get_rng_state()
    alone = list(load_batches(part, wanted, CPU, workers=0))
    helped = list(load_batches(part, wanted, CPU, workers=2))
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(alone, helped, strict=True):
        assert torch.equal(one.index, other.index)
        assert torch.equal(one.target, other.target)
        assert torch.equal(one.inputs[:, 0], other.inputs[:, 0])
    assert {int(batch.inputs[0, 1]) for batch in alone} == {-1}
    assert {int(batch.inputs[0, 1]) for batch in helped} == {0, 1}


def test_what_is_in_memory_needs_no_workers() -> None:
    part = Split(SlowInputs(6, in_memory=True), torch.arange(6))
    (batch,) = load_batches(part, [torch.arange(6)], CPU, workers=2)
    assert batch.inputs[:, 1].tolist() == [-1] * 6


def test_an_epoch_ends_where_its_pass_ends() -> None:
    parts = PassParts(num_samples=10, batch_size=2, steps_per_epoch=2)
    order = shuffled(10)
    epochs = [parts.batches(order, epoch) for epoch in range(1, 7)]
    assert [len(batches) for batches in epochs] == [2, 2, 1, 2, 2, 1]
    for number, start in ((1, 0), (2, 3)):
        seen = torch.cat([torch.cat(batches) for batches in epochs[start : start + 3]])
        assert torch.equal(seen, order(number))


@pytest.mark.parametrize(("num_samples", "batch_size"), [(10, 2), (9, 4), (1, 4), (7, 1)])
def test_steps_of_short_epochs_count_like_others(num_samples: int, batch_size: int) -> None:
    parts = PassParts(num_samples, batch_size, steps_per_epoch=2)
    passed = []
    for epoch in range(1, 2 * parts.epochs_per_pass + 1):
        steps = len(parts.batches(shuffled(num_samples), epoch))
        assert steps > 0
        passed += [parts.passed(epoch, step) for step in range(steps)]
    assert len(passed) == 2 * parts.steps_per_pass
    gaps = [after - before for before, after in pairwise([*passed, 2 * parts.epochs_per_pass])]
    assert gaps == pytest.approx([parts.epochs_per_pass / parts.steps_per_pass] * len(gaps))
