"""Validation without clean labels: which samples, with which labels, and who gets to see them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

from discrimloss.auditing.report.sample_views import training_views
from discrimloss.data.digits import load_digits
from discrimloss.files.checksums import CHECKSUMS
from discrimloss.options import OptionError
from discrimloss.recipes import load_recipe
from discrimloss.training.config import RunConfig
from discrimloss.training.labels import split_rows
from discrimloss.training.run import Prepared, RunRequest, prepare_run, run_training
from discrimloss.training.run_directory import RunDirectory

SMALL = ("train_size=200", "epochs=2", "tensorboard=false", "threads=1", "seed=3")


def digits_config(*settings: str) -> RunConfig:
    return load_recipe("digits", [*SMALL, *settings])


def prepared(*settings: str) -> Prepared:
    return prepare_run(digits_config(*settings), Path())


def rows_of(part: Tensor, whole: Tensor) -> list[int]:
    """Where in `whole` the rows of `part` are."""
    return [int((whole == row).all(1).nonzero()[0]) for row in part]


def test_the_split_is_all_samples_once_and_follows_from_the_seed() -> None:
    learned, held = split_rows(200, 0.25, seed=1)
    assert len(held) == 50
    assert torch.equal(torch.cat([learned, held]).sort().values, torch.arange(200))
    assert torch.equal(split_rows(200, 0.25, seed=1)[1], held)
    assert not torch.equal(split_rows(200, 0.25, seed=2)[1], held)


def test_what_is_held_out_keeps_the_labels_it_would_have_been_trained_on() -> None:
    whole, split = prepared(), prepared("noisy_validation=0.25")
    validation = split.splits.validation
    assert validation is not None
    learned, held = split_rows(200, 0.25, seed=3)
    assert torch.equal(validation.target, whole.labels.target[held])
    assert torch.equal(split.splits.train.target, whole.labels.target[learned])
    assert torch.equal(split.labels.clean_target, whole.labels.clean_target[learned])
    assert 0.2 < float(whole.labels.is_wrong[held].double().mean()) < 0.6  # 0.4 of all
    inputs = whole.splits.train.inputs.rows(torch.arange(200))
    seen = split.splits.train.inputs.rows(torch.arange(150))
    unseen = validation.inputs.rows(torch.arange(50))
    assert rows_of(seen, inputs) == learned.tolist()
    assert rows_of(unseen, inputs) == held.tolist()


def test_the_method_knows_nothing_of_what_is_held_out() -> None:
    split = prepared("noisy_validation=0.25")
    learned, _ = split_rows(200, 0.25, seed=3)
    assert split.method.setting.num_samples == 150
    assert torch.equal(split.method.setting.target, prepared().labels.target[learned])


def test_difficulty_and_place_go_with_the_samples() -> None:
    task = load_digits(Path())
    task = replace(task, difficulty=torch.arange(len(task.train)).float())
    config = digits_config("noisy_validation=0.25")
    split = prepare_run(config, Path(), task=task)
    chosen = split.task.chosen
    assert chosen is not None
    assert split.method.setting.difficulty is not None
    assert split.method.setting.difficulty.tolist() == chosen.tolist()
    inputs = load_digits(Path()).train.inputs
    everyone = torch.arange(150)
    assert torch.equal(split.splits.train.inputs.rows(everyone), inputs.rows(chosen))


def test_it_takes_the_place_of_the_dataset_s_own_validation_part() -> None:
    task = load_digits(Path())
    assert task.test is not None
    task = replace(task, validation=task.test)
    assert prepare_run(digits_config(), Path(), task=task).splits.validation is task.test
    split = prepare_run(digits_config("noisy_validation=0.25"), Path(), task=task)
    assert split.splits.validation is not None
    assert len(split.splits.validation) == 50


@pytest.mark.parametrize(
    ("fraction", "what"), [(0.001, "validate on"), (0.999, "train on")], ids=["none", "all"]
)
def test_a_fraction_that_leaves_one_split_empty(fraction: float, what: str) -> None:
    with pytest.raises(OptionError, match=f"leaves nothing to {what}: choose another fraction"):
        prepared(f"noisy_validation={fraction}")


@pytest.mark.usefixtures("quick_verdicts")
def test_what_a_run_tells_of_it(tmp_path: Path) -> None:
    config = digits_config("noisy_validation=0.25")
    summary = run_training(RunRequest(config, Path(), tmp_path / "run"))
    lines = (tmp_path / "run" / "history.jsonl").read_text("utf-8").splitlines()
    last = json.loads(lines[-1])["validation_accuracy"]
    assert summary["validation"] == {"last": last, "source": "noisy_validation"}
    frame = pd.read_parquet(tmp_path / "run" / "verdicts.parquet")
    labels = prepare_run(config, Path()).labels
    assert frame["target"].tolist() == labels.target.tolist()
    assert frame["clean_target"].tolist() == labels.clean_target.tolist()
    assert summary["noise_true"] == pytest.approx(labels.rate)
    # A report finds the samples that the verdicts are about.
    view = training_views(RunDirectory(tmp_path / "run").config(), Path(), 150)
    assert view(0) == training_views(config.as_dict(), Path(), 150)(0)
    whole = training_views(digits_config().as_dict(), Path(), 200)
    first = int(split_rows(200, 0.25, seed=3)[0][40])
    assert repr(view(40)) == repr(whole(first))
    # It goes on only with the same share.
    resumed = run_training(RunRequest(config, Path(), tmp_path / "run", resume=True))
    assert resumed["validation"] == summary["validation"]
    other = RunRequest(digits_config("noisy_validation=0.5"), Path(), tmp_path / "run", resume=True)
    with pytest.raises(OptionError, match=r"noisy_validation was 0\.25, now 0\.5"):
        run_training(other)


@pytest.mark.usefixtures("quick_verdicts")
def test_a_run_from_before_there_was_such_a_key_goes_on(tmp_path: Path) -> None:
    summary = run_training(RunRequest(digits_config(), Path(), tmp_path / "run"))
    config = tmp_path / "run" / "config.toml"
    lines = config.read_text("utf-8").splitlines(keepends=True)
    older = [line for line in lines if not line.startswith("noisy_validation")]
    assert len(older) == len(lines) - 1
    config.write_text("".join(older), encoding="utf-8")
    (tmp_path / "run" / CHECKSUMS).unlink()  # nor were there checksums
    resumed = run_training(RunRequest(digits_config(), Path(), tmp_path / "run", resume=True))
    assert resumed["test"] == summary["test"]
