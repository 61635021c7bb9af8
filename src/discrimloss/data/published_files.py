"""The published files of a dataset: how to get them, where to find them, how to check them.

>>> from discrimloss.data.published_files import BuiltIn, how_obtained, obtained
>>> @obtained(BuiltIn("it is generated"))
... def load_something(directory): ...
>>> how_obtained(load_something).why
'it is generated'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from discrimloss.data.base import DataError
from discrimloss.errors import needs_extra

Loader = TypeVar("Loader", bound=Callable[..., Any])

_ATTRIBUTE = "obtained_by"


@dataclass(frozen=True)
class KnownFile:
    """A published file of a dataset.

    Args:
        path: path in the data directory, with ``/`` as separator. It may be a directory.
        size: size in bytes; None if unknown.
        checksum: ``"sha256:…"`` or ``"md5:…"``; None if none is published.
    """

    path: str
    size: int | None = None
    checksum: str | None = None

    def exists_in(self, directory: Path) -> bool:
        """Return whether the file exists.

        If it has neither size nor checksum, a directory of this name counts as well.
        """
        path = directory / self.path
        return path.exists() if self == KnownFile(self.path) else path.is_file()


Form = tuple[KnownFile, ...]
"""One form of some data: files that a loader reads together. Other forms may hold the same data."""


def in_folder(folder: str, files: Iterable[KnownFile]) -> Form:
    """Return the files, moved to a folder of the data directory (``"."``: the directory itself)."""
    if folder == ".":
        return tuple(files)
    return tuple(replace(file, path=f"{folder}/{file.path}") for file in files)


@dataclass(frozen=True)
class RemoteFile(KnownFile):
    """A file that ``discrimloss data fetch`` can download.

    Args:
        urls: mirrors, tried in this order. All must have the same content.
        contents: the required files in a ``.tar.gz``, which is unpacked into the data directory and
            then deleted.
        alternatives: other forms of the same data that a loader can read.
        optional: whether the dataset can be loaded without it.
    """

    urls: tuple[str, ...] = ()
    contents: Form = ()
    alternatives: tuple[Form, ...] = ()
    optional: bool = False

    @property
    def forms(self) -> tuple[Form, ...]:
        """All forms of this file; the downloaded one first."""
        return (self.contents or (self,), *self.alternatives)


@dataclass(frozen=True)
class Download:
    """A dataset that ``discrimloss data fetch`` downloads.

    Args:
        files: the files to download, in this order.
        terms: the publisher's terms of use.
    """

    files: tuple[RemoteFile, ...]
    terms: str = ""


@dataclass(frozen=True)
class ByHand:
    """A dataset that the user must request from its publisher, or download in a browser.

    Args:
        steps: what to do and where to put the files, as a sentence without a full stop.
        forms: alternative forms of the data. The dataset is complete with all files of one form.
    """

    steps: str
    forms: tuple[Form, ...] = ()


@dataclass(frozen=True)
class BuiltIn:
    """A dataset that needs no files. `why` completes the sentence "nothing to download: …"."""

    why: str


Obtained = Download | ByHand | BuiltIn


def obtained(how: Obtained) -> Callable[[Loader], Loader]:
    """Return a decorator that declares how to get the data of a loader."""

    def mark(loader: Loader) -> Loader:
        setattr(loader, _ATTRIBUTE, how)
        return loader

    return mark


def how_obtained(loader: Callable[..., Any]) -> Obtained:
    """Return how to get the data of a loader, as declared with `obtained`."""
    undeclared = ByHand("its loader has no instructions; loading it shows what is missing")
    how: Obtained = getattr(loader, _ATTRIBUTE, undeclared)
    return how


@dataclass(frozen=True)
class Layout:
    """One published layout of a dataset.

    Args:
        folders: folders of the data directory to search. ``"."`` is the directory itself.
        files: the names of all required files, in one folder.
        endings: possible endings of these names. The first that exists is used.
    """

    folders: tuple[str, ...]
    files: tuple[str, ...]
    endings: tuple[str, ...] = ("",)

    def found_in(self, folder: Path) -> dict[str, Path]:
        """Return the files in this folder, by name."""
        paths = {
            name: next((p for e in self.endings if (p := folder / f"{name}{e}").is_file()), None)
            for name in self.files
        }
        return {name: path for name, path in paths.items() if path is not None}


def find_files(
    dataset: str, directory: Path, *layouts: Layout
) -> tuple[Layout, Path, dict[str, Path]]:
    """Return the first complete set of files: its layout, its folder, and the files by name.

    Raises:
        DataError: no set is complete. The message names the missing files of the most complete
            folder, or the searched folders if none has any of the files.
    """
    places = [
        (layout, directory / folder, layout.found_in(directory / folder))
        for layout in layouts
        for folder in layout.folders
    ]
    for layout, folder, found in places:
        if len(found) == len(layout.files):
            return layout, folder, found
    layout, folder, found = max(places, key=lambda place: len(place[2]))
    if found:
        missing = [name for name in layout.files if name not in found]
        raise DataError(
            f"{dataset} in {folder} is incomplete, without {' and '.join(missing)}: "
            f"{how_to_get(dataset)}"
        )
    looked = (f"for {layout.files[0]} in {listed(layout.folders)}" for layout in layouts)
    raise DataError(no_data(dataset, directory, " and ".join(looked)))


def no_data(dataset: str, directory: Path, looked: str) -> str:
    """Return the message for a dataset without any file."""
    if not directory.is_dir():
        return f"no {dataset} data, as there is no directory {directory}: {how_to_get(dataset)}"
    return f"no {dataset} data in {directory}: looked {looked}; {how_to_get(dataset)}"


def listed(folders: Sequence[str]) -> str:
    """Return a text that lists folders of the data directory."""
    words = ["the directory itself" if folder == "." else folder for folder in folders]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def how_to_get(dataset: str) -> str:
    """Return the command that gets a dataset, for error messages about missing files."""
    return f"`discrimloss data fetch {dataset}` downloads it or explains how to get it"


class State(Enum):
    """The state of a file compared with the published one."""

    PRESENT = "present"
    MISSING = "missing"
    WRONG_SIZE = "wrong size"
    WRONG_CHECKSUM = "wrong checksum"


@dataclass(frozen=True)
class CheckedFile:
    """A file and its state. `detail` says how it differs, or why it was not compared."""

    path: str
    state: State
    detail: str = ""
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.state.value}{f' ({self.detail})' if self.detail else ''}"

    @property
    def is_wrong(self) -> bool:
        """Whether the file exists and differs from the published one."""
        return self.state in (State.WRONG_SIZE, State.WRONG_CHECKSUM)


def checksum_of(file: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file, as ``"sha256:…"``."""
    with needs_extra("train", "checking files"):
        import pooch

    return f"{algorithm}:{pooch.file_hash(str(file), alg=algorithm)}"


