"""The rows of a dataset that the datasets library saved to disk."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discrimloss.auditing.sources.arrow import arrow
from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.auditing.sources.parquet_file import as_series, as_text, relabelled, require_value
from discrimloss.auditing.sources.rows import Rows
from discrimloss.judging.verdicts import import_pandas

if TYPE_CHECKING:
    import pandas

USUAL_SPLIT = "train"


def datasets_library() -> Any:
    """The datasets library, imported at first use, or a `SourceError` on how to get it."""
    try:
        import datasets
    except ImportError as error:
        raise SourceError(
            "a saved dataset needs the datasets library: pip install datasets"
        ) from error
    return datasets


class DatasetRows(Rows):
    """The rows of a saved dataset; of one with several splits, those of the training split.

    The names of classes stand for their numbers, as the dataset's features say.

    Args:
        path: the folder of the dataset, or of one of its splits.
    """

    def __init__(self, path: Path) -> None:
        library = datasets_library()
        try:
            loaded = library.load_from_disk(str(path))
        except Exception as error:  # whatever a broken folder makes the library do
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise SourceError(f"cannot read {path} as a saved dataset: {reason}") from error
        self.name = path.name
        self.split: str | None = None
        self._loaded = loaded
        if isinstance(loaded, library.DatasetDict):
            self.split = _chosen_split(path, list(loaded))
            loaded = loaded[self.split]
        self.dataset = loaded.with_format(None)
        self.columns = tuple(self.dataset.column_names)
        self.table: Any = self.dataset.data.table
        if len(self) == 0:
            raise SourceError(f"{path} holds no rows: there is nothing to audit")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def columns_of(self, *kinds: str) -> list[str]:
        """The columns with a feature of one of these classes of the library."""
        features = self.dataset.features
        return [name for name in self.columns if type(features[name]).__name__ in kinds]

    def string_columns(self) -> list[str]:
        """The columns of texts."""
        types = arrow("types")
        kinds = {name: self.table.schema.field(name).type for name in self.columns}
        return [
            name
            for name, kind in kinds.items()
            if types.is_string(kind) or types.is_large_string(kind)
        ]

    def frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Columns with their types; all of them if None."""
        names = self.columns if columns is None else columns
        series = {name: self.raw_labels(name) for name in names}
        frame: pandas.DataFrame = import_pandas().DataFrame(series)
        return frame

    def raw_labels(self, column: str) -> pandas.Series:
        """A column as it is; the number -1 stands for a label that nobody gave."""
        series: pandas.Series = as_series(self.table.column(column))
        names = self._class_names(column)
        if names is None:
            return series
        numbers = series.fillna(-1).astype(np.int64)
        wrong = numbers[(numbers < -1) | (numbers >= len(names))]
        if len(wrong):
            raise SourceError(
                f"the column {column!r} of {self.name} holds {wrong.iloc[0]}, but has the names "
                f"of {len(names)} classes only"
            )
        return numbers.map(dict(enumerate(names)))

    def texts(self, column: str) -> list[str | None]:
        """A column as texts; None where it is null or empty."""
        values = self.table.column(column).to_pylist()
        return [None if value in (None, "") else as_text(value) for value in values]

    def row(self, number: int) -> tuple[tuple[str, str], ...]:
        """Names and values of a row; pictures and sounds by their paths."""
        [values] = self.table.slice(number, 1).to_pylist()
        return tuple((name, self._shown(name, values[name])) for name in self.columns)

    def checksum(self) -> str:
        """The library's own, which every change of a dataset changes."""
        return repr((self.split, self.dataset._fingerprint, len(self)))

    def write(
        self, path: Path, new_labels: Mapping[int, Label], column: str, dropped: Collection[int]
    ) -> None:
        """Save the dataset once more: all splits, the same features. A new class is added."""
        changed = self._relabelled(new_labels, column)
        if dropped:
            is_kept = np.ones(len(self), bool)
            is_kept[list(dropped)] = False
            changed = changed.select(np.flatnonzero(is_kept))
        unfinished = path.with_name(path.name + ".unfinished")
        try:
            with _quiet(datasets_library()):
                self._with_other_splits(changed, column).save_to_disk(str(unfinished))
            unfinished.rename(path)
        except OSError as error:
            raise SourceError(f"cannot write {path}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def require_label(self, label: Label, column: str) -> None:
        """Raise a `SourceError` if the type of a column has no room for a label."""
        if self._class_names(column) is None:
            require_value(label, self.dataset.data.table.schema.field(column).type, column)

    def _relabelled(self, new_labels: Mapping[int, Label], column: str) -> Any:
        library = datasets_library()
        names = self._class_names(column)
        if names is None:
            dataset, numbers = self.dataset, new_labels
        else:
            added = sorted({str(label) for label in new_labels.values()} - set(names))
            names = [*names, *added]
            dataset = self.dataset
            if added:
                dataset = dataset.cast_column(column, library.ClassLabel(names=names))
            numbers = {row: names.index(str(label)) for row, label in new_labels.items()}
        if not new_labels:
            return dataset
        table = dataset.data.table
        place = table.schema.get_field_index(column)
        labels = relabelled(table.column(place), numbers, column)
        table = table.set_column(place, table.schema.field(place), labels)
        return library.Dataset(
            library.table.InMemoryTable(table), info=dataset.info, split=dataset.split
        )

    def _with_other_splits(self, changed: Any, column: str) -> Any:
        if self.split is None:
            return changed
        feature = changed.features[column]
        splits = {}
        for name, split in self._loaded.items():
            if name == self.split:
                splits[name] = changed
            else:  # all splits of a dataset have the same classes
                has_changed = split.features.get(column) != feature
                splits[name] = split.cast_column(column, feature) if has_changed else split
        return datasets_library().DatasetDict(splits)

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


def _chosen_split(path: Path, splits: list[str]) -> str:
    if USUAL_SPLIT in splits:
        return USUAL_SPLIT
    if len(splits) == 1:
        return splits[0]
    raise SourceError(
        f"{path} has the splits {', '.join(splits)}: audit one of them, "
        f"e.g. {path / splits[0] if splits else path}"
    )


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """No progress bars of the library."""
    was_on = library.is_progress_bar_enabled()
    library.disable_progress_bars()
    try:
        yield
    finally:
        if was_on:
            library.enable_progress_bars()
