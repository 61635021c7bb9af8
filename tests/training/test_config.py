"""The settings of a run: defaults, sentences for what is wrong, and the way there and back."""

from pathlib import Path
from typing import Any

import pytest
import tomlkit

from discrimloss.data.base import datasets
from discrimloss.models.base import models
from discrimloss.options import OptionError
from discrimloss.recipes.settings import merge
from discrimloss.training.config import (
    NoiseConfig,
    RunConfig,
    read_config,
    require_sections,
    valid_keys,
)
from discrimloss.training.methods.base import methods
from discrimloss.training.run_directory import RunDirectory

SMALLEST: dict[str, Any] = {
    "method": "discrimloss",
    "options": {},
    "hyperparameters": "default",
    "loss": "cross_entropy",
    "seed": 1,
    "epochs": 2,
    "batch_size": 8,
    "data": {"name": "digits"},
    "model": {"name": "mlp"},
    "noise": {},
    "optimizer": {},
    "schedule": {},
}


def config_with(**changes: Any) -> RunConfig:
    table: dict[str, Any] = {}
    merge(table, SMALLEST)
    merge(table, changes)
    return read_config(table, recipe="mine")


def refused(**changes: Any) -> str:
    with pytest.raises(OptionError) as error:
        config_with(**changes)
    sentence = str(error.value)
    assert "\n" not in sentence
    return sentence


def test_the_smallest_recipe_gets_every_default() -> None:
    config = config_with()
    assert config.recipe == "mine"
    assert config.data.options == {"split_seed": 0}
    assert config.model.options == {"hidden": 256, "dropout": 0.0}
    assert config.noise == NoiseConfig("none", 0.0)
    assert config.train_size is None
    assert config.options == {}


def test_the_table_is_not_changed() -> None:
    table: dict[str, Any] = {}
    merge(table, SMALLEST)
    read_config(table, recipe="mine")
    assert table == SMALLEST


@pytest.mark.parametrize("key", sorted(SMALLEST))
def test_each_key_of_the_smallest_recipe_is_needed(key: str) -> None:
    table = {name: value for name, value in SMALLEST.items() if name != key}
    with pytest.raises(OptionError, match=f"^a recipe needs {key}, "):
        read_config(table, recipe="mine")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        # Types.
        ({"epochs": "ten"}, "epochs must be a whole number, not 'ten'"),
        ({"epochs": 1.5}, "epochs must be a whole number, not 1.5"),
        ({"seed": True}, "seed must be a whole number, not True"),
        ({"tensorboard": 1}, "tensorboard must be true or false, not 1"),
        ({"train_size": "all"}, "train_size must be a whole number or 'none', not 'all'"),
        ({"method": 3}, "method must be a text, not 3"),
        ({"noise": {"rate": "low"}}, "noise.rate must be a number, not 'low'"),
        ({"noise": {"mapping": 3}}, "noise.mapping must be a table or 'none', not 3"),
        (
            {"schedule": {"milestones": 5}},
            "schedule.milestones must be a list, each a whole number, not 5",
        ),
        ({"loss": "mae"}, "loss must be one of 'cross_entropy', 'mse', 'smooth_l1', not 'mae'"),
        ({"data": {"split_seed": "x"}}, "data.split_seed must be a whole number, not 'x'"),
        ({"model": {"hidden": 0.5}}, "model.hidden must be a whole number, not 0.5"),
        ({"options": {"variant": "new"}}, "options.variant must be one of 'paper', 'released'"),
        ({"options": {"weight_range": [1]}}, "options.weight_range must be a list of 2"),
        # Ranges.
        ({"epochs": 0}, "epochs must be 1 or more, not 0"),
        ({"batch_size": -1}, "batch_size must be 1 or more, not -1"),
        ({"eval_batch_size": 0}, "eval_batch_size must be 1 or more, not 0"),
        ({"train_size": 0}, "train_size must be 1 or more, not 0"),
        (
            {"noisy_validation": 1.0},
            "noisy_validation must be a fraction from 0 to below 1, not 1.0",
        ),
        ({"steps_per_epoch": 0}, "steps_per_epoch must be 1 or more, not 0"),
        ({"threads": -1}, "threads must be 0 or more, not -1"),
        ({"workers": -1}, "workers must be 0 or more, not -1"),
        (
            {"checkpoint_seconds": float("nan")},
            "checkpoint_seconds must be 0 or more, not nan",
        ),
        ({"seed": -1}, "seed must be a number from 0 to 4294967295, not -1"),
        ({"seed": 2**32}, "seed must be a number from 0 to 4294967295, not 4294967296"),
        ({"noise": {"rate": 40}}, "noise.rate must be a fraction from 0 to 1, not 40.0"),
        ({"noise": {"rate": float("nan")}}, "noise.rate must be a fraction from 0 to 1, not nan"),
        ({"optimizer": {"learning_rate": -1}}, "optimizer.learning_rate must be 0 or more"),
        ({"optimizer": {"momentum": float("inf")}}, "optimizer.momentum must be 0 or more"),
        ({"optimizer": {"clip_norm": 0}}, "optimizer.clip_norm must be above 0, not 0.0"),
        (
            {"optimizer": {"clip_norm": float("nan")}},
            "optimizer.clip_norm must be above 0, not nan",
        ),
        ({"schedule": {"factor": -1}}, "schedule.factor must be 0 or more, not -1.0"),
        ({"schedule": {"warmup_epochs": float("nan")}}, "schedule.warmup_epochs must be 0 or"),
        ({"schedule": {"milestones": [0]}}, "schedule.milestones must be 1 or more, not 0"),
        (
            {"noise": {"kind": "asymmetric", "mapping": {"cat": 1}}},
            "noise.mapping must have numbers of classes, e.g. {1 = 7}, not cat = 1",
        ),
        (
            {"noise": {"kind": "asymmetric", "mapping": {"1": "dog"}}},
            "noise.mapping must have numbers of classes, e.g. {1 = 7}, not 1 = 'dog'",
        ),
        # What does not go together.
        ({"noise": {"rate": 0.4}}, "noise.rate is above 0 but noise.kind is 'none': choose a kind"),
        ({"noise": {"kind": "human"}}, "noise.kind = 'human' needs noise.labels"),
        ({"schedule": {"kind": "step"}}, "schedule.kind = 'step' needs schedule.milestones"),
        (
            {"optimizer": {"nesterov": True, "momentum": 0}},
            "optimizer.nesterov needs optimizer.momentum above 0",
        ),
        # Names.
        ({"method": "plan"}, "unknown method 'plan': did you mean 'plain'? Valid are "),
        ({"data": {"name": "mnst"}}, "data.name: unknown dataset 'mnst': did you mean 'mnist'?"),
        ({"model": {"name": "lent"}}, "model.name: unknown model 'lent': did you mean 'lenet'?"),
        ({"model": {"name": 3}}, "[model] needs model.name: valid are "),
        ({"data": {"name": None}}, "[data] needs data.name: valid are "),
    ],
)
def test_wrong_values_are_told_in_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert refused(**changes).startswith(sentence)


