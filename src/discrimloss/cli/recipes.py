"""`discrimloss ls` and `discrimloss cp`: list what is available, and copy a recipe."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from discrimloss.cli.failures import writing
from discrimloss.errors import DiscrimLossError, needs_extra
from discrimloss.files.atomic_write import atomic_write
from discrimloss.options import describe_type, did_you_mean
from discrimloss.registry import Registry


@needs_extra("train", "the list")
def ls(
    name: Annotated[
        str | None,
        typer.Argument(help="A recipe, method, dataset or model to describe."),
    ] = None,
) -> None:
    """List recipes, methods, datasets and models, or describe one."""
    from discrimloss.data.base import datasets
    from discrimloss.models.base import models
    from discrimloss.recipes import recipe_files, summary_of
    from discrimloss.training.methods.base import methods

    console = Console(highlight=False)
    registries = ((methods, "options"), (datasets, "data"), (models, "model"))
    if name is not None:
        _describe(name, recipe_files(), registries, console)
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
    console.print("Details: discrimloss ls NAME")
    console.print("Run: discrimloss train RECIPE [KEY=VALUE ...] --data DIR --out DIR")


def _describe(
    name: str,
    recipes: Mapping[str, Path],
    registries: Iterable[tuple[Registry[Any], str]],
    console: Console,
) -> None:
    """Print a recipe, and the docstring and options of all entries with this name."""
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
        raise DiscrimLossError(f"there is nothing named {name!r}: {did_you_mean(name, names)}")


@needs_extra("train", "copying a recipe")
def cp(
    recipe: Annotated[str, typer.Argument(help="A recipe's name.")],
    file: Annotated[Path, typer.Argument(help="New file for the copy.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file.")
    ] = False,
) -> None:
    """Copy a recipe to a file, to change it and train with it."""
    from discrimloss.recipes import find_recipe

    source = find_recipe(recipe)
    if file.is_dir():
        file = file / source.name
    if file.exists() and not overwrite:
        raise DiscrimLossError(f"{file} exists already: pass --overwrite, or choose another file")
    with writing(str(file), "choose another file"), atomic_write(file) as unfinished:
        unfinished.write_bytes(source.read_bytes())
    Console(highlight=False).print(
        f"Copied to {file}. Run it: discrimloss train {file} --out DIR", soft_wrap=True
    )
