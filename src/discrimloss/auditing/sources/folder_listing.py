"""What lies in a folder of images: one subfolder per class."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from discrimloss.auditing.sources.base import SourceError
from discrimloss.auditing.sources.pictures import SUFFIXES

PARTS_OF_A_DATASET = frozenset(
    ("train", "training", "val", "valid", "validation", "dev", "test", "testing", "holdout")
)
ENDINGS_IN_A_NOTE = 5


@dataclass
class FolderListing:
    """Paths relative to the folder, with ``/``, sorted. What is hidden is not looked at."""

    images: list[str] = field(default_factory=list)
    """In the folder of a class, or deeper."""
    stray_images: list[str] = field(default_factory=list)
    """Beside the folders of the classes."""
    outside: list[str] = field(default_factory=list)
    """Links, named as images, that lead out of the folder."""
    others: list[str] = field(default_factory=list)
    """Files that are not named as images are."""
    empty_classes: list[str] = field(default_factory=list)

    def notes(self) -> tuple[str, ...]:
        """What a person should know of files and folders that are not looked at."""
        notes = []
        if self.others:
            endings = Counter(PurePosixPath(name).suffix or "no ending" for name in self.others)
            shown = ", ".join(f"{n:,} {end}" for end, n in endings.most_common(ENDINGS_IN_A_NOTE))
            notes.append(f"files that are not named as images are: {shown}")
        if self.empty_classes:
            shown = ", ".join(repr(name) for name in self.empty_classes[:ENDINGS_IN_A_NOTE])
            more = len(self.empty_classes) - ENDINGS_IN_A_NOTE
            rest = f" and {more:,} more" if more > 0 else ""
            notes.append(f"folders without an image: {shown}{rest}")
        return tuple(notes)


def list_folder(folder: Path) -> FolderListing:
    """Everything in a folder of images, or a `SourceError` that says how it should look."""
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
        raise SourceError(f"cannot look into {error.filename} ({error.strerror})") from error
    listing.stray_images = [name for name in beside if _is_image(name)]
    listing.others += [name for name in beside if not _is_image(name)]
    _require_classes(folder, classes, listing)
    return listing


def _is_within(folder: Path, name: str) -> bool:
    """Whether a file is in the folder, and no link to elsewhere: nobody meant to show that."""
    file = folder / name
    return file.resolve().is_relative_to(folder.resolve())


def _require_classes(folder: Path, classes: list[str], listing: FolderListing) -> None:
    how = (
        "put the images of each class into a subfolder with the name of the class, or give a "
        "table of paths and labels"
    )
    if not listing.images and listing.stray_images:
        raise SourceError(f"the images in {folder} are in no folders of classes: {how}")
    if not listing.images and listing.outside:
        raise SourceError(
            f"the images in {folder} are links that lead out of it, e.g. {listing.outside[0]}: "
            "audit the folder that they lead to, or give a table of paths and labels"
        )
    if not listing.images:
        raise SourceError(f"there are no images in {folder}: {how}")
    with_images = [name for name in classes if name not in listing.empty_classes]
    if all(name.lower() in PARTS_OF_A_DATASET for name in with_images):
        raise SourceError(
            f"the folders in {folder} are parts of a dataset and not classes "
            f"({', '.join(with_images)}): audit one of them, e.g. {folder / with_images[0]}"
        )


def _files_below(folder: Path, prefix: str, above: frozenset[tuple[int, int]]) -> list[str]:
    status = folder.stat()
    here = (status.st_dev, status.st_ino)
    if here in above:  # a link to a folder that it lies in
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
