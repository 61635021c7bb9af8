"""The state of all samples in a safetensors file, beside whatever else a checkpoint holds."""

from __future__ import annotations

from pathlib import Path

from discrimloss.integrations.extra import needs_extra
from discrimloss.loss import DiscrimLoss
from discrimloss.whole_file import whole_file

with needs_extra("safetensors"):
    from safetensors.torch import load_file, save_file

STATE_FILE = "discrimloss.safetensors"


def save_state(criterion: DiscrimLoss, directory: str | Path) -> None:
    """Write all of the criterion's state into a directory. All processes call it; one writes."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    state = {name: value.contiguous().cpu() for name, value in criterion.state_dict().items()}
    with whole_file(directory / STATE_FILE) as unfinished:
        save_file(state, unfinished)


def load_state(criterion: DiscrimLoss, directory: str | Path) -> None:
    """Put back what `save_state` wrote, on however many processes."""
    path = Path(directory) / STATE_FILE
    if not path.is_file():
        raise FileNotFoundError(f"no sample state in {directory}: {STATE_FILE} is not there")
    criterion.load_state_dict(load_file(path))
