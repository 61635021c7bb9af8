"""A folder of images with one subfolder per class."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from discrimloss.auditing.sources.base import (
    AuditSource,
    Corrections,
    Label,
    LeftOut,
    Samples,
    SourceError,
    SourceOptions,
    Store,
)
from discrimloss.auditing.sources.images import picture_files
from discrimloss.auditing.sources.labels import read_samples
from discrimloss.auditing.sources.pictures import SUFFIXES
from discrimloss.auditing.sources.values import number_text

LONGEST_NAME = 255
"""Maximum length of a folder name on common file systems, in bytes."""
SPLITS = frozenset(
    ("train", "training", "val", "valid", "validation", "dev", "test", "testing", "holdout")
)
ENDINGS_IN_A_NOTE = 5


def open_image_folder(options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """Open a folder of images. The label of an image is the name of its subfolder.

    Opening decodes every image once, because there is no other way to detect unreadable images.

    Args:
        options: ``path`` is the folder.
        cache: a directory that stores which images can be read.
    """
    options.refuse(
        ("label", "text", "image", "id"),
        because="in a folder of images the subfolders are the labels",
    )
    folder = Path(options.path)
    listing = list_folder(folder)
    pictures = picture_files([folder / name for name in listing.images], cache)
    store = ImageFolder(folder, listing)
    store.require_two_classes(pictures.unusable)
    # Folder names are classes, even if they are numbers, unless the user requests a regression.
    as_classes = replace(options, regression=options.regression or False)
    samples = read_samples(store, as_classes, pictures.unusable)
    store.set_classes(samples)
    samples = replace(samples, left_out=(*samples.left_out, *listing.left_out()))
    return pictures.source(options, store, samples, lambda index: (("path", samples.ids[index]),))


class ImageFolder(Store):
    """Images whose label is the name of the subfolder that contains them, directly or deeper.

    Args:
        folder: the folder, whose subfolders are the classes.
        listing: the files in the folder.
    """

    unit = "file"

    def __init__(self, folder: Path, listing: FolderListing) -> None:
        self.folder, self._listing = folder, listing
        self.name = folder.name or "images"
        self.notes = listing.notes()
        self._class_names: tuple[str, ...] = ()
        self._folder_of: dict[float, str] = {}

    def __len__(self) -> int:
        return len(self._listing.images)

    def labels(self) -> list[str]:
        """Return the names of the subfolders."""
        return [_shown(name.partition("/")[0]) for name in self._listing.images]

    def ids(self) -> list[str]:
        """Return the paths relative to the folder."""
        return [_shown(name) for name in self._listing.images]

    def checksum(self) -> str:
        """Return a checksum of all paths. `Pictures.checksum` covers the images."""
        return repr((self._listing.images, self._listing.stray_images, self._listing.outside))

    def require_two_classes(self, unusable: Mapping[int, str]) -> None:
        """Raise a `SourceError` unless two classes have readable images."""
        images = self._listing.images
        readable = [name for row, name in enumerate(images) if row not in unusable]
        if len(readable) < 2 and unusable:
            row, why = next(iter(sorted(unusable.items())))
            raise SourceError(
                f"only {len(readable)} of {len(images):,} images in {self.folder} can be read, and "
                f"an audit needs two: {_shown(images[row])} {why}"
            )
        if len(readable) < 2:
            raise SourceError(f"there is one image in {self.folder}: an audit needs two or more")
        folders = {name.partition("/")[0] for name in readable}
        if len(folders) < 2:
            raise SourceError(
                f"all images in {self.folder} are in one folder, {_shown(folders.pop())!r}: an "
                "audit needs one subfolder for each of two or more classes"
            )

    def set_classes(self, samples: Samples) -> None:
        """Record the folder of each class or regression target."""
        self._class_names = samples.class_names
        for row, target in zip(samples.rows, samples.target.tolist(), strict=True):
            self._folder_of[target] = self._listing.images[row].partition("/")[0]

    def require_label(self, label: Label) -> None:
        """Raise a `SourceError` if a folder cannot have this name."""
        self._folder_name(label)

    def write(self, directory: Path, corrections: Corrections) -> list[Path]:
        """Write the folder with each image in the subfolder of its class.

        Files are copied. An image whose name is taken in its new subfolder gets a number. Left-out
        files keep their place. A link that leads out of the folder remains a link.
        """
        moves = self._moves(corrections)
        written = directory / self.name
        unfinished = directory / (written.name + ".unfinished")
        try:
            for name, new in moves.items():
                _copy(self.folder / name, self.folder, unfinished / new)
            unfinished.mkdir(parents=True, exist_ok=True)  # if everything is dropped
            unfinished.rename(written)
        except OSError as error:
            raise SourceError(
                f"cannot write {written} ({error.strerror or error}): nothing was written"
            ) from error
        finally:  # even after an interruption
            shutil.rmtree(unfinished, ignore_errors=True)
        return [written]

    def new_ids(self, corrections: Corrections) -> dict[int, str]:
        """Return the new path of every image that moves."""
        moves = self._moves(corrections)
        images = self._listing.images
        relabelled = corrections.labels.keys() - corrections.dropped
        return {row: _shown(moves[images[row]]) for row in relabelled}

    def _moves(self, corrections: Corrections) -> dict[str, str]:
        """Return the new path of each file by its old path."""
        new_folders = {row: self._folder_name(label) for row, label in corrections.labels.items()}
        places = _Places()
        listing = self._listing
        others = (*listing.stray_images, *listing.outside, *listing.others)
        moves = {name: places.take(name) for name in others}
        staying = [row for row in range(len(self)) if row not in new_folders]
        # Images that stay come first, so that moved images cannot take their names.
        for row in (*staying, *new_folders):
            if row not in corrections.dropped:
                name = listing.images[row]
                _, _, below = name.partition("/")
                new = f"{new_folders[row]}/{below}" if row in new_folders else name
                moves[name] = places.take(new)
        return moves

    def _folder_name(self, label: Label) -> str:
        if not self._class_names:
            number = float(label)
            return self._folder_of.get(number, number_text(number))
        name = str(label)
        if name in self._class_names:
            return self._folder_of[self._class_names.index(name)]
        bad = not name.strip() or name.startswith(".") or any(c in name for c in "/\\\0")
        if bad or len(os.fsencode(name)) > LONGEST_NAME:
            raise SourceError(
                f"a class cannot be named {name!r}, because a folder cannot: choose another name"
            )
        return name


class _Places:
    """Paths that are taken. Letter case is ignored, as on some file systems."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def take(self, wanted: str) -> str:
        path, number = PurePosixPath(wanted), 0
        place = path
        while str(place).casefold() in self.taken:
            number += 1
            place = path.with_name(f"{path.stem}-{number}{path.suffix}")
        self.taken.add(str(place).casefold())
        return str(place)


