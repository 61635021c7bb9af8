"""A folder of images with one subfolder per class."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath

from discrimloss.auditing.sources.base import (
    Corrections,
    Label,
    LeftOut,
    SourceError,
    SourceOptions,
)
from discrimloss.auditing.sources.folder_listing import FolderListing, list_folder
from discrimloss.auditing.sources.image_source import ImageSource
from discrimloss.auditing.sources.labels import read_labels
from discrimloss.auditing.sources.picture_check import check_pictures, file_stamp
from discrimloss.auditing.sources.pictures import PictureFacts

LONGEST_NAME = 255
"""Of a folder, in bytes, on the file systems in use."""


class ImageFolder(ImageSource):
    """Images whose label is the name of the subfolder they lie in, directly or deeper.

    Their names are the paths relative to the folder. To open it is to decode every image once,
    since nothing else shows which can be read; a cache remembers that.

    Args:
        options: ``path`` is the folder.
        cache: a directory that remembers which images can be read.
    """

    def __init__(self, options: SourceOptions, cache: Path | None = None) -> None:
        options.refuse(
            ("label", "text", "image", "id"),
            because="in a folder of images the subfolders are the labels",
        )
        self.options = options
        self.folder = Path(options.path)
        listing = list_folder(self.folder)
        answers = check_pictures(
            [file_stamp(self.folder / name) for name in listing.images],
            lambda row: (self.folder / listing.images[row]).read_bytes(),
            cache,
        )
        answered = list(zip(listing.images, answers, strict=True))
        readable = [(name, fact) for name, fact in answered if isinstance(fact, PictureFacts)]
        self.names = tuple(name for name, _ in readable)
        self.facts = tuple(fact for _, fact in readable)
        self.ids = tuple(_shown(name) for name in self.names)
        self._kept_as_they_are = _without(listing, set(self.names))
        unreadable = [LeftOut(_shown(name), why) for name, why in answered if isinstance(why, str)]
        stray = [LeftOut(_shown(name), "in no class folder") for name in listing.stray_images]
        links = [LeftOut(_shown(name), "a link that leads out of it") for name in listing.outside]
        self.left_out = (*unreadable, *stray, *links)
        self._read_labels(listing, len(unreadable))

    def read(self, index: int) -> bytes:
        """The file of a sample."""
        return (self.folder / self.names[index]).read_bytes()

    def require_class(self, name: str) -> None:
        """Raise a `SourceError` if no folder can have this name."""
        self._folder_name(name)

    def write_corrected(self, corrections: Corrections, directory: Path) -> list[Path]:
        """The same folder once more, each image in the folder of its class.

        Files are copies. An image whose name is taken in its new folder gets a number. Files that
        were left out lie where they lay; a link that leads out of the folder stays one.
        """
        moves = self._moves(corrections)
        written = directory / (self.folder.name or "images")
        unfinished = directory / (written.name + ".unfinished")
        try:
            for name, new in moves.items():
                _copy(self.folder / name, self.folder, unfinished / new)
            unfinished.mkdir(parents=True, exist_ok=True)  # if everything was dropped
            unfinished.rename(written)
        except OSError as error:
            raise SourceError(
                f"cannot write {written} ({error.strerror or error}): nothing is left of it"
            ) from error
        finally:  # also after an interruption
            shutil.rmtree(unfinished, ignore_errors=True)
        return [written]

    def corrected_ids(self, corrections: Corrections) -> dict[int, str]:
        """The path of every image that moves."""
        moves = self._moves(corrections)
        return {
            index: _shown(moves[self.names[index]])
            for index in corrections.labels
            if index not in corrections.dropped
        }

    def _moves(self, corrections: Corrections) -> dict[str, str]:
        """From what the files are called to what they will be called."""
        new_folders = {
            index: self._folder_name(label) for index, label in corrections.labels.items()
        }
        places = _Places()
        moves = {name: places.take(name) for name in self._kept_as_they_are}
        staying = [i for i in range(len(self)) if i not in new_folders]
        # Those that stay come first: an image that moves must not take their names.
        for index in (*staying, *new_folders):
            if index not in corrections.dropped:
                name = self.names[index]
                _, _, below = name.partition("/")
                new = f"{new_folders[index]}/{below}" if index in new_folders else name
                moves[name] = places.take(new)
        return moves

    def _read_labels(self, listing: FolderListing, num_unreadable: int) -> None:
        if len(self.names) < 2:
            raise SourceError(
                f"only {len(self.names)} of {len(listing.images):,} images in {self.folder} can "
                f"be read, and an audit needs two: {self.left_out[0].id} {self.left_out[0].reason}"
                if num_unreadable
                else f"there is one image in {self.folder}: an audit needs two or more"
            )
        folders = [name.partition("/")[0] for name in self.names]
        if len(set(folders)) < 2:
            raise SourceError(
                f"all images in {self.folder} are in one folder, {_shown(folders[0])!r}: an audit "
                "needs one subfolder for each of two or more classes"
            )
        # Names of folders are classes, also if they are numbers, unless a person says otherwise.
        labels = read_labels([_shown(name) for name in folders], self.options.regression or False)
        self.target, self.class_names = labels.target, labels.class_names
        self._folder_of: dict[float, str] = dict(zip(self.target.tolist(), folders, strict=True))
        self.notes = (*labels.notes, *listing.notes())

    def _folder_name(self, label: Label) -> str:
        if self.is_regression:
            number = float(label)
            whole = str(int(number)) if number.is_integer() else str(number)
            return self._folder_of.get(number, whole)
        name = str(label)
        if name in self.class_names:
            return self._folder_of[self.class_names.index(name)]
        bad = not name.strip() or name.startswith(".") or any(c in name for c in "/\\\0")
        if bad or len(os.fsencode(name)) > LONGEST_NAME:
            raise SourceError(
                f"a class cannot be called {name!r}, because a folder cannot: choose another name"
            )
        return name


class _Places:
    """Paths that are taken, on file systems that tell capital letters apart and that do not."""

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


def _without(listing: FolderListing, samples: set[str]) -> list[str]:
    files = (*listing.images, *listing.stray_images, *listing.outside, *listing.others)
    return [name for name in files if name not in samples]


def _shown(name: str) -> str:
    """A file's name as text that can be written: names need not be UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _copy(source: Path, folder: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    file = source.resolve()
    if file.exists() and file.is_relative_to(folder.resolve()):
        shutil.copy2(file, target)
    else:  # a link to elsewhere, or to nowhere, stays one
        target.symlink_to(file if file.exists() else source.readlink())
