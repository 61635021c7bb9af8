"""Names of samples: rows that stay, in whatever order data comes, through saving and growing."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from state_comparison import assert_same_state
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import discrimloss.state.sample_ids as sample_ids
from discrimloss import DiscrimLoss, IndexedDataset, SampleIds

names = st.one_of(st.text(max_size=8), st.integers(-(10**30), 10**30))


@given(st.lists(st.lists(names, max_size=12), max_size=8))
def test_rows_are_those_of_a_dict(batches: list[list[str | int]]) -> None:
    ids = SampleIds()
    expected: dict[tuple[type, str | int], int] = {}
    for batch in batches:
        rows = [expected.setdefault((type(name), name), len(expected)) for name in batch]
        assert ids.rows(batch).tolist() == rows
    assert ids.names() == [name for _, name in expected]
    assert len(ids) == len(expected)


@pytest.mark.parametrize("distinct_hashes", [1, 2, 7])
def test_names_with_the_same_hash_stay_apart(
    distinct_hashes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_ids, "_hash", lambda text: sum(text) % distinct_hashes)
    monkeypatch.setattr(sample_ids, "FEWEST_RECENT", 2)
    wanted = [f"name-{number}" for number in range(50)]
    ids = SampleIds(wanted)
    assert ids.rows(list(reversed(wanted))).tolist() == list(reversed(range(50)))
    assert ids.rows(["another", wanted[7]]).tolist() == [50, 7]
    copied = SampleIds()
    copied.load_state_dict(ids.state_dict())
    assert copied.rows([*wanted, "another"]).tolist() == list(range(51))


def test_many_names_are_found_again() -> None:
    """More than are kept in a dict, so that the sorted arrays are searched."""
    wanted = [f"{number:x}" for number in range(5000)]
    ids = SampleIds(wanted[:3000])
    assert ids.rows(wanted).tolist() == list(range(5000))
    assert ids.rows(wanted[::-7]).tolist() == list(range(5000))[::-7]
    assert len(ids._hashes) > 2000
    assert "3e8" in ids
    assert "nobody" not in ids
    assert 3.5 not in ids
    assert True not in SampleIds([1])
    assert np.int64(1) in SampleIds([1])


def test_numbers_and_texts_are_different_names() -> None:
    ids = SampleIds([7, "7", -7, "é", "", "\ud800"])
    assert ids.rows(["7", 7, -7, "", "é", "\ud800"]).tolist() == [1, 0, 2, 4, 3, 5]
    assert ids.names()[5] == "\ud800"
    assert ids.rows(torch.tensor([7, -7])).tolist() == [0, 2]
    assert ids.rows(np.array(["7"])).tolist() == [1]
    assert ids.rows(np.array([7], dtype=np.int32)).tolist() == [0]


def test_a_long_list_costs_little_more_than_its_text() -> None:
    """What is said in the docstring: about 20 bytes a name."""
    ids = SampleIds(f"{number:08d}" for number in range(20_000))
    ids._sort_in()
    arrays = ids._hashes.nbytes + ids._hash_rows.nbytes + ids._ends.itemsize * len(ids._ends)
    assert arrays == 20 * 20_000
    assert len(ids._text) == 9 * 20_000


@pytest.mark.parametrize("bad", [1.5, None, b"x", True, ("a",)])
def test_other_things_are_no_names(bad: object) -> None:
    with pytest.raises(TypeError, match="strings or whole numbers, not"):
        SampleIds().rows([bad])


@pytest.mark.parametrize("alone", ["abc", None, 7, torch.tensor(3)])
def test_one_alone_is_no_list_of_names(alone: object) -> None:
    with pytest.raises(TypeError, match="must be a list"):
        SampleIds().rows(alone)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'b' appears twice, the second time at position 2"):
        SampleIds(["a", "b", "b"])


def test_unknown_names_are_refused_where_nothing_may_grow() -> None:
    ids = SampleIds(["a"], grow=False)
    with pytest.raises(KeyError, match=r"'b' is not known.*grow=True"):
        ids.rows(["a", "b"])
    assert len(ids) == 1
    assert ids.rows(["a", "a"]).tolist() == [0, 0]


# With a criterion.


def trained(criterion: DiscrimLoss, first: int, last: int, names: list[str]) -> DiscrimLoss:
    for epoch in range(first, last + 1):
        criterion.set_epoch(epoch)
        for start in range(0, len(names), 4):
            batch = names[start : start + 4]
            losses = torch.tensor([len(name) + epoch / 7 for name in batch])
            criterion(losses, batch)
    return criterion


ANIMALS = ["ox", "cat", "horse", "elephant", "hippopotamus", "ant", "bee"]


def test_names_are_positions_by_another_name() -> None:
    by_name = trained(DiscrimLoss(epochs=4, ids=SampleIds(ANIMALS)), 1, 4, ANIMALS)
    by_position = DiscrimLoss(len(ANIMALS), epochs=4)
    for epoch in range(1, 5):
        by_position.set_epoch(epoch)
        for start in (0, 4):
            index = torch.arange(start, min(start + 4, len(ANIMALS)))
            losses = torch.tensor([len(ANIMALS[i]) + epoch / 7 for i in index])
            by_position(losses, index)
    state = by_name.state_dict()
    for name, value in by_position.state_dict().items():
        assert torch.equal(state[name], value), name
    verdicts = by_name.verdicts()
    assert verdicts.ids == ANIMALS


def test_the_table_grows_as_names_appear() -> None:
    growing = trained(DiscrimLoss(epochs=3, ids=SampleIds()), 1, 3, ANIMALS)
    known = trained(DiscrimLoss(epochs=3, ids=SampleIds(ANIMALS)), 1, 3, ANIMALS)
    assert_same_state(growing, known)
    assert growing.num_samples == len(growing.sample_weights) == len(ANIMALS)


def test_growing_one_by_one_moves_the_table_seldom() -> None:
    criterion = DiscrimLoss(epochs=2, ids=SampleIds())
    places = set()
    for number in range(2000):
        criterion(torch.tensor([1.0]), [number])
        places.add(criterion.table.history.data_ptr())
    assert len(places) < 40
    assert criterion.table.history.shape == (2000,)
    # Saved states hold the samples, not the room for more.
    assert criterion.state_dict()["table.history"].untyped_storage().nbytes() == 4 * 2000
    assert len(criterion.average_losses) == 2000


def test_names_added_beside_a_step_get_rows_too() -> None:
    criterion = trained(DiscrimLoss(epochs=4, ids=SampleIds()), 1, 2, ANIMALS)
    assert criterion.ids is not None
    criterion.ids.rows(["yak", "zebra"])
    verdicts = criterion.verdicts()
    assert len(verdicts) == len(criterion.ids) == len(ANIMALS) + 2
    assert verdicts.label[-2:].tolist() == ["unseen", "unseen"]
    criterion.ids.rows(["gnu"])
    assert len(criterion.sample_weights) == len(ANIMALS) + 3
    criterion.ids.rows(["emu"])
    assert len(criterion.state_dict()["table.history"]) == len(ANIMALS) + 4


def test_growing_goes_on_after_the_table_was_moved() -> None:
    moved, still = (DiscrimLoss(epochs=4, ids=SampleIds()) for _ in range(2))
    trained(moved, 1, 1, ANIMALS[:3])
    trained(still, 1, 1, ANIMALS[:3])
    moved._apply(torch.clone)  # as `.to(device)` does
    trained(moved, 2, 3, ANIMALS)
    trained(still, 2, 3, ANIMALS)
    assert_same_state(moved, still)


def test_filtered_shuffled_and_appended_data_keeps_its_history() -> None:
    before = trained(DiscrimLoss(epochs=6, ids=SampleIds()), 1, 3, ANIMALS)
    new_data = ["bee", "yak", "horse", "cat"]
    after = DiscrimLoss(epochs=6, ids=SampleIds(new_data))
    after.load_state_dict(before.state_dict())
    assert after.num_samples == len(ANIMALS) + 1
    frame = dict(zip(after.verdicts().ids or (), after.average_losses.tolist(), strict=True))
    old = dict(zip(ANIMALS, before.average_losses.tolist(), strict=True))
    assert {name: frame[name] for name in ANIMALS} == old
    assert np.isnan(frame["yak"])
    trained(after, 4, 4, new_data)
    visits = dict(zip(after.ids.names(), after.table.visits.tolist(), strict=True))  # type: ignore[union-attr]
    assert visits["bee"] == 4
    assert visits["yak"] == 1
    assert visits["ox"] == 3


@pytest.mark.parametrize("pickled", [False, True])
def test_a_state_comes_back_in_another_interpreter(pickled: bool, tmp_path: Path) -> None:
    """Python's hashes of texts differ from run to run."""
    names = [*ANIMALS, *(f"animal {number}" for number in range(2000))]
    criterion = trained(DiscrimLoss(epochs=3, ids=SampleIds()), 1, 1, names)
    torch.save(criterion if pickled else criterion.state_dict(), tmp_path / "state.pt")
    program = (
        "import sys, torch; from discrimloss import DiscrimLoss, SampleIds\n"
        "criterion = DiscrimLoss(epochs=3, ids=SampleIds())\n"
        "saved = torch.load(sys.argv[1], weights_only=False)\n"
        "criterion.load_state_dict(saved) if isinstance(saved, dict) else None\n"
        "criterion = criterion if isinstance(saved, dict) else saved\n"
        "print(criterion.ids.rows(['bee', 'ox', 'animal 7', 'new']).tolist())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "state.pt")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == "[6, 0, 14, 2007]"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_copies_go_on_alone(copied: object) -> None:
    criterion = trained(DiscrimLoss(epochs=6, ids=SampleIds()), 1, 2, ANIMALS)
    other = copied(criterion)  # type: ignore[operator]
    trained(other, 3, 3, ["yak", "ox"])
    assert criterion.num_samples == len(ANIMALS)
    assert other.num_samples == len(ANIMALS) + 1
    trained(criterion, 3, 3, ["yak", "ox"])
    assert_same_state(other, criterion)


def test_evaluation_needs_no_names_and_adds_none() -> None:
    criterion = DiscrimLoss(epochs=2, ids=SampleIds(grow=False)).eval()
    assert float(criterion(torch.tensor([1.0, 3.0]), ["who", "knows"])) == 2.0


def test_names_and_a_number_of_samples_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="not both"):
        DiscrimLoss(5, epochs=2, ids=SampleIds())
    with pytest.raises((TypeError, ValueError), match="num_samples"):
        DiscrimLoss(epochs=2)
    with pytest.raises(TypeError, match=r"must be a SampleIds, not list: pass SampleIds\(ids\)"):
        DiscrimLoss(epochs=2, ids=["a"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sharded must be True or False"):
        DiscrimLoss(3, epochs=2, sharded="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="grows by itself"):
        DiscrimLoss(epochs=2, ids=SampleIds()).resize(7)


def test_names_and_positions_do_not_mix() -> None:
    by_position, by_name = DiscrimLoss(3, epochs=2), DiscrimLoss(epochs=2, ids=SampleIds(["a"]))
    with pytest.raises(ValueError, match=r"without ids: .*num_samples=3"):
        by_name.load_state_dict(by_position.state_dict())
    assert by_name.num_samples == 1
    with pytest.raises(ValueError, match=r"with ids: .*ids=SampleIds\(\)"):
        by_position.load_state_dict(by_name.state_dict())


class Stream(IterableDataset[tuple[torch.Tensor, int, str]]):
    """Samples that pass by, with names and without positions."""

    def __iter__(self):  # type: ignore[no-untyped-def]
        generator = torch.Generator().manual_seed(0)
        for number in range(60):
            yield torch.randn(4, generator=generator), number % 3, f"s3://bucket/{number}.png"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_with_names(workers: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    criterion = DiscrimLoss(epochs=2, ids=SampleIds())
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        for x, y, name in DataLoader(Stream(), batch_size=8, num_workers=workers):
            criterion(cross_entropy(model(x), y, reduction="none"), name).backward()
    assert criterion.num_samples == 60  # each worker sees the whole stream, under the same names
    assert int(criterion.table.visits.min()) >= 2
    assert set(criterion.ids.names()) == {f"s3://bucket/{n}.png" for n in range(60)}  # type: ignore[union-attr]


# Datasets that carry names.


def test_an_indexed_dataset_carries_names() -> None:
    data = TensorDataset(torch.arange(3), torch.tensor([0, 1, 0]))
    named = IndexedDataset(data, ids=["a", "b", "c"])
    assert named[1][2] == "b"
    assert named[-1][2] == "c"
    (_, _, batch), *_ = DataLoader(named, batch_size=3)
    assert list(batch) == ["a", "b", "c"]
    assert IndexedDataset([{"x": 1}], ids=[4])[0] == {"x": 1, "index": 4}


def test_a_column_gives_its_names_in_order() -> None:
    """Whatever index the frame has, which filtering and sorting leave in disorder."""
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(["a", "b", "c"]).iloc[[2, 0, 1]]
    named = IndexedDataset([2.0, 0.0, 1.0], ids=column)
    assert [named[i] for i in range(3)] == [(2.0, "c"), (0.0, "a"), (1.0, "b")]
    assert IndexedDataset([5], ids=np.array([4]))[0] == (5, 4)


def test_names_of_a_dataset_are_checked() -> None:
    with pytest.warns(UserWarning, match=r"1 different ids for 2 items: .* one sample"):
        IndexedDataset([1, 2], ids=["a", "a"])
    with pytest.raises(ValueError, match="2 ids for 3 items"):
        IndexedDataset([1, 2, 3], ids=["a", "b"])
    with pytest.raises(ValueError, match="not both"):
        IndexedDataset([1], ids=["a"], index=[0])
