"""Pictures that the rows of a table lead to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from discrimloss.auditing.sources.base import SourceError, SourceOptions
from discrimloss.auditing.sources.image_source import ImageSource
from discrimloss.auditing.sources.labelled_rows import LabelledRows
from discrimloss.auditing.sources.picture_check import check_pictures, file_stamp
from discrimloss.auditing.sources.pictures import PictureFacts
from discrimloss.auditing.sources.rows import Rows

NO_IMAGE = "no image"
COLUMNS_SHOWN = 12
LONGEST_SHOWN = 200


class ImageRows(LabelledRows, ImageSource):
    """Samples that are pictures, one per row of something that has rows.

    Args:
        rows: with the labels.
        options: what a person said.
        read_row: the encoded picture of a row, by its number.
        stamps: per row a text that changes whenever its picture does; None for a row without one.
        cache: a directory that remembers which pictures can be read.
    """

    kind = "images"

    def __init__(
        self,
        rows: Rows,
        options: SourceOptions,
        read_row: Callable[[int], bytes],
        stamps: Sequence[str | None],
        cache: Path | None,
    ) -> None:
        self._read_row = read_row
        numbers = [number for number, stamp in enumerate(stamps) if stamp is not None]
        answers = check_pictures(
            [stamp for stamp in stamps if stamp is not None],
            lambda place: read_row(numbers[place]),
            cache,
        )
        unusable = {number: NO_IMAGE for number, stamp in enumerate(stamps) if stamp is None}
        facts = {}
        for number, answer in zip(numbers, answers, strict=True):
            if isinstance(answer, PictureFacts):
                facts[number] = answer
            else:
                unusable[number] = answer
        super().__init__(rows, options, unusable)
        self.facts = [facts[number] for number in self.row_numbers.tolist()]

    def read(self, index: int) -> bytes:
        """The encoded picture of a sample."""
        return self._read_row(int(self.row_numbers[index]))

    def view_fields(self, index: int) -> tuple[tuple[str, str], ...]:
        """The row, without its label."""
        row = self.rows.row(int(self.row_numbers[index]))
        others = [(name, value) for name, value in row if name != self.label_column]
        return tuple((name, value[:LONGEST_SHOWN]) for name, value in others[:COLUMNS_SHOWN])

    def fingerprint(self) -> str:
        """A checksum of the table and of the facts of its pictures."""
        content = repr((super().fingerprint(), self.facts))
        return hashlib.sha256(content.encode()).hexdigest()[:32]


class ImageTable(ImageRows):
    """A table with a column of paths, relative to the table's folder or absolute.

    Where every path is there once, the paths are the names of the samples.

    Args:
        rows: of the table.
        options: ``image`` names the column of paths.
        cache: a directory that remembers which images can be read.
    """

    def __init__(self, rows: Rows, options: SourceOptions, cache: Path | None = None) -> None:
        if options.image is None:
            raise SourceError(f"say which column of {rows.name} holds the images, --image COLUMN")
        folder = Path(options.path).parent
        paths = rows.texts(rows.require(options.image, "--image"))
        files = [folder / path if path and path.strip() else None for path in paths]
        if options.id is None and None not in files and len(set(files)) == len(files):
            options = replace(options, id=options.image)

        def read_row(number: int) -> bytes:
            file = files[number]
            return b"" if file is None else file.read_bytes()

        stamps = [None if file is None else file_stamp(file) for file in files]
        super().__init__(rows, options, read_row, stamps, cache)
        self._has_relative_paths = any(path and not Path(path).is_absolute() for path in paths)

    def note_on_corrected(self) -> str | None:
        """Relative paths are those of the source."""
        if not self._has_relative_paths:
            return None
        return (
            f"Its paths are relative to {Path(self.options.path).parent}: move it there to use it."
        )
