"""Datasets, models, methods and losses by name.

A registry imports the modules of one package, so a new file is enough for a new entry. The options
of an entry are its keyword-only arguments, with their types and defaults.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from discrimloss.options import Option, OptionError, check_options, did_you_mean

Entry = TypeVar("Entry", bound=Callable[..., Any])


class Registry(Generic[Entry]):
    """Entries of one kind, registered in the modules of one package.

    Args:
        kind: the word for an entry in error messages: ``"method"``.
        package: name of the package whose modules register the entries.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self.registered: dict[str, Entry] = {}
        self._sources: list[Callable[[], Mapping[str, Entry]]] = []
        self._imported: list[str] = []  # folders whose modules are imported

    def register(self, name: str) -> Callable[[Entry], Entry]:
        """Return a decorator that registers a class or a function under `name`."""

        def add(entry: Entry) -> Entry:
            if name in self.registered:
                raise ValueError(f"there are two {self.kind}s named {name!r}")
            self.registered[name] = entry
            return entry

        return add

    def add_source(self, source: Callable[[], Mapping[str, Entry]]) -> None:
        """Take further entries from `source` at every look-up. Registered ones take precedence."""
        self._sources.append(source)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._entries())

    def get(self, name: str) -> Entry:
        """Return the entry of this name, or raise an `OptionError` that lists the known names."""
        entries = self._entries()
        if name not in entries:
            raise OptionError(
                f"unknown {self.kind} {name!r}: {did_you_mean(name, sorted(entries))}"
            )
        return entries[name]

    def summary(self, name: str) -> str:
        """Return the first line of an entry's docstring."""
        return (inspect.getdoc(self.get(name)) or "").partition("\n")[0]

    def options(self, name: str) -> dict[str, Option]:
        """Return the options of an entry: keyword-only arguments, or the result of `options()`."""
        entry = self.get(name)
        own: Callable[[], dict[str, Option]] | None = getattr(entry, "options", None)
        return keyword_options(entry) if own is None else own()

    def check(self, name: str, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the given options, converted to their types. `where` is their section."""
        return check_options(self.options(name), given, where, f"{self.kind} {name!r}")

    def _entries(self) -> dict[str, Entry]:
        package = importlib.import_module(self.package)
        if self._imported != (folders := list(package.__path__)):
            for module in pkgutil.iter_modules(folders):
                importlib.import_module(f"{self.package}.{module.name}")
            self._imported = folders
        entries: dict[str, Entry] = {}
        for source in self._sources:
            entries |= source()
        return entries | self.registered


def keyword_options(entry: Callable[..., Any]) -> dict[str, Option]:
    """Return the keyword-only arguments of a function or of a class's constructor."""
    function = entry.__init__ if inspect.isclass(entry) else entry
    types = typing.get_type_hints(function)
    return {
        parameter.name: Option(types.get(parameter.name, Any), parameter.default)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
