"""A Hugging Face dataset, saved to disk: images, texts or a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from discrimloss.auditing.sources.base import AuditSource, SourceError, SourceOptions
from discrimloss.auditing.sources.dataset_rows import DatasetRows
from discrimloss.auditing.sources.image_table import ImageRows
from discrimloss.auditing.sources.tables import Table, TextTable

USUAL_LABELS = ("label", "labels", "target", "class")
USUAL_TEXTS = ("text", "sentence", "content", "review", "question", "document")
LOOKED_AT = 1_000
WORDS_OF_A_TEXT = 4
"""On average: categories have fewer."""


def open_saved_dataset(options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """The source that a saved dataset is: what its features say, or what a person said.

    Args:
        options: ``path`` is what ``save_to_disk`` wrote, or the folder of one split of it.
        cache: a directory that remembers which images can be read.
    """
    rows = DatasetRows(Path(options.path))
    if options.text is not None and options.image is not None:
        raise SourceError("--text and --image cannot both be given: an audit learns from one")
    notes = [] if rows.split is None else [f"the split {rows.split!r} is audited"]
    if options.label is None and (label := _label_column(rows)) is not None:
        options = replace(options, label=label)
        notes.append(f"the labels are the column {label!r}")
    source = _open_rows(rows, options, cache, notes)
    source.notes = (*notes, *source.notes)
    return source


def _open_rows(
    rows: DatasetRows, options: SourceOptions, cache: Path | None, notes: list[str]
) -> AuditSource:
    if options.text is not None:
        return TextTable(rows, options)
    if (image := _image_column(rows, options)) is not None:
        return DatasetImages(rows, replace(options, image=image), cache)
    if (text := _text_column(rows, options)) is not None:
        notes.append(f"the texts are the column {text!r}")
        return TextTable(rows, replace(options, text=text))
    return Table(rows, options)


class DatasetImages(ImageRows):
    """The pictures in a column of a saved dataset.

    Args:
        rows: of the dataset.
        options: ``image`` names the column.
        cache: a directory that remembers which pictures can be read.
    """

    def __init__(self, rows: DatasetRows, options: SourceOptions, cache: Path | None) -> None:
        column: Any = rows.table.column(options.image)
        is_missing = column.is_null().to_pylist()
        mark = rows.checksum()
        stamps = [None if missing else f"{mark} {row}" for row, missing in enumerate(is_missing)]
        super().__init__(rows, options, lambda row: _picture(column[row].as_py()), stamps, cache)

    def view_fields(self, index: int) -> tuple[tuple[str, str], ...]:
        """The row, without its label and its picture."""
        fields = super().view_fields(index)
        return tuple(field for field in fields if field[0] != self.options.image)


def _picture(cell: Any) -> bytes:
    if cell["bytes"] is not None:
        encoded: bytes = cell["bytes"]
        return encoded
    if not cell["path"]:
        return b""
    return Path(cell["path"]).read_bytes()


def _label_column(rows: DatasetRows) -> str | None:
    classes = rows.columns_of("ClassLabel")
    if len(classes) == 1:
        return classes[0]
    return next((name for name in USUAL_LABELS if name in (classes or rows.columns)), None)


def _image_column(rows: DatasetRows, options: SourceOptions) -> str | None:
    columns = rows.columns_of("Image")
    if options.image is not None:
        if rows.require(options.image, "--image") not in columns:
            raise SourceError(
                f"the column {options.image!r} of {rows.name} holds no images (--image): "
                f"{'those are in ' + ', '.join(columns) if columns else 'no column does'}"
            )
        return options.image
    if len(columns) > 1:
        raise SourceError(
            f"say which column of {rows.name} holds the images, --image COLUMN: "
            f"it has {', '.join(columns)}"
        )
    return columns[0] if columns else None


def _text_column(rows: DatasetRows, options: SourceOptions) -> str | None:
    """The only column of texts, if it reads like texts rather than like categories."""
    apart = (options.label, options.id)
    texts = [name for name in rows.string_columns() if name not in apart]
    usual = [name for name in texts if name.lower() in USUAL_TEXTS]
    if len(usual) == 1:
        return usual[0]
    if len(texts) != 1:
        return None
    others = [name for name in rows.columns if name not in (*apart, texts[0])]
    if not others:
        return texts[0]
    shown = rows.table.column(texts[0]).slice(0, LOOKED_AT).to_pylist()
    lengths = [len(text.split()) for text in shown if text]
    return texts[0] if lengths and sum(lengths) >= WORDS_OF_A_TEXT * len(lengths) else None
