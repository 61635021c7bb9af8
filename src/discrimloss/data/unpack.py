"""Unpacks an archive: all of it or nothing, inside its directory, over no file that is there."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from discrimloss.data.base import DataError
from discrimloss.data.check import State, check_file
from discrimloss.data.obtain import KnownFile

STAGING = ".unpacking-"


def unpack(archive: Path, directory: Path, contents: Sequence[KnownFile]) -> list[Path]:
    """Unpack a ``.tar.gz`` into `directory`.

    Args:
        archive: is read only.
        directory: where the archive's own directories go.
        contents: what must be in it. Files of these names that are already there and are wrong are
            kept beside the right ones, with `set_aside`; all others stay untouched.

    Returns:
        The new names of files that were wrong.
    """
    # On the same file system as the result, so that moving it cannot fail half-way.
    with TemporaryDirectory(prefix=STAGING, dir=directory) as staging:
        _extract(archive, Path(staging))
        for known in contents:
            found = check_file(known, Path(staging))
            if found.state is not State.PRESENT:
                raise DataError(f"{archive} is not what was published: {found}")
        wrong = [known for known in contents if check_file(known, directory).is_wrong]
        aside = [set_aside(directory / known.path) for known in wrong]
        _move(Path(staging), directory)
        return aside


def set_aside(file: Path) -> Path:
    """Rename a wrong file, so that nothing takes it for the right one."""
    return file.replace(file.with_name(f"{file.name}.bad"))


def _extract(archive: Path, directory: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise DataError(
            f"this version of Python cannot unpack {archive} safely: update Python, "
            "or unpack it yourself"
        )
    try:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extractall(directory, filter="data")
    except tarfile.FilterError as error:
        raise DataError(
            f"{archive} was not unpacked, because it holds an unsafe entry: {error}"
        ) from error
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{archive} cannot be unpacked ({error}): delete it and fetch it again"
        ) from error


def _move(staging: Path, directory: Path) -> None:
    """Move everything that is not yet there; a new directory at once, an old one's files singly."""
    for entry in sorted(staging.iterdir()):
        target = directory / entry.name
        if not target.exists():
            entry.replace(target)
        elif entry.is_dir() and target.is_dir():
            _move(entry, target)
