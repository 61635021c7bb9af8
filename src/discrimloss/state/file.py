"""Saving and loading the state of a criterion in safetensors files.

The first process writes one file. With a sharded table, every process writes a file with its own
rows, so that the whole table is never gathered. Any number of processes can load the files, sharded
or not.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from discrimloss.errors import DiscrimLossError, needs_extra
from discrimloss.files.atomic_write import atomic_write
from discrimloss.state.exchange import Shards

with needs_extra("safetensors"):
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file

if TYPE_CHECKING:
    from discrimloss.loss import DiscrimLoss

STATE_FILE = "discrimloss.safetensors"
SHARD_FILE = "discrimloss-{number:05d}-of-{count:05d}.safetensors"
SHARD = re.compile(r"discrimloss-(\d{5})-of-(\d{5})\.safetensors")
TABLE, IDS = "table.", ("ids.", "table.ids.")  # ids of 0.1, and of later versions


class StateFileError(DiscrimLossError):
    """A saved state that cannot be read."""


def save_state(criterion: DiscrimLoss, directory: str | Path) -> None:
    """Write the state of a criterion into a directory. All processes must call this."""
    directory = Path(directory)
    shards = criterion.table.shards
    name = STATE_FILE
    if shards.several:
        name = SHARD_FILE.format(number=shards.rank + 1, count=shards.count)
    if shards.several or criterion.processes.rank == 0:
        directory.mkdir(parents=True, exist_ok=True)
        with atomic_write(directory / name) as unfinished:
            save_file(_own_state(criterion), unfinished)
    _wait_for_all(criterion)  # until all files are written
    if criterion.processes.rank == 0:  # remove files from another number of processes
        for path in _found_files(directory):
            if _count_of(path) != _count_of(directory / name):
                path.unlink()
    _wait_for_all(criterion)  # so that no process writes while files are removed


def _wait_for_all(criterion: DiscrimLoss) -> None:
    if criterion.processes.count > 1:
        dist.barrier(criterion.processes.group)


def load_state(criterion: DiscrimLoss, directory: str | Path) -> None:
    """Load a state from `save_state`, with any number of processes. All must call this."""
    paths = _state_files(Path(directory))
    try:
        state, num_samples = _own_rows(paths, criterion.table.shards)
    except (OSError, SafetensorError) as error:
        raise StateFileError(
            f"cannot read the sample state in {directory} ({error}): use another checkpoint"
        ) from error
    criterion.make_fit(num_samples, has_ids=any(name.startswith(IDS) for name in state))
    with criterion.table.own_rows_only():
        criterion.load_state_dict(state)


def _own_state(criterion: DiscrimLoss) -> dict[str, Tensor]:
    """Return the state of this process. With a sharded table, it has only its own rows."""
    with criterion.table.own_rows_only():
        state = criterion.state_dict()
    return {name: value.detach().cpu().contiguous() for name, value in state.items()}


def saved_shapes(directory: str | Path) -> dict[str, list[int]]:
    """Return the shape of each entry of a saved state, or of its first file if sharded."""
    with safe_open(_state_files(Path(directory))[0], framework="pt") as file:
        return {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def count_saved(directory: str | Path) -> int:
    """Return the number of samples of the state in a directory."""
    total = 0
    for path in _state_files(Path(directory)):
        with safe_open(path, framework="pt") as file:
            total += file.get_slice(TABLE + "history").get_shape()[0]
    return total


def _found_files(directory: Path) -> list[Path]:
    names = sorted(directory.iterdir()) if directory.is_dir() else []
    return [path for path in names if path.name == STATE_FILE or SHARD.fullmatch(path.name)]


def _count_of(path: Path) -> int:
    """Return the number of files of the state that a file belongs to."""
    match = SHARD.fullmatch(path.name)
    return int(match[2]) if match else 1


def _state_files(directory: Path) -> list[Path]:
    """Return the files of the latest state in a directory."""
    found = _found_files(directory)
    if not found:
        raise StateFileError(
            f"there is no sample state in {directory}: a checkpoint of a run with DiscrimLoss has "
            f"{STATE_FILE}; start a new run, or resume from a checkpoint that has one"
        )
    count = _count_of(max(found, key=lambda path: path.stat().st_mtime_ns))
    if count == 1:
        return [directory / STATE_FILE]
    wanted = [directory / SHARD_FILE.format(number=n, count=count) for n in range(1, count + 1)]
    for path in wanted:
        if path not in found:
            raise StateFileError(
                f"the sample state in {directory} is incomplete: {path.name} is missing"
            )
    return wanted


def _own_rows(paths: list[Path], shards: Shards) -> tuple[dict[str, Tensor], int]:
    """Read the rows of this process from all files, and the number of samples."""
    with ExitStack() as stack:
        files = [stack.enter_context(safe_open(path, framework="pt")) for path in paths]
        names = list(files[0].keys())
        lengths = [file.get_slice(TABLE + "history").get_shape()[0] for file in files]
        own = torch.arange(shards.rank, sum(lengths), shards.count)
        state = {}
        for name in names:
            if not name.startswith(TABLE) or name.startswith(IDS):
                state[name] = files[0].get_tensor(name)
                continue
            for number, file in enumerate(files):  # sample i is in file i % len(files)
                column = file.get_tensor(name)
                if name not in state:
                    state[name] = column.new_empty(len(own), *column.shape[1:])
                here = own % len(files) == number
                state[name][here] = column[own[here] // len(files)]
    return state, sum(lengths)
