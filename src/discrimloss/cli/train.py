"""`discrimloss train`: run an experiment."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discrimloss.cli.data_directory import ENVIRONMENT, DataOption, check_is_directory, required
from discrimloss.cli.errors import CommandError, needs_extra
from discrimloss.errors import DiscrimLossError

if TYPE_CHECKING:
    from discrimloss.training.config import RunConfig

NEEDS = ("accelerate", "tomlkit", "sklearn", "pandas", "pyarrow", "transformers", "PIL", "pooch")


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe's name (`discrimloss ls`), or a file.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="What differs, e.g. noise.rate=0.4."),
    ] = None,
    data: DataOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where the results go. [default: runs/RECIPE/METHOD-SEED]"
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="The same as seed=N.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier run in the same place.")
    ] = False,
) -> None:
    """Run an experiment, and write all that came of it to a directory.

    The directory gets config.toml (every setting), environment.json (versions), history.csv (a row
    per epoch), summary.json (the figures), verdicts.parquet (what the method says of each label),
    tensorboard/ and checkpoint/.

    Ctrl-C stops between two steps; --resume goes on from there, with the same result to the last
    bit as if the run had never been stopped.
    """
    if resume and overwrite:
        raise CommandError("--resume goes on and --overwrite starts anew: give one of them")
    overrides = [*(settings or []), *([] if seed is None else [f"seed={seed}"])]
    config = _load_recipe(recipe, overrides)
    place = out or Path("runs", config.recipe, f"{config.method}-{config.seed}")
    if data is not None:
        check_is_directory(data)
    command = shlex.join(["discrimloss", "train", recipe, *overrides])
    _run(config, data, place, resume, overwrite, command)


def _load_recipe(recipe: str, overrides: list[str]) -> RunConfig:
    try:
        from discrimloss.options import OptionError
        from discrimloss.recipes import load_recipe
    except ModuleNotFoundError as error:
        raise train_needs_extra(error) from error
    try:
        return load_recipe(recipe, overrides)
    except OptionError as error:
        raise CommandError(str(error)) from error


def _places(data: Path | None, out: Path) -> str:
    """The options that name the same directories in another command."""
    is_known = data is None or str(data) == os.environ.get(ENVIRONMENT)
    return shlex.join([*([] if is_known else ["--data", str(data)]), "--out", str(out)])


def _is_below(file: object, directory: Path) -> bool:
    return Path(str(file)).absolute().is_relative_to(directory.absolute())


def train_needs_extra(error: ModuleNotFoundError) -> Exception:
    """The sentence for a library that is not installed; any other error as it is."""
    return needs_extra(error, NEEDS, "training", "train")


def _run(
    config: RunConfig, data: Path | None, out: Path, resume: bool, overwrite: bool, command: str
) -> None:
    try:  # late: --help and a wrong key should not wait for it
        from discrimloss.cli.train_display import TrainDisplay, print_summary
        from discrimloss.data.base import datasets
        from discrimloss.data.obtain import BuiltIn, how_obtained
        from discrimloss.training.interruption import Interrupted
        from discrimloss.training.run import RunRequest, run_training
    except ModuleNotFoundError as error:
        raise train_needs_extra(error) from error

    is_built_in = isinstance(how_obtained(datasets.get(config.data.name)), BuiltIn)
    directory = Path() if data is None and is_built_in else required(data)
    request = RunRequest(config, directory, out, resume, overwrite, command)
    display = TrainDisplay(config.epochs)
    try:
        with display:
            summary = run_training(request, display)
    except DiscrimLossError as error:
        raise CommandError(str(error)) from error
    except ModuleNotFoundError as error:
        raise train_needs_extra(error) from error
    except KeyboardInterrupt:
        raise CommandError("stopped; nothing was lost: --resume goes on", exit_code=130) from None
    except Interrupted as stopped:
        raise CommandError(
            f"stopped {stopped}; go on with: {command} {_places(data, out)} --resume",
            exit_code=128 + stopped.signal_number,
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.filename is not None and not _is_below(error.filename, out):
            raise CommandError(f"cannot read {error.filename} ({reason})") from error
        raise CommandError(
            f"cannot write to --out {out} ({reason}): make room or name another directory, "
            "then go on with --resume"
        ) from error
    if int(os.environ.get("RANK", "0")) == 0:
        print_summary(summary, out)
