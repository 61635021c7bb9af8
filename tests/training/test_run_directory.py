"""What a run leaves behind, and what it leaves alone."""

from __future__ import annotations

import csv
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lively_task import lively_config

from discrimloss import Verdicts
from discrimloss.errors import DiscrimLossError
from discrimloss.judging.frames import COLUMNS
from discrimloss.options import OptionError
from discrimloss.recipes import load_recipe
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.run_directory import RunDirectory

pytestmark = pytest.mark.usefixtures("lively")
DIGITS = 1348  # training samples


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def files_in(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


class Steps:
    """An observer that does something in a step."""

    def __init__(self, action: Any) -> None:
        self.action = action

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        self.action(epoch, step)

    def on_epoch(self, row: dict[str, Any]) -> None:
        pass


class Stopped(Exception):  # noqa: N818 - not an error
    pass


def stop(epoch: int, step: int) -> None:
    raise Stopped


def start(out: Path, *settings: str, **flags: Any) -> dict[str, Any]:
    return run_training(RunRequest(lively_config("epochs=1", *settings), Path(), out, **flags))


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    out = tmp_path / "unfinished"
    with pytest.raises(Stopped):
        run_training(RunRequest(lively_config("epochs=1"), Path(), out), Steps(stop))
    return out


@pytest.fixture
def finished(tmp_path: Path, quick_verdicts: None) -> Path:
    out = tmp_path / "finished"
    start(out)
    return out


def test_all_records_of_a_run(tmp_path: Path) -> None:
    out = tmp_path / "some" / "where"
    config = load_recipe("digits", ["epochs=2"])
    request = RunRequest(config, Path(), out, command="discrimloss train digits")
    returned = run_training(request)

    # Settings: all of them, and they make the same run again.
    assert load_recipe(str(out / "config.toml")) == config

    # Figures.
    text = (out / "summary.json").read_text()
    summary = json.loads(text, parse_constant=no_constant)
    assert summary == json.loads(json.dumps(returned))
    with (out / "history.csv").open(newline="") as file:
        history = list(csv.DictReader(file))
    curve = [float(row["test_accuracy"]) for row in history]
    assert summary["test"] == {
        "last": curve[-1],
        "best": max(curve),
        "best_epoch": 1 + curve.index(max(curve)),
    }
    assert 0.0 < summary["train_accuracy_noisy"] < 100.0
    assert summary["seconds"] > 0.0
    assert summary["noise_true"] == pytest.approx(0.4, abs=1e-3)
    for name in ("auroc", "average_precision"):
        assert 0.0 <= summary[name] <= 1.0, name
    for name in ("precision", "recall", "noise_estimated"):  # a short run may find nothing
        assert summary[name] is None or 0.0 <= summary[name] <= 1.0, name
    assert summary["seed"] == 1
    assert summary["command"] == "discrimloss train digits"
    assert {"discrimloss", "python", "torch", "accelerate"} <= summary["versions"].keys()
    assert sum(summary["verdicts"].values()) == DIGITS

    # History, as lines of JSON too.
    lines = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in lines] == [1, 2]
    assert [{k: str(v) for k, v in row.items()} for row in lines] == history
    assert {"train_loss", "train_accuracy", "test_accuracy", "learning_rate", "seconds"} <= set(
        lines[0]
    )

    frame = pd.read_parquet(out / "verdicts.parquet")
    dynamics = ["aum", "confidence", "variability", "correctness"]
    of_run = ["target", "clean_target", "method_score", *dynamics]
    assert frame.columns.tolist() == [*COLUMNS, *of_run]
    assert frame["given_label"].tolist() == [str(target) for target in frame["target"]]
    assert frame["suggested_label"].isna().all()
    verdicts = Verdicts.from_parquet(out / "verdicts.parquet")
    assert verdicts.counts == summary["verdicts"]
    assert verdicts.noise_rate == summary["noise_estimated"] == frame.attrs["noise_rate"]
    assert verdicts.given_label is not None
    assert verdicts.given_label.tolist() == frame["given_label"].tolist()
    np.testing.assert_array_equal(verdicts.score, frame["score"])
    assert (frame["target"] != frame["clean_target"]).mean() == pytest.approx(0.4, abs=1e-3)
    assert len(frame) == DIGITS
    assert len(list((out / "tensorboard").iterdir())) == 1


@pytest.mark.usefixtures("quick_verdicts")
def test_a_run_without_wrong_labels_has_no_recall(tmp_path: Path) -> None:
    start(tmp_path / "run", "noise.kind=none")
    text = (tmp_path / "run" / "summary.json").read_text()
    summary = json.loads(text, parse_constant=no_constant)
    assert summary["noise_true"] == 0.0
    assert summary["recall"] is None
    assert "auroc" not in summary


