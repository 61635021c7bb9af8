"""Two processes with half of each batch hold the state that one process has, in a plain loop."""

from __future__ import annotations

from pathlib import Path

import losses_in_two_processes
import pytest
import torch
from torchrun import needs_gloo, run_in_processes

from discrimloss.losses.base import loss_classes


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("two")
    run_in_processes(2, Path(losses_in_two_processes.__file__), directory)
    return directory


@needs_gloo
@pytest.mark.parametrize("name", loss_classes.names())
def test_two_processes_do_what_one_does(name: str, recorded: Path) -> None:
    first, second = (torch.load(recorded / f"{name}-{rank}.pt") for rank in range(2))
    alone = losses_in_two_processes.record(name, rank=0, processes=1)
    torch.testing.assert_close(second["state"], first["state"], rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(first["state"], alone["state"], rtol=1e-4, atol=1e-6)
    losses = (first["losses"] + second["losses"]) / 2
    torch.testing.assert_close(losses, alone["losses"], rtol=1e-4, atol=1e-6)
    # Averaging divides the gradients of the processes by their number.
    gradients = torch.cat([first["gradients"], second["gradients"]], dim=1) / 2
    torch.testing.assert_close(gradients, alone["gradients"], rtol=1e-4, atol=1e-6)
