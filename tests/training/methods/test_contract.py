"""Every registered method holds to the contract, in stopped runs and in two processes too.

Its line about clean digits is in `test_clean_digits.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from method_contract import MethodContract
from run_comparison import assert_same_run, history_of
from run_host import RunHost
from safetensors.torch import load_file
from torch import Tensor
from torchrun import GLOO
from two_processes import PREDICTIONS, SETTINGS, run_in_two_processes

from discrimloss.recipes import load_recipe
from discrimloss.state.table import HELD_OUT
from discrimloss.training.methods.base import methods
from discrimloss.training.run import RunRequest, run_training


@pytest.fixture(scope="module")
def runs_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("two")
    run_in_two_processes("every_method", directory)
    return directory


@pytest.mark.parametrize("name", methods.names())
class TestContract(MethodContract):
    def test_a_stopped_run_goes_on_as_if_nothing_had_been(
        self, name: str, run_host: RunHost, tmp_path: Path
    ) -> None:
        method = f"method={name}"
        assert run_host.run(tmp_path / "whole", method)["ended"] == "finished"
        stopped = run_host.run(tmp_path / "cut", method, signals=["SIGINT"], epoch=2, step=3)
        assert stopped["ended"] == "error"
        assert run_host.run(tmp_path / "cut", method, resume=True)["began"] == [2, 4]
        assert_same_run(tmp_path / "cut", tmp_path / "whole")

    @pytest.mark.skipif(not GLOO, reason="torch has no gloo here")
    def test_two_processes_do_what_one_does(
        self, name: str, runs_of_two: Path, tmp_path: Path
    ) -> None:
        assert_two_do_what_one_does(name, [f"method={name}"], runs_of_two, tmp_path)


@pytest.mark.skipif(not GLOO, reason="torch has no gloo here")
def test_two_processes_hold_out_the_samples_that_one_holds_out(
    runs_of_two: Path, tmp_path: Path
) -> None:
    state = assert_two_do_what_one_does("predictions", PREDICTIONS, runs_of_two, tmp_path)
    assert (state["loss.criterion.table.role"] == HELD_OUT).any()


def assert_two_do_what_one_does(
    name: str, settings: Sequence[str], runs_of_two: Path, tmp_path: Path
) -> dict[str, Tensor]:
    first, second = (torch.load(runs_of_two / f"{name}-{rank}.pt") for rank in range(2))
    assert first.keys() == second.keys()
    torch.testing.assert_close(second, first, rtol=0, atol=0, equal_nan=True)

    config = load_recipe("digits", [*SETTINGS, *settings])
    summary = run_training(RunRequest(config, Path(), tmp_path / "one"))
    alone = load_file(tmp_path / "one" / "checkpoint" / "model.safetensors")
    # A loss in two bytes may be rounded up or down.
    losses = {key: first.pop(key) for key in list(first) if key.endswith("latest_loss")}
    losses_alone = {key: alone.pop(key) for key in losses}
    torch.testing.assert_close(losses, losses_alone, rtol=1e-2, atol=1e-5, equal_nan=True)
    torch.testing.assert_close(first, alone, rtol=1e-3, atol=1e-5, equal_nan=True)

    two = json.loads((runs_of_two / name / "summary.json").read_text())
    assert (summary["processes"], two["processes"]) == (1, 2)
    assert two["test"]["last"] == pytest.approx(summary["test"]["last"], abs=0.5)
    assert two["noise_true"] == summary["noise_true"]
    rows = zip(history_of(runs_of_two / name), history_of(tmp_path / "one"), strict=True)
    for row, expected in rows:
        for column in ("epoch", "train_loss", "learning_rate"):
            assert float(row[column]) == pytest.approx(float(expected[column]), rel=1e-4)
        accuracy = float(expected["train_accuracy"])
        assert float(row["train_accuracy"]) == pytest.approx(accuracy, abs=0.5)
    return alone


PAPERS = [
    "baby_steps",
    "backward",
    "cdr",
    "co_teaching",
    "co_teaching_plus",
    "curriculum_loss",
    "data_parameters",
    "discrimloss",
    "elr",
    "forward",
    "gce",
    "jocor",
    "mentornet",
    "plain",
    "sln",
    "superloss",
    "superloss_discrimloss",
]


def test_the_methods_of_the_papers_are_found_and_every_method_is_documented() -> None:
    assert set(PAPERS) <= set(methods.names())
    page = (Path(__file__).parents[3] / "docs" / "methods.md").read_text(encoding="utf-8")
    for name in methods.names():
        assert f"\n| `{name}` | {methods.summary(name).rstrip('.')} |" in page
