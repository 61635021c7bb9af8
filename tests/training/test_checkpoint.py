"""A checkpoint is complete or not there; what cannot be read or written is told in a sentence."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lively_task import lively_config
from run_comparison import assert_same_run, place_of
from run_host import RunHost

from discrimloss.errors import DiscrimLossError
from discrimloss.training.checkpoint import (
    MANIFEST,
    find_checkpoint,
    read_progress,
)
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.run_directory import RunDirectory

FILES = (
    "model.safetensors",
    "optimizer.bin",
    "random_states_0.pkl",
    "custom_checkpoint_0.pkl",  # the traces of the epoch at work
    "custom_checkpoint_1.pkl",  # its training dynamics
    MANIFEST,
)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def one_bit_changed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def removed(path: Path) -> None:
    path.unlink()


@pytest.fixture
def unfinished(whole_runs: Any, tmp_path: Path) -> Path:
    """The directory of a run that lacks its summary."""
    shutil.copytree(whole_runs.with_settings(), tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    return tmp_path / "run"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [cut_short, emptied, one_bit_changed, removed])
def test_a_damaged_file_is_named(
    name: str, damage: Callable[[Path], None], unfinished: Path
) -> None:
    checkpoint = unfinished / "checkpoint"
    assert read_progress(checkpoint)["epoch"] == 4
    damage(checkpoint / name)
    with pytest.raises(DiscrimLossError) as error:
        read_progress(checkpoint)
    assert str(checkpoint / name) in str(error.value)
    assert "--overwrite" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content", ["[]", "3", '{"progress": {}}', '{"progress": {}, "files": []}', "{", "\0", "é"]
)
def test_a_manifest_of_another_shape(content: str, unfinished: Path) -> None:
    manifest = unfinished / "checkpoint" / MANIFEST
    manifest.write_text(content, encoding="latin-1")
    with pytest.raises(DiscrimLossError, match=MANIFEST):
        read_progress(manifest.parent)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_change_to_the_manifest_goes_unnoticed(unfinished: Path, data: st.DataObject) -> None:
    manifest = unfinished / "checkpoint" / MANIFEST
    original = manifest.read_bytes()
    progress = read_progress(manifest.parent)
    position = data.draw(st.integers(0, len(original) - 1))
    changed = bytearray(original)
    changed[position] = data.draw(st.integers(0, 255))
    manifest.write_bytes(changed)
    try:
        assert read_progress(manifest.parent) == progress  # a space for another
    except DiscrimLossError:
        assert changed != original
    finally:
        manifest.write_bytes(original)


@pytest.mark.usefixtures("lively")
def test_a_run_does_not_go_on_from_a_damaged_checkpoint(unfinished: Path) -> None:
    weights = unfinished / "checkpoint" / "model.safetensors"
    one_bit_changed(weights)
    before = weights.read_bytes()
    with pytest.raises(DiscrimLossError, match=r"model\.safetensors"):
        run_training(RunRequest(lively_config(), Path(), unfinished, resume=True))
    assert weights.read_bytes() == before
    assert not (unfinished / "summary.json").exists()


def test_of_two_that_change_places_the_complete_one_is_found(unfinished: Path) -> None:
    directory = RunDirectory(unfinished)
    current, old = unfinished / "checkpoint", unfinished / "checkpoint.old"
    current.replace(old)
    assert find_checkpoint(directory) == current
    assert read_progress(current)["epoch"] == 4
    shutil.copytree(current, old)
    assert find_checkpoint(directory) == current
    assert not old.exists()
    shutil.rmtree(current)
    (unfinished / "checkpoint.unfinished").mkdir()
    assert find_checkpoint(directory) is None


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("lacking", [name for name in FILES if name != MANIFEST])
def test_the_disk_is_full(lacking: str, run_host: RunHost, whole_runs: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_host.run(out, signals=["SIGINT"], epoch=2, step=3)
    assert place_of(out) == (2, 3)
    before = contents(out / "checkpoint")
    room = len(before[lacking]) - 100
    failed = run_host.run(out, resume=True, largest_file=room)
    assert failed["kind"] == "DiscrimLossError"
    assert str(out) in failed["message"]
    assert "make room" in failed["message"]
    assert "\n" not in failed["message"]
    assert contents(out / "checkpoint") == before
    assert run_host.run(out, resume=True)["ended"] == "finished"
    assert_same_run(out, whole_runs.with_settings())


def test_the_disk_is_full_before_the_first_checkpoint(
    run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    failed = run_host.run(out, largest_file=1500)
    assert failed["kind"] == "DiscrimLossError"
    assert not (out / "checkpoint").exists()
    assert run_host.run(out, resume=True)["ended"] == "finished"
    assert_same_run(out, whole_runs.with_settings())


@pytest.mark.usefixtures("lively", "quick_verdicts")
def test_something_is_in_the_way(unfinished: Path) -> None:
    obstacle = unfinished / "checkpoint.unfinished"

    class PutsItThere:
        def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
            obstacle.write_text("not a directory")

        def on_epoch(self, row: dict[str, Any]) -> None:
            raise AssertionError("no epoch can end")

    config = lively_config()
    with pytest.raises(DiscrimLossError, match="File exists"):
        run_training(RunRequest(config, Path(), unfinished, overwrite=True), PutsItThere())
    obstacle.unlink()
    run_training(RunRequest(config, Path(), unfinished, resume=True))
    assert place_of(unfinished) == (4, 0)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_directory_that_is_read_only(run_host: RunHost, whole_runs: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_host.run(out, signals=["SIGINT"], epoch=2, step=3)
    before = contents(out / "checkpoint")
    out.chmod(0o500)
    failed = run_host.run(out, resume=True)
    out.chmod(0o700)
    assert failed["kind"] == "DiscrimLossError"
    assert contents(out / "checkpoint") == before
    assert run_host.run(out, resume=True)["ended"] == "finished"
    assert_same_run(out, whole_runs.with_settings())


def test_the_manifest_names_every_file(unfinished: Path) -> None:
    checkpoint = unfinished / "checkpoint"
    manifest = json.loads((checkpoint / MANIFEST).read_text())
    assert sorted(manifest["files"]) == sorted(FILES[:-1])
    assert sorted(path.name for path in checkpoint.iterdir()) == sorted(FILES)
