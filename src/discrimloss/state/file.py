"""The state of all samples in safetensors files, beside whatever else a checkpoint holds.

One file, written by the first process. A sharded table is written by every process, its own rows
each, and never comes together in one place; it can be read by any number of processes, sharded or
not.
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
TABLE, IDS = "table.", ("ids.", "table.ids.")  # of 0.1, and since


class StateFileError(DiscrimLossError):
    """A state that cannot be read: one sentence that says what to do."""


def save_state(criterion: DiscrimLoss, directory: str | Path) -> None:
    """Write all of the criterion's state into a directory. All processes must call it."""
    directory = Path(directory)
    shards = criterion.table.shards
    name = STATE_FILE
    if shards.several:
        name = SHARD_FILE.format(number=shards.rank + 1, count=shards.count)
    if shards.several or criterion.processes.rank == 0:
        directory.mkdir(parents=True, exist_ok=True)
        with atomic_write(directory / name) as unfinished:
            save_file(_own_state(criterion), unfinished)
    _wait_for_all(criterion)  # all of it is there
    if criterion.processes.rank == 0:  # what another number of processes wrote there is outdated
        for path in _found_files(directory):
            if _count_of(path) != _count_of(directory / name):
                path.unlink()
    _wait_for_all(criterion)  # and nobody writes again while something is removed


def _wait_for_all(criterion: DiscrimLoss) -> None:
    if criterion.processes.count > 1:
        dist.barrier(criterion.processes.group)


def load_state(criterion: DiscrimLoss, directory: str | Path) -> None:
    """Put back what `save_state` wrote, on however many processes."""
    paths = _state_files(Path(directory))
    try:
        state, num_samples = _own_rows(paths, criterion.table.shards)
    except (OSError, SafetensorError) as error:
        raise StateFileError(
            f"cannot read the sample state in {directory} ({error}): go on from another checkpoint"
        ) from error
    criterion.make_fit(num_samples, has_ids=any(name.startswith(IDS) for name in state))
    with criterion.table.own_rows_only():
        criterion.load_state_dict(state)


def _own_state(criterion: DiscrimLoss) -> dict[str, Tensor]:
    """What this process holds: of a sharded table, its own rows."""
    with criterion.table.own_rows_only():
        state = criterion.state_dict()
    return {name: value.detach().cpu().contiguous() for name, value in state.items()}


def count_saved(directory: str | Path) -> int:
    """How many samples the state in a directory has."""
    total = 0
    for path in _state_files(Path(directory)):
        with safe_open(path, framework="pt") as file:
            total += file.get_slice(TABLE + "history").get_shape()[0]
    return total


def _found_files(directory: Path) -> list[Path]:
    names = sorted(directory.iterdir()) if directory.is_dir() else []
    return [path for path in names if path.name == STATE_FILE or SHARD.fullmatch(path.name)]


def _count_of(path: Path) -> int:
    """How many files belong to the state that a file is of."""
    match = SHARD.fullmatch(path.name)
    return int(match[2]) if match else 1


def _state_files(directory: Path) -> list[Path]:
    """The files of the state in a directory; of several states, of the one written last."""
    found = _found_files(directory)
    if not found:
        raise StateFileError(
            f"there is no sample state in {directory}: {STATE_FILE} is what a checkpoint of a run "
            "with DiscrimLoss holds; start anew, or from a checkpoint that has one"
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
    """The rows of this process, from however many files; and how many samples there are."""
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
            for number, file in enumerate(files):  # dealt out like cards, as they are here
                column = file.get_tensor(name)
                if name not in state:
                    state[name] = column.new_empty(len(own))
                here = own % len(files) == number
                state[name][here] = column[own[here] // len(files)]
    return state, sum(lengths)
