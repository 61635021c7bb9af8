"""`discrimloss data`: list, fetch and check the datasets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from discrimloss.cli.data_directory import ENVIRONMENT, DataOption, check_is_directory, required
from discrimloss.cli.displays import DownloadBar
from discrimloss.cli.failures import if_stopped
from discrimloss.errors import DiscrimLossError, needs_extra

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of a dataset.")]

data = typer.Typer(add_completion=False, rich_markup_mode=None)


@data.callback()
def _data() -> None:
    """List, fetch and check the datasets."""


@data.command("ls")
@needs_extra("train", "this command")
def ls(directory: DataOption = None) -> None:
    """List the datasets, how to get each, and whether its files exist.

    This command looks only at names and sizes of files. `discrimloss data check` reads them.
    """
    from discrimloss.data import datasets
    from discrimloss.data.published_files import how_obtained

    check_is_directory(directory)
    table = Table("name", "what it is", "how to get it", "available")
    for name in datasets.names():
        how = how_obtained(datasets.get(name))
        table.add_row(name, datasets.summary(name), _way(how), _availability(how, directory))
    _print(table)
    if directory is None:
        _echo(f"To see which are available, pass the data directory with --data or {ENVIRONMENT}.")


@data.command("fetch")
@needs_extra("train", "this command")
def fetch(name: NameArgument, directory: DataOption = None) -> None:
    """Download a dataset, or explain how to get it by hand.

    A stopped download continues where it stopped. Existing files are verified and not downloaded
    again.
    """
    from discrimloss.data import datasets
    from discrimloss.data.published_files import (
        BuiltIn,
        ByHand,
        are_complete,
        check_files,
        how_obtained,
    )

    how = how_obtained(datasets.get(name))
    if isinstance(how, BuiltIn):
        _echo(f"{name}: nothing to download: {how.why}.")
        return
    if isinstance(how, ByHand):
        files = check_files(how, directory) if directory is not None else []
        if not (files and are_complete(files)):
            raise DiscrimLossError(f"{name} cannot be downloaded by this command: {how.steps}")
        _echo(f"{name}: already there.")
        return
    directory = required(directory)
    if directory.exists():
        check_is_directory(directory)
    go_on = "downloaded files are kept: run the command again to continue"
    with if_stopped(lambda stopped: f"{stopped}; {go_on}"):
        _download(how, directory)
    _echo(f"Next: discrimloss data check {name}")


@data.command("check")
@needs_extra("train", "this command")
def check(
    name: NameArgument,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Options of the dataset, as in a recipe."),
    ] = None,
    directory: DataOption = None,
) -> None:
    """Compare a dataset's files with the published ones, then load it."""
    from discrimloss.data import TaskData, datasets
    from discrimloss.data.published_files import BuiltIn, check_files, how_obtained
    from discrimloss.recipes.settings import parse_setting

    loader = datasets.get(name)
    how = how_obtained(loader)
    given = {key: value for text in settings or [] for key, value in parse_setting(text).items()}
    options = datasets.check(name, given, where="")
    if isinstance(how, BuiltIn):
        directory = directory or Path()  # a built-in dataset has no files to check
    directory = required(directory)
    check_is_directory(directory)
    files = check_files(how, directory)
    for file in files:
        _echo(f"{file}{', optional' if file.optional else ''}")
    wrong = [file.path for file in files if file.is_wrong]
    if wrong:
        raise DiscrimLossError(
            f"{name} differs from the published version: delete {' and '.join(wrong)} in "
            f"{directory} and get it again"
        )
    loaded: TaskData = loader(directory, **options)
    for line in _sizes(name, loaded):
        _echo(line)


def _way(how: Any) -> str:
    from discrimloss.data.published_files import BuiltIn, Download

    if isinstance(how, BuiltIn):
        return "built in"
    if isinstance(how, Download):
        size = sum(file.size or 0 for file in how.files)
        return f"fetch ({size / 1e6:,.0f} MB)" if size else "fetch"
    return "by hand"


def _availability(how: Any, directory: Path | None) -> str:
    from discrimloss.data.published_files import BuiltIn, State, are_complete, check_files

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
            source = "exists already" if file.url is None else f"downloaded from {file.url}"
            checksum = f"; there is no published checksum; {file.checksum}"
            _echo(f"{file.path}: {source}{checksum if file.checksum else ''}")
            for wrong in file.set_aside:
                _echo(f"The earlier, damaged file is now {wrong}. You can delete it.")
    finally:
        bar.stop()
    if how.terms:
        _echo(f"Terms: {how.terms}")


def _sizes(name: str, loaded: Any) -> Iterator[str]:
    splits = {"train": loaded.train, "validation": loaded.validation, "test": loaded.test}
    sizes = ", ".join(f"{name} {len(rows):,}" for name, rows in splits.items() if rows is not None)
    kind = "regression" if loaded.is_regression else f"{loaded.num_classes} classes"
    yield f"{name} can be loaded: {sizes}; {kind}"
    for note in loaded.notes:
        yield f"note: {note}"


def _print(table: Table) -> None:
    Console(highlight=False).print(table)


def _echo(line: str) -> None:
    Console(highlight=False).print(line, markup=False, soft_wrap=True)
