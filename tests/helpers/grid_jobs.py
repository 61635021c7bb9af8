"""What jobs of a grid do in the tests: they run in other processes, so they are importable."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from discrimloss.errors import DiscrimLossError
from discrimloss.training.grid import Job, run_jobs
from discrimloss.training.interruption import Interrupted, stop_on_signals


def double(number: int) -> int:
    return 2 * number


def note_and_double(number: int, notes: Path) -> int:
    with notes.open("a") as file:
        file.write(f"{number}\n")
    return 2 * number


def refuse() -> None:
    print("before", flush=True)
    raise DiscrimLossError("the loss became nan")


def break_down() -> None:
    raise ZeroDivisionError("of what?")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def large() -> bytes:
    return b"x" * 1_000_000


def unpicklable() -> Any:
    return lambda: None


def work_until_stopped(place: Path) -> None:
    """Like a training: at a request to stop, it writes a checkpoint and ends."""
    with stop_on_signals() as stop:
        stop.may_wait = True
        (place / "started.new").write_text(str(os.getpid()))
        (place / "started.new").rename(place / "started")
        while not stop:
            time.sleep(0.02)
        (place / "checkpoint").touch()
        raise Interrupted(stop.signal_number or 0, "after a step")


if __name__ == "__main__":  # a command that a test kills
    run_jobs([Job("long", work_until_stopped, (Path(sys.argv[1]),))], 1)
