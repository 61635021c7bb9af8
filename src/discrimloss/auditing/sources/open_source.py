"""Open a source: a file, a folder, or data in memory."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.sources.base import AuditSource, SourceError, SourceOptions
from discrimloss.auditing.sources.labels import read_samples
from discrimloss.auditing.sources.rows import FileRows, LabelColumn, Rows

if TYPE_CHECKING:
    from discrimloss.auditing.sources.images import PictureRows

FEATURE_SUFFIXES = (".npz", ".npy")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
SAVED_DATASET_FILES = ("dataset_info.json", "dataset_dict.json", "state.json")
COLUMNS_SHOWN, LONGEST_SHOWN = 12, 200
"""Beside a picture."""
_ROWS_LOOKED_AT = 20


def open_source(options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """Open the file or the folder at ``options.path``; its kind follows from what is there.

    Args:
        options: how to read it.
        cache: a directory that makes the next opening faster, such as the one of
            `AuditSource.task`: it remembers which images can be read.

    Raises:
        SourceError: there is nothing to audit, or the options do not fit it.
    """
    path = Path(options.path)
    suffix = path.suffix.lower()
    if path.is_dir():
        if any((path / name).is_file() for name in SAVED_DATASET_FILES):
            from discrimloss.auditing.sources.hugging_face import open_saved_dataset

            return open_saved_dataset(options, cache)
        from discrimloss.auditing.sources.image_folder import open_image_folder

        return open_image_folder(options, cache)
    if not path.exists():
        raise SourceError(f"there is no file or folder {path}: check the path")
    if suffix in FEATURE_SUFFIXES:
        from discrimloss.auditing.sources.array_files import open_array_file

        return open_array_file(options)
    if suffix in TABLE_SUFFIXES:
        return open_table(open_table_file(path), options, cache)
    raise SourceError(
        f"cannot audit {path}: it must be a folder of images, a dataset saved to disk, or a file "
        f"that ends in one of {', '.join((*TABLE_SUFFIXES, *FEATURE_SUFFIXES))}"
    )


def open_data(data: Any, options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """Open data in memory, or a path.

    Args:
        data: a pandas DataFrame; a pair ``(X, y)`` of inputs and labels; a ``datasets.Dataset``; a
            torch ``Dataset`` of inputs and labels; or a path, see `open_source`.
        options: how to read it. ``path`` is ignored.
        cache: see `open_source`. Without it, nothing is written to disk.

    Raises:
        SourceError: the data cannot be audited. The sentence names options as arguments of Python.
    """
    options = replace(
        options,
        label=_name(options.label),
        text=_name(options.text),
        image=_name(options.image),
        id=_name(options.id),
    )
    try:
        if isinstance(data, (str, Path)):
            path = str(Path(data).expanduser().absolute())
            source = open_source(replace(options, path=path), cache)
        else:
            from discrimloss.auditing.sources.in_memory import open_in_memory

            source = open_in_memory(data, replace(options, path=""), cache)
    except SourceError as error:
        raise SourceError(in_python(str(error))) from error
    source.notes = tuple(in_python(note) for note in source.notes)
    return source


def _name(column: Any) -> str | None:
    """The name of a column; those of a DataFrame may be numbers."""
    return None if column is None else str(column)


def in_python(sentence: str) -> str:
    """Rewrite options of the command line as arguments of Python: ``--label X`` as ``label=``."""
    for option, argument in (
        (r"--no-regression", "regression=False"),
        (r"--(regression|resume|overwrite)", r"\1=True"),
        (r"--(label|text|image|id|encoder) '", r"\1='"),
        (r"--(label|text|image|id|encoder|out)( [A-Z]+)?\b", r"\1="),
    ):
        sentence = re.sub(rf"(?<![\w-]){option}", argument, sentence)
    return sentence


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
    from discrimloss.auditing.sources.table import Columns

    options.refuse(("encoder",), "name the column that it is to read, --text or --image")
    store = LabelColumn(rows, options)
    samples = read_samples(store, options)
    hidden = {store.column} if options.id is None else {store.column, options.id}
    return AuditSource(
        options, store, samples, Columns(rows, samples, hidden, label_column=store.column)
    )


def _open_texts(rows: Rows, options: SourceOptions) -> AuditSource:
    from discrimloss.auditing.sources.text import text_source

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
    from discrimloss.auditing.sources.images import picture_files

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
    from discrimloss.auditing.sources.pictures import SUFFIXES

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
