"""`discrimloss ls` and `discrimloss cp`: what there is, and a copy to change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from discrimloss.cli.errors import CommandError
from discrimloss.cli.train import needs_extra
from discrimloss.whole_file import whole_file


def ls() -> None:
    """List the recipes, methods and datasets."""
    try:
        from discrimloss.data.base import datasets
        from discrimloss.methods.base import methods
        from discrimloss.models.base import models
        from discrimloss.recipes import recipe_files, summary_of
    except ModuleNotFoundError as error:
        raise needs_extra(error) from error
    console = Console(highlight=False)
    recipes = [(name, summary_of(path)) for name, path in recipe_files().items()]
    sections = [("recipe", recipes)]
    for registry in (methods, datasets, models):
        sections.append((registry.kind, [(n, registry.summary(n)) for n in registry.names()]))
    for kind, rows in sections:
        table = Table(show_edge=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(kind, no_wrap=True, min_width=24)
        table.add_column("")
        for name, about in rows:
            table.add_row(name, about)
        console.print(table)
        console.print()
    console.print("Run one: discrimloss train RECIPE [KEY=VALUE ...] --data DIR --out DIR")


def cp(
    recipe: Annotated[str, typer.Argument(help="A recipe's name.")],
    file: Annotated[Path, typer.Argument(help="Where the copy goes: a new file.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is there.")
    ] = False,
) -> None:
    """Copy a recipe to a file of your own, to change and to train from."""
    try:
        from discrimloss.options import OptionError
        from discrimloss.recipes import find_recipe
    except ModuleNotFoundError as error:
        raise needs_extra(error) from error
    try:
        source = find_recipe(recipe)
    except OptionError as error:
        raise CommandError(str(error)) from error
    if file.is_dir():
        file = file / source.name
    if file.exists() and not overwrite:
        raise CommandError(f"{file} is there already: pass --overwrite, or name another file")
    try:
        with whole_file(file) as unfinished:
            unfinished.write_bytes(source.read_bytes())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"cannot write {file} ({reason}): name another file") from error
    Console(highlight=False).print(
        f"Copied to {file}. Run it: discrimloss train {file} --out DIR", soft_wrap=True
    )
