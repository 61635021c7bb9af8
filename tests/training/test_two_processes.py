"""The loop in two processes: they stop together, go on together, and judge by the same network.

That every method does in two processes what it does in one is in `methods/test_contract.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from run_comparison import history_of
from safetensors.torch import load_file
from torchrun import GLOO
from two_processes import run_in_two_processes

pytestmark = pytest.mark.skipif(not GLOO, reason="torch has no gloo here")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes made: a directory per run, a file per run and process."""
    directory = tmp_path_factory.mktemp("two")
    run_in_two_processes("the_loop", directory)
    return directory


@pytest.mark.parametrize("name", ["whole", "resumed"])
def test_the_processes_end_alike(name: str, runs: Path) -> None:
    first, second = (torch.load(runs / f"{name}-{rank}.pt") for rank in range(2))
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert torch.equal(second[key], value), key
    visits = [value for key, value in first.items() if key.endswith("table.visits")]
    assert visits[0].unique().tolist() == [4]  # every sample, by whichever process


def test_all_stop_when_one_is_asked_to_and_go_on_together(runs: Path) -> None:
    for rank in range(2):
        assert (runs / f"stopped-{rank}").read_text() == "in epoch 2, after step 2"
    whole, resumed = (torch.load(runs / f"{name}-1.pt") for name in ("whole", "resumed"))
    for key, value in whole.items():
        assert torch.equal(resumed[key], value), key
    for row, expected in zip(history_of(runs / "resumed"), history_of(runs / "whole"), strict=True):
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
