"""What is kept of every sample and epoch: as little as promised, and the same after a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import snapshot
from lively_task import TRAIN, lively_config
from run_host import RunHost
from torch import nn

from discrimloss.training.methods.base import Batch, Method, Setting, StepResult
from discrimloss.training.run import RunRequest, run_training
from discrimloss.training.sample_traces import SampleTraces, read_traces
from discrimloss.training.task_losses import cross_entropy


class Scores(Method):
    """A method with an opinion on its samples."""

    def __init__(self, scores: torch.Tensor) -> None:
        target = torch.zeros(len(scores), dtype=torch.int64)
        super().__init__(Setting(nn.Identity, cross_entropy, len(scores), 3, 2, target))
        self.scores = scores

    def training_step(self, batch: Batch) -> StepResult:
        raise AssertionError("nothing is trained")

    def sample_scores(self) -> torch.Tensor:
        return self.scores


def step(losses: list[float], output: Any) -> StepResult:
    return StepResult(torch.tensor(0.0), torch.tensor(losses), torch.tensor(output))


def test_values_are_those_of_a_naive_record(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    number, classes = 50, 7
    scores = torch.rand(number, generator=generator) * 20
    traces, method = SampleTraces(number, classes, tmp_path), Scores(scores)
    expected = np.full((2, 2, number), np.nan, np.float32)
    for epoch in (1, 2):
        visited = torch.randperm(number, generator=generator)[: number - 5]
        for index in (*visited.split(8), visited[:3]):  # some twice: the last visit counts
            losses = torch.rand(len(index), generator=generator) * 9
            output = torch.randn(len(index), classes, generator=generator)
            traces.record_step(epoch, index, StepResult(torch.tensor(0.0), losses, output))
            for row, sample in enumerate(index.tolist()):
                expected[:, epoch - 1, sample] = losses[row], int(output[row].argmax())
        traces.end_epoch(epoch, method, is_main_process=True)
    kept = read_traces(tmp_path)
    assert kept is not None
    assert kept.weight is not None
    assert kept.epochs.tolist() == [1, 2]
    np.testing.assert_allclose(kept.loss, expected[0], rtol=2**-8)
    np.testing.assert_array_equal(kept.predicted, expected[1])
    np.testing.assert_allclose(kept.weight, np.stack([scores.numpy()] * 2), rtol=2**-8)
    chosen = np.array([4, 2])
    some = read_traces(tmp_path, chosen, last=1)
    assert some is not None
    assert some.epochs.tolist() == [2]
    np.testing.assert_array_equal(some.loss, kept.loss[1:, chosen])


def test_numbers_are_kept_as_numbers(tmp_path: Path) -> None:
    traces = SampleTraces(2, None, tmp_path)
    traces.record_step(1, torch.tensor([1]), step([0.5], [-1.25]))
    traces.end_epoch(1, Scores(torch.ones(2)), is_main_process=True)
    kept = read_traces(tmp_path)
    assert kept is not None
    np.testing.assert_array_equal(kept.predicted, [[np.nan, -1.25]])
    np.testing.assert_array_equal(kept.loss, [[np.nan, 0.5]])


@pytest.mark.parametrize(("classes", "most"), [(10, 5), (256, 5), (None, 6)])
def test_few_bytes_a_sample(classes: int | None, most: int, tmp_path: Path) -> None:
    number = 10_000
    traces = SampleTraces(number, classes, tmp_path)
    traces.end_epoch(1, Scores(torch.ones(number)), is_main_process=True)
    (file,) = (tmp_path / "samples").iterdir()
    header = 400
    assert file.stat().st_size <= most * number + header


def test_many_classes_are_told_apart(tmp_path: Path) -> None:
    traces = SampleTraces(1, 1000, tmp_path)
    output = torch.nn.functional.one_hot(torch.tensor([777]), 1000).float()
    traces.record_step(1, torch.tensor([0]), step([1.0], output.tolist()))
    traces.end_epoch(1, Scores(torch.ones(1)), is_main_process=True)
    kept = read_traces(tmp_path)
    assert kept is not None
    assert kept.predicted.tolist() == [[777]]
    (file,) = (tmp_path / "samples").iterdir()
    assert file.stat().st_size <= 6 + 400


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "epoch-00001.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="epoch-00001"):
        read_traces(tmp_path)


@pytest.mark.usefixtures("lively", "quick_verdicts")
@pytest.mark.parametrize(("most", "is_kept"), [(TRAIN, True), (TRAIN - 1, False), (0, False)])
def test_huge_data_keeps_none(most: int, is_kept: bool, tmp_path: Path) -> None:
    config = lively_config("epochs=1", f"traced_samples={most}")
    run_training(RunRequest(config, Path(), tmp_path / "run"))
    assert (tmp_path / "run" / "samples").exists() == is_kept
    assert (read_traces(tmp_path / "run") is not None) == is_kept


def test_resumed_inside_an_epoch(run_host: RunHost, whole_runs: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for epoch, number in ((1, 2), (2, 3)):
        run_host.run(out, signals=["SIGINT"], epoch=epoch, step=number, resume=out.exists())
    assert run_host.run(out, resume=True)["ended"] == "finished"
    found, expected = (snapshot(run / "samples") for run in (out, whole_runs.with_settings()))
    assert found == expected
    kept = read_traces(out)
    assert kept is not None
    assert np.isfinite(kept.loss).all()


def test_an_earlier_run_leaves_no_traces(
    lively: None, quick_verdicts: None, tmp_path: Path
) -> None:
    for epochs in (3, 1):
        config = lively_config(f"epochs={epochs}")
        run_training(RunRequest(config, Path(), tmp_path / "run", overwrite=True))
    kept = read_traces(tmp_path / "run")
    assert kept is not None
    assert kept.epochs.tolist() == [1]
