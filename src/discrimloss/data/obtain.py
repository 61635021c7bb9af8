"""How a dataset is obtained, said beside its loader.

>>> from discrimloss.data.obtain import BuiltIn, how_obtained, obtained
>>> @obtained(BuiltIn("it is generated"))
... def load_something(directory): ...
>>> how_obtained(load_something).why
'it is generated'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

Loader = TypeVar("Loader", bound=Callable[..., Any])

_ATTRIBUTE = "obtained_by"


@dataclass(frozen=True)
class KnownFile:
    """A file of a dataset, and what is known of it before it is there.

    Args:
        path: below the data directory, with ``/`` between its parts; may name a directory.
        size: in bytes, None if not known.
        checksum: ``"sha256:…"`` or ``"md5:…"``, None if the publisher does not give one.
    """

    path: str
    size: int | None = None
    checksum: str | None = None


def in_folder(folder: str, files: Iterable[KnownFile]) -> tuple[KnownFile, ...]:
    """The same files in a folder of the data directory, which is ``"."`` itself."""
    if folder == ".":
        return tuple(files)
    return tuple(replace(file, path=f"{folder}/{file.path}") for file in files)


@dataclass(frozen=True)
class RemoteFile(KnownFile):
    """A file that a program may download.

    Args:
        urls: where it is, tried in this order. All must hold the same bytes.
        contents: of a ``.tar.gz``: the files in it that matter. It is unpacked into the data
            directory and then no longer needed.
        alternatives: other forms of the same data that a loader takes as well.
        optional: whether the dataset can be loaded without it.
    """

    urls: tuple[str, ...] = ()
    contents: tuple[KnownFile, ...] = ()
    alternatives: tuple[tuple[KnownFile, ...], ...] = ()
    optional: bool = False

    @property
    def forms(self) -> tuple[tuple[KnownFile, ...], ...]:
        """Each a group of files that together are this data; the downloaded form first."""
        return (self.contents or (self,), *self.alternatives)


@dataclass(frozen=True)
class Download:
    """A dataset that ``discrimloss data fetch`` downloads.

    Args:
        files: what to download, in this order.
        terms: what the publisher asks of those who use it.
    """

    files: tuple[RemoteFile, ...]
    terms: str = ""


@dataclass(frozen=True)
class ByHand:
    """A dataset whose publisher wants a person to ask for it, or to click.

    Args:
        steps: what to do and where to put the files: a sentence without its full stop.
        forms: groups of files; with all of one group the dataset is there.
    """

    steps: str
    forms: tuple[tuple[KnownFile, ...], ...] = ()


@dataclass(frozen=True)
class BuiltIn:
    """A dataset that needs no files of its own: `why` completes "nothing to fetch: …"."""

    why: str


Obtained = Download | ByHand | BuiltIn


def obtained(how: Obtained) -> Callable[[Loader], Loader]:
    """A decorator that says how the data of a loader is obtained."""

    def mark(loader: Loader) -> Loader:
        setattr(loader, _ATTRIBUTE, how)
        return loader

    return mark


def how_obtained(loader: Callable[..., Any]) -> Obtained:
    """What was said of this loader, or that nothing was."""
    unsaid = ByHand("its loader does not say how to get it; loading it will say what is missing")
    how: Obtained = getattr(loader, _ATTRIBUTE, unsaid)
    return how
