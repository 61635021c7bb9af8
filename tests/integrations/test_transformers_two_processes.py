"""Two processes with half a batch each train what one process trains."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import two_trainers
from discrimloss import DiscrimLoss
from discrimloss.state_file import load_state
from two_processes import GLOO

pytestmark = [
    pytest.mark.usefixtures("quick_verdicts"),
    pytest.mark.skipif(not GLOO, reason="needs torch.distributed with gloo"),
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    program = Path(two_trainers.__file__)
    path = os.pathsep.join(filter(None, [str(program.parent), os.environ.get("PYTHONPATH")]))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = subprocess.run(
        [sys.executable, *launcher, str(program), str(folder)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return folder


@pytest.mark.parametrize("accumulated", [1, 2])
def test_two_processes_are_one(directory: Path, tmp_path: Path, accumulated: int) -> None:
    first, second = (torch.load(directory / f"{accumulated}-{rank}.pt") for rank in (0, 1))
    assert first["processes"] == 2
    for part in ("weights", "state"):
        torch.testing.assert_close(first[part], second[part], rtol=0, atol=0, equal_nan=True)
    alone = two_trainers.trained(tmp_path, 8, accumulated)
    torch.testing.assert_close(first["weights"], alone.model.state_dict())
    torch.testing.assert_close(first["state"], alone.criterion.state_dict(), equal_nan=True)


def test_one_process_goes_on_from_what_two_saved(directory: Path) -> None:
    expected = torch.load(directory / "1-0.pt")["state"]
    criterion = DiscrimLoss(two_trainers.SAMPLES, 2)
    load_state(criterion, directory / "two-1" / "checkpoint-6")
    torch.testing.assert_close(criterion.state_dict(), expected, rtol=0, atol=0, equal_nan=True)