@pytest.mark.parametrize(
    ("changes", "key", "valid"),
    [
        ({"epoch": 3}, "epoch", valid_keys()),
        ({"noise": {"level": 3}}, "noise.level", ["noise.kind", "noise.rate"]),
        ({"optimizer": {"lr": 3}}, "optimizer.lr", ["optimizer.learning_rate"]),
        ({"schedule": {"x": 3}}, "schedule.x", ["schedule.kind", "schedule.milestones"]),
        (
            {"options": {"x": 3}},
            "options.x",
            [f"options.{name}" for name in methods.options("discrimloss")],
        ),
        ({"data": {"x": 3}}, "data.x", [f"data.{name}" for name in datasets.options("digits")]),
        ({"model": {"x": 3}}, "model.x", [f"model.{name}" for name in models.options("mlp")]),
    ],
)
def test_an_unknown_key_lists_the_valid_ones(
    changes: dict[str, Any], key: str, valid: list[str]
) -> None:
    sentence = refused(**changes)
    assert sentence.startswith(f"unknown key {key}")
    listed = sentence.rpartition("alid are ")[2].split(", ")
    assert set(valid) <= set(listed)


def test_a_key_without_its_table_is_recognised() -> None:
    assert "did you mean 'optimizer.learning_rate'?" in refused(learning_rate=0.1)
    assert "did you mean 'noise.rate'?" in refused(rate=0.1)
    assert "did you mean 'epochs'?" in refused(epoch=3)


@pytest.mark.parametrize("name", ["data", "model", "options", "noise", "optimizer", "schedule"])
def test_a_value_in_the_place_of_a_table(name: str) -> None:
    with pytest.raises(OptionError) as error:
        require_sections({**SMALLEST, name: "word"})
    assert str(error.value).startswith(f"{name} is a table, which cannot be 'word': set ")
    assert f"{name}." in str(error.value)
    require_sections(SMALLEST)


def test_a_config_comes_back_from_its_table() -> None:
    config = config_with(
        noise={"kind": "asymmetric", "rate": 0.3, "mapping": {"1": 2}},
        options={"threshold": 0.5, "weight_range": [1, 20]},
        schedule={"kind": "step", "milestones": [1, 2]},
        train_size="none",
        checkpoint_seconds=float("inf"),
        model={"name": "wide_resnet", "depth": 10},
    )
    assert config.train_size is None
    assert read_config(config.as_dict(), recipe="another name") == config


def test_a_config_comes_back_from_its_file(tmp_path: Path) -> None:
    config = config_with(
        noise={"kind": "human", "labels": 'it\'s a "strange" \\ näme'},
        options={"threshold": "ema", "switch_gain": 1, "weight_range": [1e-7, 20]},
        schedule={"kind": "step", "milestones": [1, 2], "factor": 1e-30},
        steps_per_epoch=3,
    )
    directory = RunDirectory(tmp_path)
    directory.write_config(config.as_dict())
    assert read_config(directory.config(), recipe="x") == config
    # Nothing that a person could not read back.
    assert tomlkit.parse((tmp_path / "config.toml").read_text("utf-8"))["seed"] == 1
