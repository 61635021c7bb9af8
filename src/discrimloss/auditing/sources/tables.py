"""Tables of texts, of images, or of columns to learn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from discrimloss.auditing.sources.base import AuditSource, SourceError, SourceOptions
from discrimloss.auditing.sources.columns import Columns
from discrimloss.auditing.sources.images import PictureRows, picture_files
from discrimloss.auditing.sources.labels import read_samples
from discrimloss.auditing.sources.pictures import SUFFIXES
from discrimloss.auditing.sources.rows import TABLE_SUFFIXES, FileRows, LabelColumn, Rows
from discrimloss.auditing.sources.text import text_source

COLUMNS_SHOWN, LONGEST_SHOWN = 12, 200
"""Beside a picture."""
_ROWS_LOOKED_AT = 20


def open_table(rows: Rows, options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """Open a table of texts, of images, or of columns to learn from.

    Args:
        rows: of the table.
        options: `text` or `image` names the column to learn from. Without them, the only column of
            paths to images is taken, or all columns.
        cache: see `open_source`.
    """
    if options.text is not None and options.image is not None:
        raise SourceError("--text and --image cannot both be given: an audit learns from one")
    if options.text is not None:
        return _open_texts(rows, options)
    column = _image_column(rows, options)
    if column is not None:
        return _open_image_paths(rows, replace(options, image=column), cache)
    options.refuse(("encoder",), "name the column that it is to read, --text or --image")
    store = LabelColumn(rows, options)
    samples = read_samples(store, options)
    hidden = {store.column} if options.id is None else {store.column, options.id}
    return AuditSource(
        options, store, samples, Columns(rows, samples, hidden, label_column=store.column)
    )


def _open_texts(rows: Rows, options: SourceOptions) -> AuditSource:
    texts = rows.texts(rows.require(options.text or "", "--text"))
    return text_source(options, LabelColumn(rows, options), texts)


def open_pictures(
    rows: Rows, pictures: PictureRows, options: SourceOptions, *hidden: str | None
) -> AuditSource:
    """Open a table with a picture per row.

    Args:
        rows: of the table.
        pictures: one per row.
        options: how to read the labels.
        hidden: columns that reviewers do not see beside the picture.
    """
    store = LabelColumn(rows, options)
    samples = read_samples(store, options, pictures.unusable)

    def fields(index: int) -> tuple[tuple[str, str], ...]:
        row = store.fields(int(samples.rows[index]), *hidden)
        return tuple((name, value[:LONGEST_SHOWN]) for name, value in row[:COLUMNS_SHOWN])

    return pictures.source(options, store, samples, fields)


def _open_image_paths(rows: Rows, options: SourceOptions, cache: Path | None) -> AuditSource:
    """A table with a column of paths, absolute or relative to the folder of the table.

    Where every path occurs once, the paths are the ids of the samples.
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
            f"Its paths are relative to {folder}: move it there to use it."
        )
    return source


def _image_column(rows: Rows, options: SourceOptions) -> str | None:
    """The given column, or the only one whose first values are paths of images that exist."""
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


def open_table_file(path: Path) -> FileRows:
    """Open the rows of a table, whose format follows from the ending of its name.

    Raises:
        SourceError: the file is broken or holds no rows.
    """
    suffix = path.suffix.lower()
    rows: FileRows
    if suffix in (".csv", ".tsv"):
        from discrimloss.auditing.sources.csv_file import CsvRows

        rows = CsvRows(path)
    elif suffix == ".parquet":
        from discrimloss.auditing.sources.parquet_file import ParquetRows

        rows = ParquetRows(path)
    elif suffix in (".jsonl", ".ndjson"):
        from discrimloss.auditing.sources.jsonl_file import JsonlRows

        rows = JsonlRows(path)
    else:
        raise SourceError(
            f"cannot read {path} as a table: its name must end in {', '.join(TABLE_SUFFIXES)}"
        )
    rows.require_rows()
    return rows
