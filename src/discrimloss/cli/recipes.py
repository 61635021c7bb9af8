"""`discrimloss ls` and `discrimloss cp`: what there is, and a copy to change."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from discrimloss.cli.errors import CommandError
from discrimloss.cli.train import train_needs_extra
from discrimloss.files.atomic_write import atomic_write
from discrimloss.options import describe_type, did_you_mean
from discrimloss.registry import Registry


def ls(
    name: Annotated[
        str | None,
        typer.Argument(help="Only this recipe, method, dataset or model: all about it."),
    ] = None,
) -> None:
    """List the recipes, methods, datasets and models, or tell all about one."""
    try:
        from discrimloss.data.base import datasets
        from discrimloss.models.base import models
        from discrimloss.recipes import recipe_files, summary_of
        from discrimloss.training.methods.base import methods
    except ModuleNotFoundError as error:
        raise train_needs_extra(error) from error
    console = Console(highlight=False)
    registries = ((methods, "options"), (datasets, "data"), (models, "model"))
    if name is not None:
        _tell_about(name, recipe_files(), registries, console)
        return
    recipes = [(recipe, summary_of(path)) for recipe, path in recipe_files().items()]
    sections = [("recipe", recipes)]
    for registry, _ in registries:
        sections.append((registry.kind, [(n, registry.summary(n)) for n in registry.names()]))
    for kind, rows in sections:
        table = Table(show_edge=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(kind, no_wrap=True, min_width=24)
        table.add_column("")
        for entry, about in rows:
            table.add_row(entry, about)
        console.print(table)
        console.print()
    console.print("All about one: discrimloss ls NAME")
    console.print("Run one: discrimloss train RECIPE [KEY=VALUE ...] --data DIR --out DIR")


def _tell_about(
    name: str,
    recipes: Mapping[str, Path],
    registries: Iterable[tuple[Registry[Any], str]],
    console: Console,
) -> None:
    """The text of a recipe; the docstring and the options of everything else of this name."""
    known = [*recipes]
    is_known = name in recipes
    if is_known:
        console.print(recipes[name].read_text(encoding="utf-8"), markup=False, soft_wrap=True)
    for registry, table in registries:
        known += registry.names()
        if name not in registry.names():
            continue
        is_known = True
        console.print(f"{registry.kind} {name}\n", markup=False)
        console.print(inspect.getdoc(registry.get(name)) or "", markup=False, soft_wrap=True)
        console.print()
        for key, option in registry.options(name).items():
            default = "" if option.is_required else f" (default {option.default!r})"
            about = f"{table}.{key}: {describe_type(option.type)}{default}"
            console.print(about, markup=False, soft_wrap=True)
        console.print()
    if not is_known:
        names = dict.fromkeys(known)  # a recipe may have the name of its dataset
        raise CommandError(f"there is nothing named {name!r}: {did_you_mean(name, names)}")


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
        raise train_needs_extra(error) from error
    try:
        source = find_recipe(recipe)
    except OptionError as error:
        raise CommandError(str(error)) from error
    if file.is_dir():
        file = file / source.name
    if file.exists() and not overwrite:
        raise CommandError(f"{file} is there already: pass --overwrite, or name another file")
    try:
        with atomic_write(file) as unfinished:
            unfinished.write_bytes(source.read_bytes())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"cannot write {file} ({reason}): name another file") from error
    Console(highlight=False).print(
        f"Copied to {file}. Run it: discrimloss train {file} --out DIR", soft_wrap=True
    )
