"""`discrimloss data`: which datasets there are, how to get them, and whether they are all right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from discrimloss.cli.data_directory import ENVIRONMENT, DataOption, check_is_directory, required
from discrimloss.cli.download_bar import DownloadBar
from discrimloss.cli.errors import CommandError

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of a dataset.")]

data = typer.Typer(add_completion=False, rich_markup_mode=None)


@data.callback()
def _data() -> None:
    """List, fetch and check the datasets."""


@data.command("ls")
def ls(directory: DataOption = None) -> None:
    """List the datasets, how to get each, and whether it is there.

    Whether it is there is judged by names and sizes; `discrimloss data check` reads the files.
    """
    from discrimloss.data import datasets
    from discrimloss.data.obtain import how_obtained

    if directory is not None:
        check_is_directory(directory)
    table = Table("name", "what it is", "how to get it", "there")
    with _errors_told():
        for name in datasets.names():
            how = how_obtained(datasets.get(name))
            table.add_row(name, datasets.summary(name), _way(how), _there(how, directory))
    _print(table)
    if directory is None:
        _say(f"To see what is there, name the data directory with --data or {ENVIRONMENT}.")


@data.command("fetch")
def fetch(name: NameArgument, directory: DataOption = None) -> None:
    """Download a dataset, or say how to get it by hand.

    A download that was stopped goes on where it was. Files that are there are verified and not
    downloaded again.
    """
    from discrimloss.data.check import are_complete, check_files
    from discrimloss.data.obtain import BuiltIn, ByHand, how_obtained

    with _errors_told("stopped; what was downloaded is kept: run the command again to go on"):
        how = how_obtained(_loader(name))
        if isinstance(how, BuiltIn):
            _say(f"{name}: nothing to fetch: {how.why}.")
            return
        if isinstance(how, ByHand):
            files = check_files(how, directory) if directory is not None else []
            if not (files and are_complete(files)):
                raise CommandError(f"{name} is not ours to download: {how.steps}")
            _say(f"{name}: already there.")
            return
        directory = required(directory)
        if directory.exists():
            check_is_directory(directory)
        _download(how, directory)
    _say(f"Next: discrimloss data check {name}")


@data.command("check")
def check(
    name: NameArgument,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Options of the dataset, as in a recipe."),
    ] = None,
    directory: DataOption = None,
) -> None:
    """Compare a dataset's files with what was published, then load it."""
    from discrimloss.data import TaskData
    from discrimloss.data.check import check_files
    from discrimloss.data.obtain import BuiltIn, how_obtained

    with _errors_told():
        loader = _loader(name)
        how = how_obtained(loader)
        options = _options(name, settings or [])
        if isinstance(how, BuiltIn):
            directory = directory or Path()  # it is not looked into
        directory = required(directory)
        check_is_directory(directory)
        files = check_files(how, directory)
        for file in files:
            _say(f"{file}{', optional' if file.optional else ''}")
        wrong = [file.path for file in files if file.is_wrong]
        if wrong:
            raise CommandError(
                f"{name} is not as published: delete {' and '.join(wrong)} below {directory} "
                "and get it again"
            )
        loaded: TaskData = loader(directory, **options)
    for line in _sizes(name, loaded):
        _say(line)


def _way(how: Any) -> str:
    from discrimloss.data.obtain import BuiltIn, Download

    if isinstance(how, BuiltIn):
        return "built in"
    if isinstance(how, Download):
        size = sum(file.size or 0 for file in how.files)
        return f"fetch ({size / 1e6:,.0f} MB)" if size else "fetch"
    return "by hand"


def _there(how: Any, directory: Path | None) -> str:
    from discrimloss.data.check import State, are_complete, check_files
    from discrimloss.data.obtain import BuiltIn

    if isinstance(how, BuiltIn):
        return "yes"
    if directory is None:
        return "?"
    files = [file for file in check_files(how, directory, read=False) if not file.optional]
    if not files:
        return "?"
    if are_complete(files):
        return "yes"
    return "no" if all(file.state is State.MISSING for file in files) else "partly"


def _download(how: Any, directory: Path) -> None:
    from discrimloss.data.fetch import fetch as fetch_files

    bar = DownloadBar()
    try:
        for file in fetch_files(how, directory, on_progress=bar):
            bar.stop()
            source = "already there" if file.url is None else f"downloaded from {file.url}"
            checksum = f"; no published checksum to compare with; {file.checksum}"
            _say(f"{file.path}: {source}{checksum if file.checksum else ''}")
            for wrong in file.set_aside:
                _say(f"A file that was wrong is now {wrong}: you may delete it.")
    finally:
        bar.stop()
    if how.terms:
        _say(f"Terms: {how.terms}")


def _sizes(name: str, loaded: Any) -> Iterator[str]:
    parts = {"train": loaded.train, "validation": loaded.validation, "test": loaded.test}
    sizes = ", ".join(f"{part} {len(rows):,}" for part, rows in parts.items() if rows is not None)
    kind = "a regression" if loaded.is_regression else f"{loaded.num_classes} classes"
    yield f"{name} can be loaded: {sizes}; {kind}"
    for note in loaded.notes:
        yield f"note: {note}"


def _loader(name: str) -> Callable[..., Any]:
    from discrimloss.data import datasets

    try:
        return datasets.get(name)
    except ValueError as error:
        raise CommandError(str(error)) from error


def _options(name: str, settings: list[str]) -> dict[str, Any]:
    from discrimloss.data import datasets
    from discrimloss.recipes.settings import parse_setting

    try:
        given = {key: value for text in settings for key, value in parse_setting(text).items()}
        return datasets.check(name, given, where="")
    except ValueError as error:
        raise CommandError(str(error)) from error


@contextmanager
def _errors_told(when_stopped: str = "stopped") -> Iterator[None]:
    from discrimloss.data import DataError

    try:
        yield
    except DataError as error:
        raise CommandError(str(error)) from error
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("discrimloss"):
            raise
        raise CommandError(
            f"this needs an extra ({error.name} is missing): pip install 'discrimloss[train]'"
        ) from error
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"cannot read{where} ({reason})") from error
    except KeyboardInterrupt:
        raise CommandError(when_stopped, exit_code=130) from None


def _print(table: Table) -> None:
    Console(highlight=False).print(table)


def _say(line: str) -> None:
    Console(highlight=False).print(line, markup=False, soft_wrap=True)
