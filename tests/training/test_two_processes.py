"""Two processes train as one does, on the same batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from discrimloss.recipes import load_recipe
from discrimloss.training.run import RunRequest, run_training
from run_comparison import history_of

PROGRAM = Path(__file__).with_name("in_two_processes.py")
TESTS = PROGRAM.parent.parent
SETTINGS = ("epochs=2", "train_size=256", "batch_size=64", "tensorboard=false")

pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="torch has no gloo here"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes made: a directory per run, a file per run and process."""
    directory = tmp_path_factory.mktemp("two")
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = subprocess.run(
        [sys.executable, *launcher, str(PROGRAM), str(directory)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return directory


@pytest.mark.parametrize("name", ["plain", "discrimloss", "resumed"])
def test_the_processes_end_alike(name: str, runs: Path) -> None:
    first, second = (torch.load(runs / f"{name}-{rank}.pt") for rank in range(2))
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert torch.equal(second[key], value), key
    visits = [value for key, value in first.items() if key.endswith("table.visits")]
    assert visits[0].unique().tolist() == [2]  # every sample, by whichever process


@pytest.mark.parametrize("method", ["plain", "discrimloss"])
@pytest.mark.usefixtures("quick_verdicts")
def test_two_do_what_one_does(method: str, runs: Path, tmp_path: Path) -> None:
    config = load_recipe("digits", [*SETTINGS, f"method={method}"])
    summary = run_training(RunRequest(config, Path(), tmp_path / "one"))
    alone = load_file(tmp_path / "one" / "checkpoint" / "model.safetensors")
    together = torch.load(runs / f"{method}-0.pt")
    torch.testing.assert_close(together, alone, rtol=1e-3, atol=1e-5)

    two = json.loads((runs / method / "summary.json").read_text())
    assert (summary["processes"], two["processes"]) == (1, 2)
    assert two["test"]["last"] == pytest.approx(summary["test"]["last"], abs=0.5)
    assert two["noise_true"] == summary["noise_true"]
    for row, expected in zip(history_of(runs / method), history_of(tmp_path / "one"), strict=True):
        for name in ("epoch", "train_loss", "learning_rate"):
            assert float(row[name]) == pytest.approx(float(expected[name]), rel=1e-4), name
        assert float(row["train_accuracy"]) == pytest.approx(
            float(expected["train_accuracy"]), abs=0.5
        )


def test_all_stop_when_one_is_asked_to_and_go_on_together(runs: Path) -> None:
    for rank in range(2):
        assert (runs / f"stopped-{rank}").read_text() == "in epoch 2, after step 2"
    whole, resumed = (torch.load(runs / f"{name}-1.pt") for name in ("discrimloss", "resumed"))
    for key, value in whole.items():
        assert torch.equal(resumed[key], value), key
    for row, expected in zip(
        history_of(runs / "resumed"), history_of(runs / "discrimloss"), strict=True
    ):
        assert float(row["train_loss"]) == pytest.approx(float(expected["train_loss"]))
        assert row["test_accuracy"] == expected["test_accuracy"]


def test_the_figures_are_those_of_the_saved_network(runs: Path) -> None:
    # Each process has running means of its own; the first one's are saved, and must be judged by.
    ends = [torch.load(runs / f"batch_norm-{rank}.pt") for rank in range(2)]
    saved = load_file(runs / "batch_norm" / "checkpoint" / "model.safetensors")
    means = [key for key in saved if key.endswith("running_mean")]
    assert means
    for key in means:
        for end in ends:
            assert torch.equal(end[key], saved[key]), key


def test_a_batch_too_small_to_share_is_refused(runs: Path) -> None:
    for rank in range(2):
        assert (
            "less than one sample for each of the 2 processes"
            in (runs / f"refused-{rank}").read_text()
        )
    assert not (runs / "too-small").exists()
