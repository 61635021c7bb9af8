"""Fetches the files of a dataset: verified, resumable, from the first mirror that has them."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile

from discrimloss.data.base import DataError
from discrimloss.data.check import State, are_complete, check_file, check_forms, checksum_of
from discrimloss.data.download import MirrorError, Progress, ResumingDownloader
from discrimloss.data.obtain import Download, KnownFile, RemoteFile
from discrimloss.data.unpack import set_aside, unpack


@dataclass(frozen=True)
class Fetched:
    """A file that is now there.

    Args:
        path: below the data directory; of an archive's contents, the folder.
        url: where it came from, None if it was there before.
        checksum: what was found, as ``"sha256:…"``, if there was nothing to compare it with.
        set_aside: wrong files that were there before, under their new names.
    """

    path: str
    url: str | None
    checksum: str | None = None
    set_aside: tuple[Path, ...] = ()


def fetch(
    download: Download,
    directory: Path,
    *,
    on_progress: Progress = lambda name, done, total: None,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[Fetched]:
    """Download what is missing or wrong below `directory`, a file at a time.

    No file has its final name before its checksum matched. A `DataError` says what went wrong; what
    was downloaded until then stays for the next call.

    Args:
        download: which files.
        directory: made if it is not there.
        on_progress: see `discrimloss.data.download.Progress`.
        wait: sleeps between the tries of one address.
    """
    for file in download.files:
        with _write_errors_told(directory):
            fetched = _fetch_file(file, directory, on_progress, wait)
        yield fetched


def _fetch_file(
    file: RemoteFile, directory: Path, on_progress: Progress, wait: Callable[[float], None]
) -> Fetched:
    for form in file.forms:
        if are_complete(check_forms([form], directory)):
            return _there_before(form, directory)
    target = directory / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = [set_aside(target)] if check_file(file, directory).is_wrong else []
    _check_space(file, target)
    with TemporaryFile(dir=target.parent):  # whether anything can be written, before it is sent
        pass
    url = None
    if check_file(file, directory, read=False).state is State.MISSING:
        url = _download(file, target, on_progress, wait)
    checksum = checksum_of(target) if file.checksum is None else None
    if file.contents:
        aside += unpack(target, directory, file.contents)
        if url is not None:  # an archive that a person put there is theirs
            target.unlink()
    return Fetched(file.path, url, checksum, tuple(aside))


def _there_before(form: Sequence[KnownFile], directory: Path) -> Fetched:
    first = form[0]
    if len(form) > 1:
        return Fetched(str(PurePosixPath(first.path).parent), None)
    unknown = first.checksum is None
    return Fetched(first.path, None, checksum_of(directory / first.path) if unknown else None)


def _download(
    file: RemoteFile, target: Path, on_progress: Progress, wait: Callable[[float], None]
) -> str:
    """Try one mirror after the other; returns the one that had the file."""
    part = target.with_name(f"{target.name}.part")
    failures = []
    for url in file.urls:
        downloader = ResumingDownloader(
            part,
            size=file.size,
            resume=file.checksum is not None,
            on_progress=on_progress,
            wait=wait,
        )
        try:
            _download_from(url, file, target, downloader)
            return url
        except MirrorError as error:
            failures.append(f"{url} {error}")
    kept = part.stat().st_size if part.exists() else 0
    hint = f"; {kept:,} bytes are kept: run the command again to go on" if kept else ""
    raise DataError(f"cannot download {file.path}: {', '.join(failures)}{hint}")


def _download_from(
    url: str, file: RemoteFile, target: Path, downloader: ResumingDownloader
) -> None:
    if _retrieve(url, file, target, downloader):
        return
    # The fault may lie in a part that was there before: once more, from the start.
    if downloader.resumed and _retrieve(url, file, target, downloader):
        return
    raise MirrorError("sent a file with a wrong checksum, which was deleted")


def _retrieve(url: str, file: RemoteFile, target: Path, downloader: ResumingDownloader) -> bool:
    """Download with pooch, which compares the checksum; False if it does not match."""
    try:
        import pooch
    except ModuleNotFoundError as error:
        raise DataError("downloading needs an extra: pip install 'discrimloss[train]'") from error

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        pooch.retrieve(
            url, file.checksum, fname=target.name, path=target.parent, downloader=downloader
        )
    except ValueError:  # the only one that pooch raises here: the checksum differs
        return False
    finally:
        logger.setLevel(level)
    return True


def _check_space(file: RemoteFile, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    there = sum(path.stat().st_size for path in (part, target) if path.exists())
    unpacked = sum(known.size or 0 for known in file.contents)
    needed = max(0, (file.size or 0) - there) + unpacked
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise DataError(
            f"{file.path} needs {needed / 1e6:,.0f} MB and {target.parent} has "
            f"{free / 1e6:,.0f} MB left: free some space, or name another data directory"
        )


@contextmanager
def _write_errors_told(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = (
            "free some space and run the command again to go on"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "name a data directory you may write to"
        )
        raise DataError(f"cannot write to {directory} ({reason}): {hint}") from error