def check_file(
    known: KnownFile, directory: Path, *, read: bool = True, optional: bool = False
) -> CheckedFile:
    """Return the state of one file in `directory`. With `read`, compare the checksum as well."""
    state, detail = _state_of(known, directory, read)
    return CheckedFile(known.path, state, detail, optional)


def _state_of(known: KnownFile, directory: Path, read: bool) -> tuple[State, str]:
    path = directory / known.path
    if not known.exists_in(directory):
        return State.MISSING, ""
    if path.is_dir():
        return State.PRESENT, ""
    size = path.stat().st_size
    if known.size is not None and size != known.size:
        return State.WRONG_SIZE, f"{size:,} bytes instead of {known.size:,}"
    if not read:
        return State.PRESENT, ""
    if known.checksum is None:
        extent = f"{size:,} bytes, " if known.size is None else ""
        detail = f"there is no published checksum; {extent}{checksum_of(path)}"
        return State.PRESENT, detail
    found = checksum_of(path, known.checksum.partition(":")[0])
    if found != known.checksum:
        return State.WRONG_CHECKSUM, f"{found} instead of {known.checksum}"
    return State.PRESENT, ""


def check_files(how: Obtained, directory: Path, *, read: bool = True) -> list[CheckedFile]:
    """Return the state of every file of a dataset, in the forms that exist."""
    if isinstance(how, BuiltIn):
        return []
    if isinstance(how, ByHand):
        return check_forms(how.forms, directory, read=read) if how.forms else []
    return [
        checked
        for file in how.files
        for checked in check_forms(file.forms, directory, read=read, optional=file.optional)
    ]


def check_forms(
    forms: Sequence[Form], directory: Path, *, read: bool = True, optional: bool = False
) -> list[CheckedFile]:
    """Return the state of the files of every complete form.

    If no form is complete, return the files of the one with the fewest missing files.
    """

    def fraction_there(form: Form) -> float:
        return sum(known.exists_in(directory) for known in form) / len(form)

    # All complete forms are checked, because a loader may read any of them.
    complete = [form for form in forms if fraction_there(form) == 1]
    return [
        check_file(known, directory, read=read, optional=optional)
        for form in complete or [max(forms, key=fraction_there)]
        for known in form
    ]


def are_complete(files: Sequence[CheckedFile]) -> bool:
    """Return whether all files exist and none differs from the published one."""
    return all(file.state is State.PRESENT for file in files)
