"""Runs in two processes: a launcher for tests, and the program that it launches with torchrun.

Every process writes what its method ended with to DIRECTORY/NAME-RANK.pt.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas  # noqa: F401 - here, so that it is imported once for all processes
import sklearn.metrics  # noqa: F401
import torch
from quick_files import make_files_quick
from quick_verdicts import make_verdicts_quick
from torchrun import run_in_processes

from discrimloss.recipes import load_recipe
from discrimloss.training import run

SETTINGS = ("epochs=4", "train_size=256", "batch_size=64", "tensorboard=false", "threads=1")
PREDICTIONS = (
    *("method=discrimloss", "options.predictions=true"),
    *("epochs=8", "train_size=400"),  # shorter runs learn labels as they are
)


def run_in_two_processes(scenario: str, directory: Path) -> None:
    """Run `every_method` or `the_loop`, below, and wait."""
    run_in_processes(2, Path(__file__), scenario, directory)


class AsksToStop:
    """Only the first process is asked; all must stop."""

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        assert samples == 64  # of all processes together
        if (epoch, step) == (2, 2):
            os.kill(os.getpid(), signal.SIGINT)

    def on_epoch(self, row: dict[str, Any]) -> None:
        pass


def every_method(train: Callable[..., None], directory: Path) -> None:
    from discrimloss.training.methods import methods

    for name in methods.names():
        train(name, f"method={name}")
    train("predictions", *PREDICTIONS)


def the_loop(train: Callable[..., None], directory: Path) -> None:
    import lively_task

    from discrimloss.options import OptionError
    from discrimloss.training.interruption import Interrupted

    rank = os.environ["RANK"]
    train("whole")
    with lively_task.registered():
        train("batch_norm", *lively_task.SETTINGS, "train_size=150", "batch_size=30")
    try:
        train("resumed", observer=AsksToStop())
    except Interrupted as stopped:
        (directory / f"stopped-{rank}").write_text(str(stopped))
    train("resumed", resume=True)
    try:
        train("too-small", "batch_size=1")
    except OptionError as error:
        (directory / f"refused-{rank}").write_text(str(error))


def main(scenario: str, directory: Path) -> None:
    make_files_quick(setattr)
    make_verdicts_quick(setattr)
    loops: list[Any] = []

    class RememberedLoop(run.TrainingLoop):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            loops.append(self)

    run.TrainingLoop = RememberedLoop  # type: ignore[misc]

    def train(name: str, *settings: str, observer: Any = None, resume: bool = False) -> None:
        config = load_recipe("digits", [*SETTINGS, *settings])
        run.run_training(run.RunRequest(config, Path(), directory / name, resume), observer)
        rank = os.environ["RANK"]
        torch.save(loops[-1].method.state_dict(), directory / f"{name}-{rank}.pt")

    {"every_method": every_method, "the_loop": the_loop}[scenario](train, directory)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
