"""Downloads the files of a dataset from mirrors, resumes broken downloads, verifies checksums."""

from __future__ import annotations

import errno
import gzip
import shutil
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory, TemporaryFile

from discrimloss.data.base import DataError
from discrimloss.data.download import MirrorError, Progress, ResumingDownloader
from discrimloss.data.published_files import (
    Download,
    Form,
    KnownFile,
    RemoteFile,
    State,
    are_complete,
    check_file,
    check_forms,
    checksum_of,
)

STAGING = ".unpacking-"


@dataclass(frozen=True)
class Fetched:
    """A file that exists after `fetch`, downloaded or found.

    Args:
        path: path in the data directory. For an unpacked archive, the folder of its contents.
        url: source of the file; None if it existed before.
        checksum: computed checksum of the file, as ``"sha256:…"``, if none is published.
        set_aside: new names of wrong files that were renamed.
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
    """Download the missing and wrong files below `directory`, one at a time.

    A file gets its final name only after its checksum matches. Data downloaded before an error is
    kept for the next call.

    Args:
        download: the files.
        directory: created if it does not exist.
        on_progress: see `discrimloss.data.download.Progress`.
        wait: called with the number of seconds to sleep between attempts at one URL.

    Raises:
        DataError: no mirror has the file, there is too little space, or nothing can be written.
    """
    for file in download.files:
        with _describe_write_errors(directory):
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
    with TemporaryFile(dir=target.parent):  # fail before the download if nothing can be written
        pass
    url = None
    if check_file(file, directory, read=False).state is State.MISSING:
        url = _download(file, target, on_progress, wait)
    checksum = checksum_of(target) if file.checksum is None else None
    if file.contents:
        aside += unpack(target, directory, file.contents)
        if url is not None:  # keep an archive that the user put there
            target.unlink()
    return Fetched(file.path, url, checksum, tuple(aside))


def _there_before(form: Form, directory: Path) -> Fetched:
    first = form[0]
    if len(form) > 1:
        return Fetched(str(PurePosixPath(first.path).parent), None)
    unknown = first.checksum is None
    return Fetched(first.path, None, checksum_of(directory / first.path) if unknown else None)


def _download(
    file: RemoteFile, target: Path, on_progress: Progress, wait: Callable[[float], None]
) -> str:
    """Try one mirror after the other. Return the URL of the one that had the file."""
    partial = target.with_name(f"{target.name}.part")
    failures = []
    for url in file.urls:
        downloader = ResumingDownloader(
            partial,
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
    kept = partial.stat().st_size if partial.exists() else 0
    hint = f"; {kept:,} bytes are kept: run the command again to continue" if kept else ""
    raise DataError(f"cannot download {file.path}: {', '.join(failures)}{hint}")


def _download_from(
    url: str, file: RemoteFile, target: Path, downloader: ResumingDownloader
) -> None:
    if _retrieve(url, file, target, downloader):
        return
    # The bytes of an earlier download may be wrong: download the whole file again.
    if downloader.resumed and _retrieve(url, file, target, downloader):
        return
    raise MirrorError("sent a file with a wrong checksum, which was deleted")


def _retrieve(url: str, file: RemoteFile, target: Path, downloader: ResumingDownloader) -> bool:
    """Download with pooch, which compares the checksum. Return False if it does not match."""
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
    except ValueError:  # pooch raises it only for a wrong checksum
        return False
    finally:
        logger.setLevel(level)
    return True


def _check_space(file: RemoteFile, target: Path) -> None:
    partial = target.with_name(f"{target.name}.part")
    there = sum(path.stat().st_size for path in (partial, target) if path.exists())
    unpacked = sum(known.size or 0 for known in file.contents)
    needed = max(0, (file.size or 0) - there) + unpacked
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise DataError(
            f"{file.path} needs {needed / 1e6:,.0f} MB, but {target.parent} has "
            f"{free / 1e6:,.0f} MB left: free some space, or choose another data directory"
        )


@contextmanager
def _describe_write_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = (
            "free some space and run the command again to continue"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "choose a data directory that you can write to"
        )
        raise DataError(f"cannot write to {directory} ({reason}): {hint}") from error


def unpack(archive: Path, directory: Path, contents: Sequence[KnownFile]) -> list[Path]:
    """Unpack a ``.tar.gz`` into `directory`, completely or not at all. No file is overwritten.

    Args:
        archive: the archive. It is not changed.
        directory: where to unpack.
        contents: files that must be in the archive. Existing wrong files of these names are
            renamed (`set_aside`). No other existing file is changed.

    Returns:
        The new names of the renamed files.
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
    """Rename a wrong file so that no loader reads it. Return its new name."""
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
    """Move what does not exist yet. New directories move as a whole, other files one by one."""
    for entry in sorted(staging.iterdir()):
        target = directory / entry.name
        if not target.exists():
            entry.replace(target)
        elif entry.is_dir() and target.is_dir():
            _move(entry, target)
