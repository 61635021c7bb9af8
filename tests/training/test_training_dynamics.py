"""AUM and data maps against values worked out by hand, and in a run."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

from discrimloss.judging.verdicts import Verdicts
from discrimloss.recipes import load_recipe
from discrimloss.training.methods.base import StepResult
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.training_dynamics import TrainingDynamics


def step(logits: list[list[float]]) -> StepResult:
    output = torch.tensor(logits)
    return StepResult(torch.zeros(()), torch.zeros(len(output)), output)


def by_name(dynamics: TrainingDynamics) -> dict[str, Tensor]:
    dynamics.share()
    return dynamics.scores()


def test_the_scores_by_hand() -> None:
    dynamics = TrainingDynamics(torch.tensor([0, 1, 0]))
    log_3 = math.log(3.0)
    # Sample 0, label 0: probabilities 3/4 and 1/4 with margins log 3 and -log 3.
    # Sample 1, label 1: 1/4 twice, margin -log 3. Sample 2 is in no batch.
    dynamics.record_step(1, torch.tensor([1, 0]), step([[log_3, 0.0], [log_3, 0.0]]))
    dynamics.record_step(2, torch.tensor([0, 1]), step([[0.0, log_3], [log_3, 0.0]]))
    scores = by_name(dynamics)
    nan = math.nan
    expected = {
        "aum": [0.0, -log_3, nan],
        "confidence": [0.5, 0.25, nan],
        "variability": [0.25, 0.0, nan],
        "correctness": [0.5, 0.0, nan],
    }
    for name, values in expected.items():
        found = pytest.approx(values, abs=1e-4, nan_ok=True)
        assert scores[name].tolist() == found, name


def test_a_loaded_state_goes_on() -> None:
    whole, stopped, resumed = (TrainingDynamics(torch.tensor([0, 1])) for _ in range(3))
    batches = [step([[1.0, 2.0], [0.5, 0.0]]), step([[3.0, 0.0], [0.0, 4.0]])]
    for each in (whole, stopped):
        each.record_step(1, torch.tensor([0, 1]), batches[0])
    stopped.share()
    resumed.load_state_dict(stopped.state_dict())
    for each in (whole, resumed):
        each.record_step(2, torch.tensor([0, 1]), batches[1])
    for name, values in by_name(whole).items():
        assert torch.equal(by_name(resumed)[name], values)


@pytest.mark.parametrize("method", ["plain", "co_teaching"])
def test_every_run_has_them(method: str, tmp_path: Path) -> None:
    settings = [f"method={method}", "train_size=300", "epochs=6", "threads=1", "tensorboard=false"]
    config = load_recipe("digits", [*settings, "noise.kind=symmetric", "noise.rate=0.3"])
    summary = run_training(RunRequest(config, Path(), tmp_path / "run"))
    assert summary["aum_auroc"] > 0.8
    assert summary["confidence_auroc"] > 0.8
    file = tmp_path / "run" / "verdicts.parquet"
    frame = pd.read_parquet(file)
    assert frame["confidence"].between(0, 1).all()
    assert frame["correctness"].between(0, 1).all()
    assert len(Verdicts.from_parquet(file)) == 300
