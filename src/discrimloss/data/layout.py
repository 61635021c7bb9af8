"""Finds the files of a dataset below the data directory, and says precisely what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from discrimloss.data.base import DataError


@dataclass(frozen=True)
class Layout:
    """One way in which a dataset is shipped.

    Args:
        folders: where its files may lie, below the data directory; ``"."`` is the directory itself.
        files: the names of all files it needs, in one folder.
        endings: what may follow each of these names; the first that is there counts.
    """

    folders: tuple[str, ...]
    files: tuple[str, ...]
    endings: tuple[str, ...] = ("",)

    def found_in(self, folder: Path) -> dict[str, Path]:
        """The files that are in this folder, by name."""
        candidates = {
            name: [folder / f"{name}{ending}" for ending in self.endings] for name in self.files
        }
        return {
            name: next(path for path in paths if path.is_file())
            for name, paths in candidates.items()
            if any(path.is_file() for path in paths)
        }


def find_files(
    dataset: str, directory: Path, *layouts: Layout
) -> tuple[Layout, Path, dict[str, Path]]:
    """The first complete set of files: its layout, its folder, and the files by name.

    A `DataError` says which files are missing from the folder that has most of them, or where it
    looked if there is none.
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
    """The sentence for a dataset of which there is nothing at all."""
    if not directory.is_dir():
        return f"no {dataset} data, as there is no directory {directory}: {how_to_get(dataset)}"
    return f"no {dataset} data in {directory}: looked {looked}; {how_to_get(dataset)}"


def listed(folders: Sequence[str]) -> str:
    """Folders of the data directory in words."""
    words = ["the directory itself" if folder == "." else folder for folder in folders]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def how_to_get(dataset: str) -> str:
    """What to do about missing files."""
    return f"`discrimloss data fetch {dataset}` gets it or says how"
