"""Processes that a launcher started with the same command, and that divide its work.

`torchrun` and Accelerate's launcher start a command several times. Every process executes the same
steps in the same order. `divided` divides long work among the processes. `of_first` lets the first
process decide what must be equal in all. An error in one process ends all of them.

In a command that was started once, everything is done in this process and nothing is exchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from discrimloss.errors import DiscrimLossError, SharedError, is_first_process
from discrimloss.state.processes import Processes

Task = TypeVar("Task")
Value = TypeVar("Value")

LONGEST_WAIT = timedelta(days=1)
"""Time limit for the slowest process. The launcher ends all processes after an error in one."""

_joined: list[Processes] = []
"""The processes that share the work of the current block, see `joined_processes`."""


@contextmanager
def joined_processes() -> Iterator[None]:
    """Share the work of the block with the other processes of the launcher, if there are any.

    Raises:
        SharedError: another process failed.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "MASTER_ADDR" not in os.environ:
        yield
        return
    is_ours = not dist.is_initialized()
    if is_ours:
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, timeout=LONGEST_WAIT)
    _joined.append(Processes())
    try:
        yield
        _exchange(None)  # no process ends before all are done
    except SharedError:
        raise
    except Exception as error:
        _announce(error)
        if isinstance(error, DiscrimLossError) and not is_first_process():
            raise SharedError(str(error), error.exit_code) from error
        raise
    finally:
        _joined.pop()
        if is_ours:
            dist.destroy_process_group()


@contextmanager
def undivided() -> Iterator[None]:
    """Do all work of the block in this process, even inside `joined_processes`."""
    joined = _joined[:]
    _joined.clear()
    try:
        yield
    finally:
        _joined.extend(joined)


def process_number() -> int:
    """Return the number of processes that share the work."""
    return _joined[-1].count if _joined else 1


def is_divided() -> bool:
    """Return whether several processes share the work."""
    return process_number() > 1


def divided(tasks: Sequence[Task], work: Callable[[Task], Value]) -> list[Value]:
    """Return the results of all tasks in order. Each process does some of them.

    Args:
        tasks: the tasks, equal in all processes. Long tasks should be spread evenly.
        work: does one task. Its result is pickled.
    """
    if not is_divided():
        return [work(task) for task in tasks]
    processes = _joined[-1]
    own = range(processes.rank, len(tasks), processes.count)
    of_each = _exchange([work(tasks[number]) for number in own])
    turns = [divmod(number, processes.count) for number in range(len(tasks))]
    return [of_each[rank][turn] for turn, rank in turns]


def own_number(tasks: int) -> int:
    """Return how many of the tasks this process does."""
    return len(range(_joined[-1].rank, tasks, _joined[-1].count)) if is_divided() else tasks


def of_first(make: Callable[[], Value]) -> Value:
    """Return the result of the first process in all processes.

    Args:
        make: called only in the first process. Its result is pickled.
    """
    if not is_divided():
        return make()
    made = [make() if is_first_process() else None]
    _exchange(None)  # if `make` failed, the other processes end here
    dist.broadcast_object_list(made)
    value: Any = made[0]
    return value  # type: ignore[no-any-return]


def require_equal(value: object, refusal: str) -> None:
    """Raise a `DiscrimLossError` in all processes if a value differs between them."""
    if is_divided() and len(set(_exchange(value))) > 1:
        raise DiscrimLossError(refusal)


def _exchange(thing: Any) -> list[Any]:
    """Return the values of all processes by rank, or raise an error that one of them announced."""
    received = _all_gather((None, thing))
    for announced, _ in received:
        if announced is not None:
            raise SharedError(*announced)
    return [each for _, each in received]


def _announce(error: Exception) -> None:
    """Announce to the other processes, which wait in an exchange, that this one has failed."""
    if isinstance(error, DiscrimLossError):
        announced = (str(error), error.exit_code)
    else:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
        announced = (f"process {_joined[-1].rank} failed ({reason})", 1)
    with suppress(SharedError):
        _all_gather((announced, None))


def _all_gather(thing: Any) -> list[Any]:
    try:
        return _joined[-1].all_gather_objects(thing)
    except RuntimeError as error:  # a closed connection
        raise SharedError(
            "another process of this command has ended: see its message", 1
        ) from error
