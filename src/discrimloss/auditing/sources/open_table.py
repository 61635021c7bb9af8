"""Opens a table as texts, as images, or as columns to learn from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from discrimloss.auditing.sources.base import (
    AuditSource,
    Samples,
    SourceError,
    SourceOptions,
    Store,
)
from discrimloss.auditing.sources.column_reading import looks_like_id
from discrimloss.auditing.sources.columns import Columns, plan_table
from discrimloss.auditing.sources.found_encoders import named
from discrimloss.auditing.sources.images import PictureRows, picture_files
from discrimloss.auditing.sources.labels import read_samples
from discrimloss.auditing.sources.pictures import SUFFIXES
from discrimloss.auditing.sources.tables import LabelColumn, Rows
from discrimloss.auditing.sources.text import joined_texts, text_source

COLUMNS_SHOWN, LONGEST_SHOWN = 12, 200
"""Maximum number of columns next to an image, and of characters of each value."""
NUMBERINGS = ("index", "idx", "nr", "key", "rownum")
"""Columns with these names identify rows, but are not used as sample ids."""
_ROWS_LOOKED_AT = 20


def open_table(rows: Rows, options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """Open a table of texts, of images, or of columns to learn from.

    Args:
        rows: rows of the table.
        options: `text` or `image` names the column to learn from. By default, a column of paths to
            images is used if there is exactly one, and otherwise all columns.
        cache: see `open_source`.
    """
    if options.text is not None and options.image is not None:
        raise SourceError("--text and --image exclude each other: pass only one of them")
    if options.columns is not None and (options.text or options.image):
        raise SourceError("--columns excludes --text and --image: pass only one of them")
    column = None if options.text is not None else _image_column(rows, options)
    if column is not None:
        return _open_image_paths(rows, replace(options, image=column), cache)
    id_column = _id_column(rows, options)
    if id_column is not None:
        options = replace(options, id=id_column)
    store = LabelColumn(rows, options)
    if id_column is not None:
        store.notes = (*store.notes, f"sample ids are the column {id_column!r}")
    if options.text is not None:
        texts = rows.texts(rows.require(options.text, "--text"))
        return text_source(options, store, texts, [options.text])
    hidden = (store.column, options.id)
    samples = read_samples(store, options)
    return columns_source(rows, store, samples, options, hidden)


def columns_source(
    rows: Rows,
    store: Store,
    samples: Samples,
    options: SourceOptions,
    hidden: Collection[str | None] = (),
) -> AuditSource:
    """Return a source of the columns of a table, or of texts if there are no other columns.

    Args:
        rows: rows of the table.
        store: the labels, one per row.
        samples: the rows that can be audited.
        options: `columns` names the columns to learn from.
        hidden: columns that are not inputs and that reviewers do not see: labels and ids.
    """
    plan = plan_table(rows, samples, hidden, options.columns)
    has_encoder = named(options.encoder) is not None
    if options.detect and plan.texts and (has_encoder or not plan.table):
        texts = joined_texts([rows.texts(name) for name in plan.texts])
        source = text_source(options, store, texts, plan.texts)
        source.notes = (*source.notes, *plan.notes)
        source.warnings = plan.warnings
        return source
    if has_encoder:
        options.refuse(("encoder",), "choose the column for the encoder, --text or --image")
    return AuditSource(options, store, samples, Columns(rows, samples, plan, hidden))


def _id_column(rows: Rows, options: SourceOptions) -> str | None:
    """Return a column that identifies the rows, by its name and values."""
    if not options.detect or options.id is not None or rows.has_ids:
        return None
    apart = (options.label, options.text, options.image, *(options.columns or ()))
    for name in sorted(rows.columns, key=lambda name: name.strip().casefold() != "id"):
        lowered = name.strip().casefold()
        is_numbering = lowered in NUMBERINGS or lowered.startswith("unnamed")
        if name in apart or is_numbering or not looks_like_id(name):
            continue
        values = rows.texts(name)
        if None not in values and len(set(values)) == len(values):
            return name
    return None


def open_pictures(
    rows: Rows, pictures: PictureRows, options: SourceOptions, *hidden: str | None
) -> AuditSource:
    """Open a table with one image per row.

    Args:
        rows: rows of the table.
        pictures: images, one per row.
        options: how to read the labels.
        hidden: columns that reviewers do not see next to the image.
    """
    store = LabelColumn(rows, options)
    samples = read_samples(store, options, pictures.unusable)

    def fields(index: int) -> tuple[tuple[str, str], ...]:
        row = store.fields(int(samples.rows[index]), *hidden)
        return tuple((name, value[:LONGEST_SHOWN]) for name, value in row[:COLUMNS_SHOWN])

    return pictures.source(options, store, samples, fields)


def _open_image_paths(rows: Rows, options: SourceOptions, cache: Path | None) -> AuditSource:
    """Open a table with a column of paths, absolute or relative to the folder of the table.

    If the paths are unique, they are the ids of the samples.
    """
    folder = Path(options.path).parent
    paths = rows.texts(rows.require(options.image or "", "--image"))
    files = [folder / path if path and path.strip() else None for path in paths]
    is_unnamed = options.id is None and not rows.has_ids
    if is_unnamed and None not in files and len(set(files)) == len(files):
        options = replace(options, id=options.image)
    source = open_pictures(rows, picture_files(files, cache), options)
    if options.path and any(path and not Path(path).is_absolute() for path in paths):
        source.store.note_on_corrected = (
            f"Its paths are relative to {folder}: move the file there to use it."
        )
    return source


def _image_column(rows: Rows, options: SourceOptions) -> str | None:
    """Return the given column, or the only one whose first values are paths of existing images."""
    if options.image is not None:
        return rows.require(options.image, "--image")
    folder = Path(options.path).parent
    first_rows = [dict(rows.row(number)) for number in range(min(len(rows), _ROWS_LOOKED_AT))]
    found = []
    for column in rows.columns:
        names = [row[column] for row in first_rows if row[column]]
        if column == options.label or not names:
            continue
        if all(name.lower().endswith(tuple(SUFFIXES)) for name in names) and any(
            (folder / name).is_file() for name in names
        ):
            found.append(column)
    return found[0] if len(found) == 1 else None
