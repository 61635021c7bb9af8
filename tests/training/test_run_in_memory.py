"""A run without a directory ends as one with a directory, and writes nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from lively_task import lively_config

from discrimloss.judging.verdicts import Verdicts
from discrimloss.training.methods.base import Method
from discrimloss.training.run import RunRequest, train_run
from discrimloss.training.run_directory import VERDICTS
from discrimloss.training.sample_traces import read_traces, stack_traces

pytestmark = pytest.mark.usefixtures("lively", "quick_verdicts")


def test_nothing_is_written_and_all_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = lively_config("epochs=2")
    kept = train_run(RunRequest(config, Path(), tmp_path / "run"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "empty"))
    run = train_run(RunRequest(config, Path(), None))
    assert list((tmp_path / "empty").iterdir()) == []
    assert {**run.summary, "seconds": 0} == {**kept.summary, "seconds": 0}
    assert [row["train_loss"] for row in run.history] == [r["train_loss"] for r in kept.history]
    assert run.traces is not None
    in_memory, on_disk = stack_traces(run.traces.epochs.items()), read_traces(tmp_path / "run")
    assert in_memory is not None
    assert on_disk is not None
    for name in ("epochs", "loss", "weight", "predicted"):
        np.testing.assert_array_equal(getattr(in_memory, name), getattr(on_disk, name))


def test_a_finished_run_is_judged_again_from_its_checkpoint(tmp_path: Path) -> None:
    def judge(method: Method) -> Verdicts:
        verdicts = method.verdicts()
        assert verdicts is not None
        return verdicts

    class Trained:
        steps = 0

        def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
            self.steps += 1

        def on_epoch(self, row: dict[str, float]) -> None:
            pass

    config, counter = lively_config("epochs=2"), Trained()
    first = train_run(RunRequest(config, Path(), tmp_path / "run"), counter, judge=judge)
    assert not (tmp_path / "run" / VERDICTS).exists()  # left to who judges
    steps = counter.steps
    again = train_run(
        RunRequest(config, Path(), tmp_path / "run", resume=True), counter, judge=judge
    )
    assert counter.steps == steps > 0
    assert first.verdicts is not None
    assert again.verdicts is not None
    np.testing.assert_array_equal(again.verdicts.p_incorrect, first.verdicts.p_incorrect)
    assert {**again.summary, "seconds": 0} == {**first.summary, "seconds": 0}
