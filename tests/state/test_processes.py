"""Two and four processes hold what one process would: the scenarios of `loss_in_processes.py`."""

import json
from collections.abc import Iterator
from pathlib import Path

import loss_in_processes
import pytest
import torch
import torch.distributed as dist
from state_comparison import assert_same_state
from torchrun import needs_gloo, run_in_processes

from discrimloss import DiscrimLoss

NUMBERS = (2, 4)

pytestmark = needs_gloo


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both programs leave their outcomes, one after the other."""
    path = tmp_path_factory.mktemp("processes")
    for number in NUMBERS:
        (path / str(number)).mkdir()
        run_in_processes(number, Path(loss_in_processes.__file__), path / str(number))
    return path


@pytest.mark.parametrize("scenario", loss_in_processes.SCENARIOS)
@pytest.mark.parametrize("number", NUMBERS)
def test_scenario(number: int, scenario: str, directory: Path) -> None:
    for rank in range(number):
        outcome = json.loads((directory / str(number) / f"outcome-{rank}.json").read_text())
        assert outcome.get(scenario, "not reached") == "passed", f"in process {rank}"


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("number", NUMBERS)
def test_one_process_goes_on_from_several(number: int, sharded: bool, directory: Path) -> None:
    load_state = pytest.importorskip("discrimloss.state.file", exc_type=ImportError).load_state
    folder = directory / str(number) / f"of-{number}-{sharded}"
    expected = DiscrimLoss(loss_in_processes.SAMPLES, loss_in_processes.EPOCHS)
    loss_in_processes.train_epochs(expected, 1, 2)
    resumed = DiscrimLoss(loss_in_processes.SAMPLES, loss_in_processes.EPOCHS, sharded=sharded)
    load_state(resumed, folder)
    assert_same_state(resumed, expected)


@pytest.fixture
def one_process_group(tmp_path: Path) -> Iterator[None]:
    """Initialised, but with nobody else."""
    dist.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1
    )
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("sharded", [False, True])
def test_nothing_is_exchanged_with_nobody(sharded: bool, one_process_group: None) -> None:
    criterion = DiscrimLoss(5, 3, sharded=sharded)
    with loss_in_processes.Counted() as counted:
        for epoch in (1, 2):
            criterion.set_epoch(epoch)
            criterion(torch.rand(3), torch.tensor([0, 1, 4]))
        criterion.verdicts()
        criterion.state_dict()
    assert counted.calls == []
