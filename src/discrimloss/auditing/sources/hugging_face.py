"""Datasets of the Hugging Face datasets library, saved to disk or in memory."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.sources.base import AuditSource, Label, SourceError, SourceOptions
from discrimloss.auditing.sources.images import PictureRows
from discrimloss.auditing.sources.open_table import open_pictures, open_table
from discrimloss.auditing.sources.pictures import cell_picture
from discrimloss.auditing.sources.tables import Rows
from discrimloss.auditing.sources.values import (
    arrow_series,
    arrow_value,
    as_text,
    kept_rows,
    relabelled_column,
)

if TYPE_CHECKING:
    import pandas

USUAL_SPLIT = "train"
USUAL_LABELS = ("label", "labels", "target", "class")


def open_saved_dataset(options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """Open a dataset that ``save_to_disk`` wrote.

    Args:
        options: ``path`` is the folder of the dataset or of one of its splits.
        cache: a directory that stores which images can be read.
    """
    path = Path(options.path)
    try:
        loaded = datasets_library().load_from_disk(str(path))
    except SourceError:
        raise
    except Exception as error:  # the library raises many types for a damaged folder
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise SourceError(f"cannot read {path} as a saved dataset: {reason}") from error
    return open_dataset(loaded, path.name, options, cache)


def open_dataset(
    dataset: Any, name: str, options: SourceOptions, cache: Path | None = None
) -> AuditSource:
    """Open a dataset as images, texts or a table, depending on its features and the options.

    Args:
        dataset: a ``datasets.Dataset``, or a ``DatasetDict`` whose training split is audited.
        name: name for messages.
        options: how to read it.
        cache: see `open_saved_dataset`.
    """
    rows = DatasetRows(dataset, name, options.path)
    if options.text is not None and options.image is not None:
        raise SourceError("--text and --image exclude each other: pass only one of them")
    notes = [] if rows.split is None else [f"the split {rows.split!r} is audited"]
    if options.label is None and (label := _label_column(rows)) is not None:
        options = replace(options, label=label)
        notes.append(f"the labels are the column {label!r}")
    image = None if options.text is not None else _image_column(rows, options)
    if image is not None:
        source = _open_images(rows, replace(options, image=image), cache)
    else:
        source = open_table(rows, options, cache)
    source.notes = (*notes, *source.notes)
    return source


def datasets_library() -> Any:
    """Import the datasets library, or raise a `SourceError` that says how to install it."""
    try:
        import datasets
    except ImportError as error:
        raise SourceError(
            "a saved dataset needs the datasets library: pip install 'discrimloss[datasets]'"
        ) from error
    return datasets


class DatasetRows(Rows):
    """The rows of a dataset. Class numbers are replaced by the names in its features.

    Args:
        dataset: a dataset, or several splits, of which the training split is used.
        name: name for messages.
        path: path of a saved dataset, for messages.
    """

    def __init__(self, dataset: Any, name: str, path: str = "") -> None:
        library = datasets_library()
        self.name = name
        self.file_name = name if path else "corrected"
        self.split: str | None = None
        self._loaded = dataset
        if isinstance(dataset, library.DatasetDict):
            self.split = _chosen_split(name, path, list(dataset))
            dataset = dataset[self.split]
        if dataset._indices is not None:  # selected or shuffled rows are copied in their order
            with _quiet(library):
                dataset = dataset.flatten_indices(keep_in_memory=True)
        self.dataset = dataset.with_format(None)
        self.columns = tuple(self.dataset.column_names)
        self.table: Any = self.dataset.data.table
        self.require_rows()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def columns_of(self, *kinds: str) -> list[str]:
        """Return the columns with a feature of one of these classes."""
        features = self.dataset.features
        return [name for name in self.columns if type(features[name]).__name__ in kinds]

    def series(self, column: str) -> pandas.Series:
        """Return an unchanged column, in which -1 is a missing label."""
        series: pandas.Series = arrow_series(self.table.column(column))
        names = self._class_names(column)
        if names is None:
            return series
        numbers = series.fillna(-1).astype(np.int64)
        wrong = numbers[(numbers < -1) | (numbers >= len(names))]
        if len(wrong):
            raise SourceError(
                f"the column {column!r} of {self.name} contains {wrong.iloc[0]}, but has names "
                f"for only {len(names)} classes"
            )
        return numbers.map(dict(enumerate(names)))

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the names and values of a row, with paths for images and sounds."""
        [values] = self.table.slice(number, 1).to_pylist()
        return tuple((name, self._shown(name, values[name])) for name in self.columns)

    def checksum(self) -> str:
        """Return the library's fingerprint, which changes with every change of the dataset."""
        return repr((self.split, self.dataset._fingerprint, len(self)))

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Save the dataset with all splits and the same features. A new class is added."""
        if path.suffix.lower() in (".csv", ".tsv", ".parquet", ".jsonl", ".npz"):
            raise SourceError(f"cannot write {path}: a dataset is saved to a folder")
        corrected = self.corrected(new_labels, column, dropped)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".unfinished")
        try:
            with _quiet(datasets_library()):
                corrected.save_to_disk(str(unfinished))
            unfinished.rename(path)
        except OSError as error:
            raise SourceError(f"cannot write {path}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def corrected(
        self, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> Any:
        """Return a dataset of all splits with the same features. A new class is added."""
        with _quiet(datasets_library()):
            changed = self._relabelled(new_labels, column)
            if dropped:
                changed = changed.select(kept_rows(len(self), dropped), keep_in_memory=True)
            return self._with_other_splits(changed, column)

    def require_label(self, label: Label, column: str) -> None:
        """Raise a `SourceError` if the type of a column cannot store a label."""
        if self._class_names(column) is None:
            arrow_value(label, self.dataset.data.table.schema.field(column).type, column)

    def _relabelled(self, new_labels: Mapping[int, Label], column: str) -> Any:
        dataset, values = self.dataset, new_labels
        names = self._class_names(column)
        if names is not None:
            added = sorted({str(label) for label in new_labels.values()} - set(names))
            names = [*names, *added]
            values = {row: names.index(str(label)) for row, label in new_labels.items()}
            if added:
                feature = datasets_library().ClassLabel(names=names)
                dataset = _with_feature(dataset, column, feature)
        if not new_labels:
            return dataset
        table = dataset.data.table
        place = table.schema.get_field_index(column)
        labels = relabelled_column(table.column(place), values, column)
        table = table.set_column(place, table.schema.field(place), labels)
        library = datasets_library()
        return library.Dataset(
            library.table.InMemoryTable(table), info=dataset.info, split=dataset.split
        )

    def _with_other_splits(self, changed: Any, column: str) -> Any:
        if self.split is None:
            return changed
        feature = changed.features[column]
        splits = {}
        for name, split in self._loaded.items():
            # All splits have the same classes.
            has_old = column in split.features and split.features[column] != feature
            splits[name] = _with_feature(split, column, feature) if has_old else split
        return datasets_library().DatasetDict({**splits, self.split: changed})

    def _class_names(self, column: str) -> list[str] | None:
        feature = self.dataset.features[column]
        return list(feature.names) if type(feature).__name__ == "ClassLabel" else None

    def _shown(self, column: str, value: Any) -> str:
        names = self._class_names(column)
        if names is not None and value is not None and 0 <= value < len(names):
            return str(names[value])
        if isinstance(value, Mapping) and "bytes" in value:
            kind = type(self.dataset.features[column]).__name__.lower()
            return str(value.get("path") or f"({kind})")
        return as_text(value)


def _with_feature(dataset: Any, column: str, feature: Any) -> Any:
    """Return the dataset with another feature of the same type. A cast would write files."""
    library = datasets_library()
    info = dataset.info.copy()
    info.features = library.Features({**dataset.features, column: feature})
    return library.Dataset(
        dataset.data, info=info, split=dataset.split, indices_table=dataset._indices
    )


def _chosen_split(name: str, path: str, splits: list[str]) -> str:
    if USUAL_SPLIT in splits:
        return USUAL_SPLIT
    if len(splits) == 1:
        return splits[0]
    first = splits[0] if splits else ""
    example = str(Path(path) / first) if path else f"data[{first!r}]"
    raise SourceError(
        f"{path or name} has the splits {', '.join(splits)}: audit one of them, e.g. {example}"
    )


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """Hide the progress bars of the library."""
    was_on = library.is_progress_bar_enabled()
    library.disable_progress_bars()
    try:
        yield
    finally:
        if was_on:
            library.enable_progress_bars()


def _open_images(rows: DatasetRows, options: SourceOptions, cache: Path | None) -> AuditSource:
    column: Any = rows.table.column(options.image)
    mark = rows.checksum()
    is_missing = column.is_null().to_pylist()
    stamps = [None if missing else f"{mark} {row}" for row, missing in enumerate(is_missing)]
    pictures = PictureRows(lambda row: cell_picture(column[row].as_py()), stamps, cache)
    return open_pictures(rows, pictures, options, options.image)


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
                f"the column {options.image!r} of {rows.name} contains no images (--image): "
                f"{'images are in ' + ', '.join(columns) if columns else 'no column does'}"
            )
        return options.image
    if len(columns) > 1:
        raise SourceError(
            f"choose the column of {rows.name} with the images, --image COLUMN: "
            f"it has {', '.join(columns)}"
        )
    return columns[0] if columns else None
