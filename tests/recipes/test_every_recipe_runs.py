"""Every recipe, built and run for a few steps, on tiny files in its publisher's layout.

A recipe keeps its code path (dataset, noise, model, method, optimizer, schedule); what is made
smaller depends on its dataset and its model, so that a new recipe needs nothing here.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tomlkit
import torch
from real_data import real_data
from tiny_data import (
    write_cifar10,
    write_cifar100,
    write_clothing1m,
    write_mnist,
    write_utkface,
)
from tiny_text_data import write_tiny_encoder, write_wikihow

from discrimloss.cli import main
from discrimloss.recipes import load_recipe, recipe_files
from discrimloss.training.config import RunConfig

SAMPLES, EPOCHS = 20, 2
SMALLER = (
    f"train_size={SAMPLES}",
    f"epochs={EPOCHS}",
    "steps_per_epoch=2",
    "batch_size=8",
    "eval_batch_size=500",
    "workers=0",
    "threads=1",
    "device=cpu",
)
WRITERS = {
    "mnist": write_mnist,
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "utkface": write_utkface,
    "clothing1m": write_clothing1m,
    "wikihow": write_wikihow,
}
SMALLER_DATA = {
    "utkface": ("data.size=32",),
    "clothing1m": ("data.resize=40", "data.crop=32"),
}
SMALLER_MODEL = {
    "wide_resnet": ("model.depth=10", "model.width=1"),
    "compact_resnet": (),
    "resnet": ("model.layers=18", "model.pretrained=none"),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(0)  # its weights are random: the same ones in every session
        return write_tiny_encoder(tmp_path_factory.mktemp("encoder"))


def smaller(config: RunConfig, encoder: Path) -> tuple[str, ...]:
    model = SMALLER_MODEL.get(config.model.name, ())
    if config.model.name == "text_choice":
        model = (f"model.pretrained={encoder}", "model.max_length=64")
    return (*SMALLER, *SMALLER_DATA.get(config.data.name, ()), *model)


def run_and_look(name: str, data: Path | None, out: Path, settings: tuple[str, ...]) -> None:
    config = load_recipe(name, settings)
    place = () if data is None else ("--data", str(data))
    assert main(("train", name, *settings, *place, "--out", str(out))) == 0
    assert main(("train", name, *settings, *place, "--out", str(out), "--resume")) == 0

    summary: dict[str, Any] = json.loads((out / "summary.json").read_text("utf-8"))
    metric = "accuracy" if config.loss == "cross_entropy" else "mae"
    assert summary["recipe"] == name
    assert summary["metric"] == metric
    assert set(summary["test"]) == {"last", "best", "best_epoch"}
    assert summary["test"]["best_epoch"] in range(1, EPOCHS + 1)
    assert {f"train_{metric}_noisy", "seconds", "seed", "versions", "command"} <= set(summary)
    assert summary["noise_estimated"] is None or 0.0 <= summary["noise_estimated"] <= 1.0
    if config.noise.kind == "symmetric":
        assert summary["noise_true"] == round(config.noise.rate * SAMPLES) / SAMPLES
        assert {"auroc", "average_precision", "precision", "recall"} <= set(summary)
    assert sum(summary["verdicts"].values()) == SAMPLES

    verdicts = pd.read_parquet(out / "verdicts.parquet")
    assert len(verdicts) == SAMPLES
    # Unless told, pandas reads one number in ten a bit wrong.
    history = pd.read_csv(out / "history.csv", float_precision="round_trip")
    assert history["epoch"].tolist() == [1, 2]
    assert history["train_loss"].notna().all()
    assert summary["test"]["last"] == history[f"test_{metric}"].iloc[-1]
    assert (out / "checkpoint").is_dir()
    saved = tomlkit.parse((out / "config.toml").read_text("utf-8")).unwrap()
    assert saved["data"]["name"] == config.data.name
    assert load_recipe(str(out / "config.toml")) == config


@pytest.mark.parametrize("name", sorted(recipe_files()))
def test_on_tiny_files(
    name: str,
    encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("DISCRIMLOSS_DATA", raising=False)
    config = load_recipe(name)
    data = None
    if config.data.name in WRITERS:
        data = WRITERS[config.data.name](tmp_path / "data")
    run_and_look(name, data, tmp_path / "out", smaller(config, encoder))
    assert capsys.readouterr().err == ""


# What must be below DISCRIMLOSS_DATA.
FILES = {
    "mnist": "mnist",
    "cifar10": "cifar-10-batches-bin",
    "cifar100": "cifar-100-binary",
    "utkface": "UTKFace",
    "clothing1m": "clothing1m",
    "wikihow": "wikihow",
}
QUICK = ("mnist",)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in sorted(recipe_files())
        if load_recipe(name).data.name in FILES
    ],
)
def test_on_real_data(
    name: str, encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_recipe(name)
    data = real_data(FILES[config.data.name])
    settings = smaller(config, encoder)
    if config.data.name == "wikihow" and not list((data / "wikihow").rglob("*.csv")):
        settings = (*settings, "data.train_on_benchmark=true")
    run_and_look(name, data, tmp_path / "out", settings)
    assert capsys.readouterr().err == ""
