"""Which column of a table names files of images."""

from __future__ import annotations

from pathlib import Path

from discrimloss.auditing.sources.base import SourceOptions
from discrimloss.auditing.sources.pictures import SUFFIXES
from discrimloss.auditing.sources.rows import Rows

_LOOKED_AT = 20


def image_column(rows: Rows, options: SourceOptions) -> str | None:
    """The column that a person named, or the only one that looks like paths of images.

    It does if its first values end as names of images do and at least one of these files is there.
    """
    if options.image is not None:
        return rows.require(options.image, "--image")
    folder = Path(options.path).parent
    first_rows = [dict(rows.row(number)) for number in range(min(len(rows), _LOOKED_AT))]
    found = []
    for column in rows.columns:
        names = [row[column] for row in first_rows if row[column]]
        if column != options.label and _are_images(names, folder):
            found.append(column)
    return found[0] if len(found) == 1 else None


def _are_images(names: list[str], folder: Path) -> bool:
    if not names or not all(name.lower().endswith(tuple(SUFFIXES)) for name in names):
        return False
    return any((folder / name).is_file() for name in names)