@dataclass
class FolderListing:
    """The files in a folder of images: sorted relative paths with ``/``, without hidden files."""

    images: list[str] = field(default_factory=list)
    """Images in the subfolder of a class, or deeper."""
    stray_images: list[str] = field(default_factory=list)
    """Images next to the subfolders, which have no class."""
    outside: list[str] = field(default_factory=list)
    """Links that have the name of an image but lead out of the folder."""
    others: list[str] = field(default_factory=list)
    """Files without the suffix of an image."""
    empty_classes: list[str] = field(default_factory=list)

    def left_out(self) -> list[LeftOut]:
        """Return the images that are in no class or outside the folder."""
        stray = [LeftOut(_shown(name), "not in a class folder") for name in self.stray_images]
        links = [LeftOut(_shown(name), "a link that leads out of it") for name in self.outside]
        return [*stray, *links]

    def notes(self) -> tuple[str, ...]:
        """Return sentences about files and folders that are ignored."""
        notes = []
        if self.others:
            endings = Counter(PurePosixPath(name).suffix or "no ending" for name in self.others)
            shown = ", ".join(f"{n:,} {end}" for end, n in endings.most_common(ENDINGS_IN_A_NOTE))
            notes.append(f"files without the suffix of an image: {shown}")
        if self.empty_classes:
            shown = ", ".join(repr(name) for name in self.empty_classes[:ENDINGS_IN_A_NOTE])
            more = len(self.empty_classes) - ENDINGS_IN_A_NOTE
            rest = f" and {more:,} more" if more > 0 else ""
            notes.append(f"folders without an image: {shown}{rest}")
        return tuple(notes)


def list_folder(folder: Path) -> FolderListing:
    """List a folder of images, or raise a `SourceError` that describes the expected layout."""
    listing = FolderListing()
    try:
        top = _entries(folder)
        classes = [entry.name for entry in top if entry.is_dir()]
        beside = [entry.name for entry in top if not entry.is_dir()]
        for name in classes:
            files = _files_below(folder / name, name + "/", frozenset())
            named_so = [file for file in files if _is_image(file)]
            images = [file for file in named_so if _is_within(folder, file)]
            listing.images += images
            listing.outside += sorted(set(named_so) - set(images))
            listing.others += [file for file in files if not _is_image(file)]
            if not images:
                listing.empty_classes.append(name)
    except OSError as error:
        raise SourceError(f"cannot read the folder {error.filename} ({error.strerror})") from error
    listing.stray_images = [name for name in beside if _is_image(name)]
    listing.others += [name for name in beside if not _is_image(name)]
    _require_classes(folder, classes, listing)
    return listing


def _is_within(folder: Path, name: str) -> bool:
    """Return whether a file is in the folder. Links may lead to files that must not be shown."""
    file = folder / name
    return file.resolve().is_relative_to(folder.resolve())


def _require_classes(folder: Path, classes: list[str], listing: FolderListing) -> None:
    how = (
        "put the images of each class into a subfolder with the name of the class, or pass a "
        "table of paths and labels"
    )
    if not listing.images and listing.stray_images:
        raise SourceError(f"the images in {folder} are not in class folders: {how}")
    if not listing.images and listing.outside:
        raise SourceError(
            f"the images in {folder} are links that lead out of it, e.g. {listing.outside[0]}: "
            "audit the folder that they lead to, or pass a table of paths and labels"
        )
    if not listing.images:
        raise SourceError(f"there are no images in {folder}: {how}")
    with_images = [name for name in classes if name not in listing.empty_classes]
    if all(name.lower() in SPLITS for name in with_images):
        raise SourceError(
            f"the folders in {folder} are splits of a dataset, not classes "
            f"({', '.join(with_images)}): audit one of them, e.g. {folder / with_images[0]}"
        )


def _files_below(folder: Path, prefix: str, above: frozenset[tuple[int, int]]) -> list[str]:
    status = folder.stat()
    here = (status.st_dev, status.st_ino)
    if here in above:  # a link to a folder that contains it
        return []
    files = []
    for entry in _entries(folder):
        if entry.is_dir():
            files += _files_below(folder / entry.name, f"{prefix}{entry.name}/", above | {here})
        else:
            files.append(prefix + entry.name)
    return files


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    return sorted(shown, key=lambda entry: entry.name)


def _is_image(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in SUFFIXES


def _shown(name: str) -> str:
    """Return the name of a file as valid text, because names need not be UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _copy(source: Path, folder: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    file = source.resolve()
    if file.exists() and file.is_relative_to(folder.resolve()):
        shutil.copy2(file, target)
    else:  # a link out of the folder, or a broken link, remains a link
        target.symlink_to(file if file.exists() else source.readlink())
