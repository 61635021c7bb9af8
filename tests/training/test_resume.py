"""A run that is stopped at any moment and resumed ends, to the last bit, as one that was not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from lively_task import STEPS
from run_comparison import assert_same_run, history_of, place_of
from run_host import MOMENTS, RunHost
from safetensors.torch import load_file

METHODS = ("method=discrimloss", "method=plain")
EVERY_STEP = "checkpoint_seconds=0"
LAST = 3  # epoch


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("epoch", "step"),
    [(1, 2), (2, 3), (2, STEPS), (LAST, STEPS)],
    ids=["no checkpoint yet", "inside an epoch", "last step of an epoch", "last step"],
)
def test_killed(
    method: str, epoch: int, step: int, run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    stopped = run_host.run(out, method, signals=["SIGKILL"], epoch=epoch, step=step)
    assert stopped == {"ended": "killed", "signal": "SIGKILL"}
    assert not (out / "summary.json").exists()
    assert (out / "checkpoint").exists() == (epoch > 1)
    assert run_host.run(out, method, resume=True)["ended"] == "finished"
    assert_same_run(out, whole_runs.with_settings(method))


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(("epoch", "step"), [(1, 2), (2, 3), (2, STEPS)])
def test_told_to_stop(
    name: str, epoch: int, step: int, run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    stopped = run_host.run(out, METHODS[0], signals=[name], epoch=epoch, step=step)
    assert stopped["kind"] == "Interrupted"
    # Nothing of what was done is lost: the checkpoint stands where the signal came.
    assert place_of(out) == ((epoch, step) if step < STEPS else (epoch + 1, 0))
    where = f"in epoch {epoch}, after step {step}" if step < STEPS else f"after epoch {epoch}"
    assert stopped["message"] == where
    resumed = run_host.run(out, METHODS[0], resume=True)
    assert resumed["began"] == ([epoch, step + 1] if step < STEPS else [epoch + 1, 1])
    assert_same_run(out, whole_runs.with_settings(METHODS[0]))


def test_told_to_stop_in_the_last_step_it_ends_as_usual(
    run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    ended = run_host.run(out, METHODS[0], signals=["SIGINT"], epoch=LAST, step=STEPS)
    assert ended["ended"] == "finished"
    assert_same_run(out, whole_runs.with_settings(METHODS[0]))


@pytest.mark.parametrize("method", METHODS)
def test_killed_again_and_again(
    method: str, run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    """A checkpoint after every step; the run dies inside, at the end and at the start of epochs."""
    out = tmp_path / "run"
    deaths = [("SIGKILL", 1, 3), ("SIGKILL", 1, 5), ("SIGTERM", 2, 1), ("SIGKILL", 3, 4)]
    for name, epoch, step in deaths:
        run_host.run(
            out, method, EVERY_STEP, signals=[name], epoch=epoch, step=step, resume=out.exists()
        )
        # The observer is told of a step before the step is saved.
        assert place_of(out) == (epoch, step - (name == "SIGKILL"))
    assert run_host.run(out, method, EVERY_STEP, resume=True)["ended"] == "finished"
    # How often a run was saved changes nothing, either.
    whole = whole_runs.with_settings(method)
    assert_same_run(out, whole)


@pytest.mark.parametrize(
    "settings",
    [
        ("steps_per_epoch=7",),  # an epoch ends inside a pass over the data
        ("optimizer.kind=adamw", "optimizer.learning_rate=0.01", "optimizer.clip_norm=0.5"),
        ("options.variant=released",),
        ("options.threshold=ema", "schedule.kind=linear", "schedule.warmup_epochs=1.5"),
        ("data.name=lively_numbers", "model.name=mlp", "loss=smooth_l1"),
    ],
    ids=["steps_per_epoch", "adamw", "released", "warmup", "regression"],
)
def test_other_settings(
    settings: tuple[str, ...], run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    for epoch, step, name in ((1, 4, "SIGINT"), (2, 3, "SIGINT"), (3, 2, "SIGKILL")):
        run_host.run(out, *settings, signals=[name], epoch=epoch, step=step, resume=out.exists())
        assert not (out / "summary.json").exists()
    assert place_of(out) == (3, 0)
    assert run_host.run(out, *settings, resume=True)["ended"] == "finished"
    assert_same_run(out, whole_runs.with_settings(*settings))


# Where a run goes on that was killed with its second checkpoint, of epoch 2, at work.
WRITING = {
    "half_way_through_a_file": [2, 1],
    "before_the_manifest": [2, 1],
    "after_the_manifest": [2, 1],
    "between_two_renames": [2, 1],
    "before_the_old_checkpoint_goes": None,  # the second that goes does so when all is done
    "between_checkpoint_and_history": [3, 1],
}


@pytest.mark.parametrize("moment", WRITING)
def test_killed_while_a_checkpoint_is_written(
    moment: str, run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    stopped = run_host.run(out, moment=moment, occurrence=2)
    assert stopped["ended"] == "killed"
    resumed = run_host.run(out, resume=True)
    assert resumed["ended"] == "finished"
    assert resumed["began"] == WRITING[moment]  # a start from nothing would end alike
    assert_same_run(out, whole_runs.with_settings())


@pytest.mark.parametrize("moment", ["half_way_through_a_file", "between_two_renames"])
def test_killed_while_the_first_checkpoint_is_written(
    moment: str, run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert run_host.run(out, moment=moment)["ended"] == "killed"
    assert not (out / "checkpoint").exists()
    assert run_host.run(out, resume=True)["ended"] == "finished"
    assert_same_run(out, whole_runs.with_settings())


@pytest.mark.parametrize(
    ("moment", "occurrence"),
    [("between_checkpoint_and_history", LAST), ("before_the_verdicts", 1)],
)
def test_killed_when_all_epochs_are_done(
    moment: str, occurrence: int, run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert run_host.run(out, moment=moment, occurrence=occurrence)["ended"] == "killed"
    assert place_of(out) == (LAST + 1, 0)
    assert run_host.run(out, resume=True)["ended"] == "finished"
    assert len(history_of(out)) == LAST
    assert_same_run(out, whole_runs.with_settings())


def test_a_second_request_while_a_checkpoint_is_written_is_no_disk_error(
    run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    stopped = run_host.run(out, moment="second_request_while_saving", occurrence=2)
    assert (stopped["kind"], stopped["message"]) == ("Interrupted", "at once")
    assert place_of(out) == (2, 0)  # of the checkpoint before
    assert run_host.run(out, resume=True)["ended"] == "finished"
    assert_same_run(out, whole_runs.with_settings())


def test_a_run_that_is_killed_while_it_removes_an_earlier_one(
    run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    whole = whole_runs.with_settings()
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    died = run_host.run(out, overwrite=True, moment="while_an_earlier_run_is_removed")
    assert died["ended"] == "killed"
    assert not (out / "summary.json").exists()
    assert run_host.run(out, overwrite=True)["ended"] == "finished"
    assert_same_run(out, whole)


def test_with_the_real_verdicts(run_host: RunHost, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "run"
    assert run_host.run(whole, real_verdicts=True)["ended"] == "finished"
    run_host.run(out, signals=["SIGINT"], epoch=2, step=2)
    assert run_host.run(out, resume=True, real_verdicts=True)["ended"] == "finished"
    assert_same_run(out, whole)


def test_resuming_what_never_began_begins_it(
    run_host: RunHost, whole_runs: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert run_host.run(out, resume=True)["ended"] == "finished"
    assert_same_run(out, whole_runs.with_settings())


def test_the_runs_under_comparison_are_lively_ones(whole_runs: Any) -> None:
    """Else equal results would prove little."""
    assert set(WRITING) <= set(MOMENTS)
    run = whole_runs.with_settings(METHODS[0])
    state = load_file(run / "checkpoint" / "model.safetensors")
    weights = state["loss.criterion.table.log_weight"]
    assert weights.max() > weights.min()
    assert state["loss.criterion.table.learned_early"].unique().tolist() == [0, 1]
    plain = load_file(whole_runs.with_settings(METHODS[1]) / "checkpoint" / "model.safetensors")
    name = "networks.0.network.0.weight"
    assert not torch.equal(state[name], plain[name])
    for change in ("seed=2", "noise.rate=0.2"):
        other = load_file(
            whole_runs.with_settings(METHODS[0], change) / "checkpoint" / "model.safetensors"
        )
        assert not torch.equal(state[name], other[name])
