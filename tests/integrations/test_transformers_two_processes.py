"""Two processes with half a batch each train what one process trains."""

from pathlib import Path

import pytest
import torch
import two_trainers
from tiny_transformers import CLASSES
from torchrun import needs_gloo, run_in_processes

from discrimloss import DiscrimLoss
from discrimloss.state.file import load_state

pytestmark = [needs_gloo, pytest.mark.usefixtures("quick_verdicts")]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    run_in_processes(2, Path(two_trainers.__file__), folder)
    return folder


@pytest.mark.parametrize("name", two_trainers.RUNS)
def test_two_processes_are_one(directory: Path, tmp_path: Path, name: str) -> None:
    first, second = (torch.load(directory / f"{name}-{rank}.pt") for rank in (0, 1))
    assert first["processes"] == 2
    for part in ("weights", "state"):
        torch.testing.assert_close(first[part], second[part], rtol=0, atol=0, equal_nan=True)
    alone = two_trainers.trained(tmp_path, 8, name)
    torch.testing.assert_close(first["weights"], alone.model.state_dict())
    torch.testing.assert_close(first["state"], alone.criterion.state_dict(), equal_nan=True)
    assert ("table.predicted_class" in first["state"]) == name.endswith("classes")


@pytest.mark.parametrize("name", ["plain", "sharded", "sharded classes"])
def test_one_process_goes_on_from_what_two_saved(directory: Path, name: str) -> None:
    expected = torch.load(directory / f"{name}-0.pt")["state"]
    num_classes = CLASSES if name.endswith("classes") else None
    criterion = DiscrimLoss(two_trainers.SAMPLES, 2, num_classes=num_classes)
    load_state(criterion, directory / name / "checkpoint-6")
    torch.testing.assert_close(criterion.state_dict(), expected, rtol=0, atol=0, equal_nan=True)
