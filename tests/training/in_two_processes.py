"""What `test_two_processes` runs with torchrun: a program, not a test.

Every process writes what its method ended with to DIRECTORY/NAME-RANK.pt.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

import lively_task
from discrimloss import verdicts
from discrimloss.options import OptionError
from discrimloss.recipes import load_recipe
from discrimloss.training import run
from discrimloss.training.interruption import Interrupted
from discrimloss.training.loop import TrainingLoop
from run_host import quick_calibration

SETTINGS = ("epochs=2", "train_size=256", "batch_size=64", "tensorboard=false", "threads=1")


class AsksToStop:
    """Only the first process is asked; all must stop."""

    def on_step(self, epoch: int, step: int, steps: int, samples: int) -> None:
        assert samples == 64  # of all processes together
        if (epoch, step) == (2, 2):
            os.kill(os.getpid(), signal.SIGINT)

    def on_epoch(self, row: dict[str, Any]) -> None:
        pass


def main(directory: Path) -> None:
    rank = int(os.environ["RANK"])
    verdicts.calibrate = quick_calibration
    loops = []

    class RememberedLoop(TrainingLoop):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            loops.append(self)

    run.TrainingLoop = RememberedLoop  # type: ignore[misc]

    def train(name: str, *settings: str, observer: Any = None, resume: bool = False) -> None:
        config = load_recipe("digits", [*SETTINGS, *settings])
        run.run_training(run.RunRequest(config, Path(), directory / name, resume), observer)
        torch.save(loops[-1].method.state_dict(), directory / f"{name}-{rank}.pt")

    for method in ("plain", "discrimloss"):
        train(method, f"method={method}")
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
