"""`discrimloss train`: run an experiment."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discrimloss.cli.data_directory import (
    ENVIRONMENT,
    DataOption,
    check_is_directory,
    directory_of,
)
from discrimloss.cli.failures import if_stopped, writing
from discrimloss.errors import DiscrimLossError, is_first_process, needs_extra

if TYPE_CHECKING:
    from discrimloss.training.config import RunConfig


@needs_extra("train", "training")
def train(
    recipe: Annotated[
        str, typer.Argument(help="A recipe (`discrimloss ls` lists them) or a file.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings to change, e.g. noise.rate=0.4."),
    ] = None,
    data: DataOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory for the results. [default: runs/RECIPE/METHOD-SEED]"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed of the run, the same as seed=N.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a stopped run.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier run in this directory.")
    ] = False,
) -> None:
    """Run an experiment and write its results to a directory.

    The directory contains config.toml (all settings), environment.json (versions), history.csv (a
    row per epoch), summary.json (the metrics), verdicts.parquet (the verdict on each label),
    tensorboard/ and checkpoint/.

    Ctrl-C stops between two steps, and --resume continues from there. The result is identical to
    that of an uninterrupted run.
    """
    if resume and overwrite:
        raise DiscrimLossError(
            "--resume continues and --overwrite starts over: pass only one of them"
        )
    from discrimloss.recipes import load_recipe

    overrides = [*(settings or []), *([] if seed is None else [f"seed={seed}"])]
    config = load_recipe(recipe, overrides)
    place = out or Path("runs", config.recipe, f"{config.method}-{config.seed}")
    check_is_directory(data)
    command = shlex.join(["discrimloss", "train", recipe, *overrides])
    _run(config, data, place, resume, overwrite, command)


def _run(
    config: RunConfig, data: Path | None, out: Path, resume: bool, overwrite: bool, command: str
) -> None:
    from discrimloss.cli.displays import TrainDisplay, print_summary
    from discrimloss.training.run import RunRequest, run_training

    directory = directory_of(config.data.name, data)
    request = RunRequest(config, directory, out, resume, overwrite, command)
    display = TrainDisplay(config.epochs)
    go_on = f"continue with: {command} {_places(data, out)} --resume"
    advice = "make room or choose another directory, then continue with --resume"
    with (
        if_stopped(lambda stopped: f"{stopped}; {go_on}"),
        writing(f"to --out {out}", advice, below=out),
        display,
    ):
        summary = run_training(request, display)
    if is_first_process():
        print_summary(summary, out)


def _places(data: Path | None, out: Path) -> str:
    """Return --data and --out as text, for a command that uses the same directories."""
    is_known = data is None or str(data) == os.environ.get(ENVIRONMENT)
    return shlex.join([*([] if is_known else ["--data", str(data)]), "--out", str(out)])