@pytest.mark.usefixtures("quick_verdicts")
def test_the_best_epoch_of_a_regression_has_the_least_error(tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = ("data.name=lively_numbers", "model.name=mlp", "loss=mse", "epochs=4")
    config = lively_config(*settings, "optimizer.learning_rate=0.02")
    summary = run_training(RunRequest(config, Path(), out))
    with (out / "history.csv").open(newline="") as file:
        curve = [float(row["test_mae"]) for row in csv.DictReader(file)]
    assert summary["test"]["best"] == min(curve) < max(curve)
    assert summary["test"]["best_epoch"] == 1 + curve.index(min(curve))
    assert summary["train_mae_noisy"] > 0.0
    verdicts = Verdicts.from_parquet(out / "verdicts.parquet")
    assert verdicts.given_label is not None
    assert verdicts.given_label.dtype == np.float64
    target = pd.read_parquet(out / "verdicts.parquet")["target"]
    np.testing.assert_array_equal(verdicts.given_label, target)


def test_a_finished_run_is_not_overwritten(finished: Path) -> None:
    before = files_in(finished)
    with pytest.raises(DiscrimLossError, match="holds a finished run: pass --overwrite"):
        start(finished)
    assert files_in(finished) == before
    # To resume it is to get its summary again.
    summary = start(finished, resume=True)
    assert summary == json.loads(before["summary.json"])
    assert files_in(finished) == before


def test_overwriting_leaves_nothing_of_the_run_before(finished: Path) -> None:
    (finished / "notes.txt").write_text("mine")
    summary = start(finished, "seed=2", "method=plain", "options.history=false", overwrite=True)
    assert (summary["method"], summary["seed"]) == ("plain", 2)
    assert not (finished / "verdicts.parquet").exists()
    assert load_recipe(str(finished / "config.toml")).seed == 2
    assert (finished / "notes.txt").read_text() == "mine"


def test_an_unfinished_run_is_resumed_or_overwritten_only_when_asked(
    unfinished: Path, quick_verdicts: None
) -> None:
    before = files_in(unfinished)
    with pytest.raises(DiscrimLossError, match=r"unfinished run: pass --resume .* or --overwrite"):
        start(unfinished)
    assert files_in(unfinished) == before
    start(unfinished, overwrite=True)
    assert (unfinished / "summary.json").exists()


@pytest.mark.parametrize("flags", [{}, {"resume": True}, {"overwrite": True}])
def test_files_of_others_are_left_alone(flags: dict[str, bool], tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DiscrimLossError, match="holds other files"):
        start(tmp_path, **flags)
    assert files_in(tmp_path) == {"thesis.tex": b"years of work"}


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    for out in (tmp_path / "run", tmp_path / "run" / "below"):
        with pytest.raises(DiscrimLossError, match="is not a directory"):
            start(out)


def test_resuming_with_other_settings_says_which(unfinished: Path) -> None:
    before = files_in(unfinished)
    with pytest.raises(OptionError, match=r"noise\.rate was 0\.4, now 0\.2") as error:
        start(unfinished, "noise.rate=0.2", "options.threshold=ema", resume=True)
    assert "options.threshold was None, now 'ema'" in str(error.value)
    assert files_in(unfinished) == before


def test_two_runs_at_once(tmp_path: Path) -> None:
    """The second comes while the first is at work, and is refused however it is meant."""
    out = tmp_path / "run"
    refusals = []

    def come_second(epoch: int, step: int) -> None:
        if step == 1:
            for flags in ({"resume": True}, {"overwrite": True}):
                with pytest.raises(DiscrimLossError, match="another run is using") as error:
                    start(out, **flags)
                refusals.append(error)
        raise Stopped

    with pytest.raises(Stopped):
        run_training(RunRequest(lively_config("epochs=1"), Path(), out), Steps(come_second))
    assert len(refusals) == 2
    with RunDirectory(out).locked():  # free again
        pass


def test_a_run_that_finished_meanwhile_is_not_overwritten(
    tmp_path: Path, quick_verdicts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two begin in an empty directory; one is done before the other has read its data."""
    out = tmp_path / "run"
    locked = RunDirectory.locked
    runs_inside = []

    def another_run_first(self: RunDirectory) -> Any:
        if not runs_inside:
            runs_inside.append(True)
            start(out, "seed=5")
        return locked(self)

    monkeypatch.setattr(RunDirectory, "locked", another_run_first)
    with pytest.raises(DiscrimLossError, match="holds a finished run"):
        start(out, "seed=6")
    assert json.loads((out / "summary.json").read_text())["seed"] == 5


def test_bad_settings_leave_no_directory(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="does not fit a classification"):
        start(tmp_path / "run", "loss=mse")
    with pytest.raises(OptionError, match="switch_rate must be"):
        start(tmp_path / "run", "options.switch_rate=-1.0")
    assert not (tmp_path / "run").exists()


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write("history.csv", "old")
    with pytest.raises(UnicodeEncodeError):
        directory.write("history.csv", "new \ud800")
    assert files_in(tmp_path) == {"history.csv": b"old"}


@pytest.mark.usefixtures("quick_verdicts")
def test_a_run_in_a_thread(tmp_path: Path) -> None:
    """Signals are for the main thread: a run elsewhere does without them."""
    thread = threading.Thread(target=start, args=(tmp_path / "run",))
    thread.start()
    thread.join()
    assert (tmp_path / "run" / "summary.json").exists()
