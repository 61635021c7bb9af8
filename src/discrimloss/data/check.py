"""Compares the files of a dataset with what is known of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from discrimloss.data.obtain import BuiltIn, ByHand, KnownFile, Obtained

_CHUNK = 1 << 20


class State(Enum):
    """What became of a file."""

    PRESENT = "present"
    MISSING = "missing"
    WRONG_SIZE = "wrong size"
    WRONG_CHECKSUM = "wrong checksum"


@dataclass(frozen=True)
class CheckedFile:
    """One file and its state; `detail` says in what it differs, or what could not be compared."""

    path: str
    state: State
    detail: str = ""
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.state.value}{f' ({self.detail})' if self.detail else ''}"

    @property
    def is_wrong(self) -> bool:
        """Whether it is there and is not what was published."""
        return self.state in (State.WRONG_SIZE, State.WRONG_CHECKSUM)


def checksum_of(file: Path, algorithm: str = "sha256") -> str:
    """The checksum of a file, as ``"sha256:…"``."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return f"{algorithm}:{digest.hexdigest()}"


def check_file(
    known: KnownFile, directory: Path, *, read: bool = True, optional: bool = False
) -> CheckedFile:
    """The state of one file below `directory`; its contents count only where `read`."""
    path = directory / known.path
    if not _is_there(known, directory):
        return CheckedFile(known.path, State.MISSING, optional=optional)
    if path.is_dir():
        return CheckedFile(known.path, State.PRESENT, optional=optional)
    size = path.stat().st_size
    if known.size is not None and size != known.size:
        detail = f"{size:,} bytes instead of {known.size:,}"
        return CheckedFile(known.path, State.WRONG_SIZE, detail, optional)
    if not read:
        return CheckedFile(known.path, State.PRESENT, optional=optional)
    if known.checksum is None:
        extent = f"{size:,} bytes, " if known.size is None else ""
        detail = f"no published checksum to compare with; {extent}{checksum_of(path)}"
        return CheckedFile(known.path, State.PRESENT, detail, optional)
    found = checksum_of(path, known.checksum.partition(":")[0])
    if found != known.checksum:
        detail = f"{found} instead of {known.checksum}"
        return CheckedFile(known.path, State.WRONG_CHECKSUM, detail, optional)
    return CheckedFile(known.path, State.PRESENT, optional=optional)


def _is_there(known: KnownFile, directory: Path) -> bool:
    path = directory / known.path
    return path.exists() if known == KnownFile(known.path) else path.is_file()


def check_files(how: Obtained, directory: Path, *, read: bool = True) -> list[CheckedFile]:
    """The state of every file of a dataset, in the forms in which it is there."""
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
    forms: Sequence[Sequence[KnownFile]],
    directory: Path,
    *,
    read: bool = True,
    optional: bool = False,
) -> list[CheckedFile]:
    """The state of the files of every form of which all are there, or else most are there."""

    def share_there(form: Sequence[KnownFile]) -> float:
        return sum(_is_there(known, directory) for known in form) / len(form)

    # All complete ones: a loader takes one of them, and the others may be as wrong.
    complete = [form for form in forms if share_there(form) == 1]
    return [
        check_file(known, directory, read=read, optional=optional)
        for form in complete or [max(forms, key=share_there)]
        for known in form
    ]


def are_complete(files: Sequence[CheckedFile]) -> bool:
    """Whether all files are there and none differs from what is known."""
    return all(file.state is State.PRESENT for file in files)
