"""The sample state in files: what comes back, and sentences about what cannot."""

import os
from pathlib import Path

import pytest
import torch
from state_comparison import assert_same_state
from state_of_0_1 import (
    NAMES_OF_0_1,
    OPTIONS_OF_0_1,
    assert_continues_as_0_1,
    saved_by_0_1,
)

from discrimloss import DiscrimLoss, SampleIds

pytest.importorskip("safetensors")
from safetensors.torch import save_file

from discrimloss.state.file import (
    SHARD_FILE,
    STATE_FILE,
    StateFileError,
    count_saved,
    load_state,
    save_state,
)


def trained(criterion: DiscrimLoss, epochs: int = 3) -> DiscrimLoss:
    for epoch in range(1, epochs + 1):
        criterion.set_epoch(epoch)
        criterion(torch.tensor([0.5, 2.0, 0.1]) / epoch, torch.tensor([0, 3, 4]))
    return criterion


@pytest.mark.parametrize("options", [{}, {"variant": "released"}, {"sharded": True}])
def test_what_was_written_comes_back(options: dict[str, object], tmp_path: Path) -> None:
    criterion = trained(DiscrimLoss(5, 6, **options))  # type: ignore[arg-type]
    save_state(criterion, tmp_path / "new" / "folder")
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == [STATE_FILE]
    resumed = DiscrimLoss(5, 6, **options)  # type: ignore[arg-type]
    load_state(resumed, tmp_path / "new" / "folder")
    assert_same_state(resumed, criterion)
    resumed.set_epoch(4)
    criterion.set_epoch(4)
    assert_same_state(resumed, criterion)


def test_names_travel_along(tmp_path: Path) -> None:
    criterion = DiscrimLoss(epochs=3, ids=SampleIds())
    criterion(torch.tensor([1.0, 2.0]), ["a", "b"])
    save_state(criterion, tmp_path)
    resumed = DiscrimLoss(epochs=3, ids=SampleIds(["c", "b"]))
    load_state(resumed, tmp_path)
    assert resumed.ids is not None
    assert resumed.ids.names() == ["a", "b", "c"]
    assert resumed.average_losses.tolist()[:2] == [1.0, 2.0]


def test_a_file_of_0_1_can_be_loaded(tmp_path: Path) -> None:
    save_file(saved_by_0_1() | NAMES_OF_0_1, tmp_path / STATE_FILE)
    criterion = DiscrimLoss(ids=SampleIds(), **OPTIONS_OF_0_1)
    load_state(criterion, tmp_path)
    assert_continues_as_0_1(criterion, ["c", "b"])


def test_an_older_state_is_replaced_whole(tmp_path: Path) -> None:
    save_state(DiscrimLoss(5, 6), tmp_path)
    criterion = trained(DiscrimLoss(5, 6))
    save_state(criterion, tmp_path)
    resumed = DiscrimLoss(5, 6)
    load_state(resumed, tmp_path)
    assert_same_state(resumed, criterion)
    assert len(list(tmp_path.iterdir())) == 1


def test_of_two_states_the_one_written_last_counts(tmp_path: Path) -> None:
    """Where a crash came between writing the new one and removing the old one."""
    criterion = trained(DiscrimLoss(5, 6))
    save_state(criterion, tmp_path)
    older = tmp_path / SHARD_FILE.format(number=1, count=2)
    older.write_bytes(b"")
    os.utime(older, (1, 1))
    resumed = DiscrimLoss(5, 6)
    load_state(resumed, tmp_path)
    assert_same_state(resumed, criterion)
    assert count_saved(tmp_path) == 5


def test_a_state_of_another_number_of_samples_is_refused(tmp_path: Path) -> None:
    save_state(DiscrimLoss(5, 6), tmp_path)
    criterion = DiscrimLoss(6, 6)
    with pytest.raises(ValueError, match=r"has 5 samples, but .* has 6: .*resize\(6\)"):
        load_state(criterion, tmp_path)
    assert_same_state(criterion, DiscrimLoss(6, 6))


@pytest.mark.parametrize("folder", ["empty", "missing"])
def test_a_folder_without_a_state(folder: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StateFileError, match=r"there is no sample state in .*start a new run"):
        load_state(DiscrimLoss(5, 6), tmp_path / folder)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    save_state(DiscrimLoss(5, 6), tmp_path)
    (tmp_path / STATE_FILE).rename(tmp_path / SHARD_FILE.format(number=2, count=3))
    with pytest.raises(StateFileError, match="incomplete: discrimloss-00001-of-00003"):
        load_state(DiscrimLoss(5, 6), tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    save_state(DiscrimLoss(5, 6), tmp_path)
    path = tmp_path / STATE_FILE
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StateFileError, match="cannot read the sample state in"):
        load_state(DiscrimLoss(5, 6), tmp_path)
