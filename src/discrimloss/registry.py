"""Things that are found by name: datasets, models, methods.

A registry looks through the modules of one package, so that adding an entry is adding a file. What
can be set in an entry are its keyword-only arguments, with their types and defaults.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from discrimloss.options import Option, OptionError, check_options, did_you_mean

Entry = TypeVar("Entry", bound=Callable[..., Any])


@dataclass(frozen=True)
class Registry(Generic[Entry]):
    """Entries of one kind, each registered in a module of one package.

    Args:
        kind: what an entry is, for error messages: ``"method"``.
        package: whose modules hold the entries.
    """

    kind: str
    package: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "_entries", {})
        object.__setattr__(self, "_sources", [])

    def register(self, name: str) -> Callable[[Entry], Entry]:
        """A decorator that makes a class or a function known as `name`."""
        entries = self._registered()

        def add(entry: Entry) -> Entry:
            if name in entries:
                raise ValueError(f"there are two {self.kind}s named {name!r}")
            entries[name] = entry
            return entry

        return add

    def add_source(self, source: Callable[[], Mapping[str, Entry]]) -> None:
        """Take further entries from `source`, at every look-up; registered ones come first."""
        self.__dict__["_sources"].append(source)

    def names(self) -> list[str]:
        """All names, sorted."""
        self._import_modules()
        return sorted(self._known)

    def get(self, name: str) -> Entry:
        """The entry of this name; an `OptionError` says which names there are."""
        self._import_modules()
        if name not in self._known:
            raise OptionError(f"unknown {self.kind} {name!r}: {did_you_mean(name, self.names())}")
        return self._known[name]

    def summary(self, name: str) -> str:
        """The first line of an entry's docstring."""
        return (inspect.getdoc(self.get(name)) or "").partition("\n")[0]

    def options(self, name: str) -> dict[str, Option]:
        """What can be set in an entry: its keyword-only arguments, or what its `options()` says."""
        entry = self.get(name)
        own: Callable[[], dict[str, Option]] | None = getattr(entry, "options", None)
        return keyword_options(entry) if own is None else own()

    def check(self, name: str, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The given options with the right types; `where` is the table they stand in."""
        return check_options(self.options(name), given, where, f"{self.kind} {name!r}")

    @property
    def _known(self) -> dict[str, Entry]:
        known: dict[str, Entry] = {}
        for source in (*self.__dict__["_sources"], self._registered):
            known |= source()
        return known

    def _registered(self) -> dict[str, Entry]:
        return self.__dict__["_entries"]  # type: ignore[no-any-return]

    def _import_modules(self) -> None:
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self.package}.{module.name}")


def keyword_options(entry: Callable[..., Any]) -> dict[str, Option]:
    """The keyword-only arguments of a function, or of a class's constructor."""
    function = entry.__init__ if inspect.isclass(entry) else entry
    types = typing.get_type_hints(function)
    return {
        parameter.name: Option(types.get(parameter.name, Any), parameter.default)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
