"""Accelerate: prepare, accumulate, save and load, in one process and in two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import accelerate_runs
import pytest
import torch
from accelerate_runs import (
    EPOCHS,
    LONG,
    MANY,
    SAMPLES,
    class_run,
    class_run_name,
    small_run,
)
from state_comparison import assert_same_state, state_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torchrun import GLOO, run_in_processes

from discrimloss import DiscrimLoss

# Accelerate has loaders reach over the end of an epoch, where the last batch does not suffice for
# all processes: the first samples come again.
ONE_PROCESS = torch.arange(SAMPLES).split(12)
TWO_PROCESSES = torch.cat([torch.arange(SAMPLES), torch.arange(3)]).split(12)


def plain_loop(batches: tuple[Tensor, ...], accumulated: int = 1) -> tuple[nn.Module, DiscrimLoss]:
    """What Accelerate should do, in PyTorch alone."""
    x = torch.randn(SAMPLES, 3, generator=torch.Generator().manual_seed(0))
    y = x.sum(1)
    y[::5] += 4
    torch.manual_seed(1)
    model, criterion = nn.Linear(3, 1), DiscrimLoss(SAMPLES, EPOCHS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(1, EPOCHS + 1):
        criterion.set_epoch(epoch)
        for step, index in enumerate(batches, start=1):
            losses = (model(x[index]).squeeze(1) - y[index]).square()
            (criterion(losses, index) / accumulated).backward()
            if step % accumulated == 0:
                optimizer.step()
                optimizer.zero_grad()
    return model, criterion


def plain_loop_with_classes(batches: tuple[Tensor, ...]) -> tuple[nn.Module, DiscrimLoss]:
    x = torch.randn(MANY, 3, generator=torch.Generator().manual_seed(0))
    y = x.argmax(1)
    y[::5] = (y[::5] + 1) % 3
    torch.manual_seed(1)
    model, criterion = nn.Linear(3, 3), DiscrimLoss(MANY, LONG, num_classes=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for epoch in range(1, LONG + 1):
        criterion.set_epoch(epoch)
        for index in batches:
            logits, target = model(x[index]), y[index]
            losses = cross_entropy(logits, target, reduction="none")
            criterion(losses, index, target=target, logits=logits).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert int((criterion.table.role == 2).sum()) > 0  # held out
    return model, criterion


@pytest.mark.parametrize(
    "settings",
    [{}, {"accumulated": 2}, {"prepared": "prepare"}],
    ids=str,
)
def test_a_run_equals_a_plain_loop(settings: dict[str, Any], tmp_path: Path) -> None:
    _, model, criterion = small_run(tmp_path, batch_size=12, **settings)
    assert type(criterion) is DiscrimLoss  # nothing to wrap
    expected_model, expected = plain_loop(ONE_PROCESS, settings.get("accumulated", 1))
    assert_same_state(criterion, expected)
    torch.testing.assert_close(model.state_dict(), expected_model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("prepared", [None, "prepare"])
def test_resumed_as_if_never_stopped(prepared: str | None, tmp_path: Path) -> None:
    _, model, criterion = small_run(tmp_path, batch_size=12, prepared=prepared)
    _, resumed_model, resumed = small_run(tmp_path, batch_size=12, prepared=prepared, resumed=True)
    assert_same_state(resumed, criterion)
    torch.testing.assert_close(resumed_model.state_dict(), model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("prepared", [False, True])
def test_classes_and_logits_resumed_as_if_never_stopped(prepared: bool, tmp_path: Path) -> None:
    expected_model, expected = plain_loop_with_classes(torch.arange(MANY).split(60))
    for resumed in (False, True):
        _, model, criterion = class_run(tmp_path, batch_size=60, prepared=prepared, resumed=resumed)
        assert type(criterion) is DiscrimLoss
        assert_same_state(criterion, expected)
        torch.testing.assert_close(model.state_dict(), expected_model.state_dict(), rtol=0, atol=0)


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes made: a file per run and process."""
    if not GLOO:
        pytest.skip("torch has no gloo here")
    directory = tmp_path_factory.mktemp("two")
    run_in_processes(2, Path(accelerate_runs.__file__), directory)
    return directory


@pytest.mark.parametrize(
    "name", ["whole", "resumed", "accumulated", "prepared", "prepared and resumed"]
)
def test_two_processes_equal_one_with_the_double_batch(name: str, ends: Path) -> None:
    first, second = (torch.load(ends / f"{name}-{rank}.pt") for rank in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)
    model, criterion = plain_loop(TWO_PROCESSES, 2 if name == "accumulated" else 1)
    torch.testing.assert_close(first["criterion"], state_of(criterion))
    torch.testing.assert_close(first["model"], model.state_dict())


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("resumed", [False, True])
def test_two_processes_with_classes_and_logits_equal_one(
    prepared: bool, resumed: bool, ends: Path
) -> None:
    name = class_run_name(prepared, resumed)
    first, second = (torch.load(ends / f"{name}-{rank}.pt") for rank in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)
    samples = torch.cat([torch.arange(MANY), torch.arange(15)])  # the first come again
    model, criterion = plain_loop_with_classes(samples.split(60))
    torch.testing.assert_close(first["criterion"], state_of(criterion), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(first["model"], model.state_dict(), rtol=1e-4, atol=1e-4)
