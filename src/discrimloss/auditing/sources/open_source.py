"""Opens a source: a file, a folder, or data in memory."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from discrimloss.auditing.sources.base import AuditSource, SourceError, SourceOptions
from discrimloss.auditing.sources.values import is_a

FEATURE_SUFFIXES = (".npz", ".npy")
SAVED_DATASET_FILES = ("dataset_info.json", "dataset_dict.json", "state.json")
KINDS = (
    "a pandas DataFrame, a pair (X, y), a datasets.Dataset, a torch Dataset of inputs and labels, "
    "or a path"
)


def open_source(options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """Open the file or the folder at ``options.path``. Its kind is detected.

    Args:
        options: how to read it.
        cache: a directory that makes the next opening faster, such as that of
            `AuditSource.task`. It stores which images can be read.

    Raises:
        SourceError: there is nothing to audit, or the options do not fit.
    """
    if is_url(options.path):
        from discrimloss.auditing.sources.frame_files import DatabaseRows
        from discrimloss.auditing.sources.open_table import open_table

        return open_table(DatabaseRows(options.path, options.query), options, cache)
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
    from discrimloss.auditing.sources.open_table import open_table
    from discrimloss.auditing.sources.table_files import TABLE_FORMATS, open_table_file
    from discrimloss.auditing.sources.text_files import table_suffix

    if table_suffix(path) in TABLE_FORMATS:
        return open_table(open_table_file(path, options.query), options, cache)
    raise SourceError(
        f"cannot audit {path}: it must be a folder of images, a dataset saved to disk, or a file "
        f"that ends in one of {', '.join((*TABLE_FORMATS, *FEATURE_SUFFIXES))}"
    )


def is_url(path: str) -> bool:
    """Return whether a source is the URL of a database instead of a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+_]*://", path) is not None


def absolute(source: str | Path) -> str:
    """Return an absolute path. URLs are unchanged, except for the path of an SQLite file."""
    text = str(source)
    if not is_url(text):
        return str(Path(source).expanduser().absolute())
    scheme, slashes, path = text.partition(":///")
    if scheme.startswith("sqlite") and slashes and not path.startswith("/"):
        return f"{scheme}:///{Path(path).absolute()}"
    return text


def open_data(data: Any, options: SourceOptions, cache: Path | None = None) -> AuditSource:
    """Open data in memory, or a path.

    Args:
        data: a pandas DataFrame; a pair ``(X, y)`` of inputs and labels; a ``datasets.Dataset``; a
            torch ``Dataset`` of inputs and labels; or a path, see `open_source`.
        options: how to read it. ``path`` is ignored.
        cache: see `open_source`. Without it, nothing is written to disk.

    Raises:
        SourceError: the data cannot be audited. The message names options as Python arguments.
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
            source = open_source(replace(options, path=absolute(data)), cache)
        else:
            source = _open_in_memory(data, replace(options, path=""), cache)
    except SourceError as error:
        raise SourceError(in_python(str(error))) from error
    source.notes = tuple(in_python(note) for note in source.notes)
    source.warnings = tuple(in_python(warning) for warning in source.warnings)
    return source


def _open_in_memory(data: Any, options: SourceOptions, cache: Path | None) -> AuditSource:
    if is_a(data, "pandas", "DataFrame"):
        from discrimloss.auditing.sources.in_memory import FrameRows, open_frame

        return open_frame(FrameRows(data), options, cache)
    if is_a(data, "datasets", "Dataset") or is_a(data, "datasets", "DatasetDict"):
        from discrimloss.auditing.sources.hugging_face import open_dataset

        return open_dataset(data, "the dataset", options, cache)
    if isinstance(data, tuple):
        if len(data) != 2:
            raise SourceError(
                f"the data is a tuple of {len(data)}: pass a pair (X, y) of inputs and labels"
            )
        from discrimloss.auditing.sources.in_memory import open_pair

        return open_pair(data[0], data[1], options)
    if hasattr(data, "to_pandas"):
        raise SourceError(f"cannot audit a {type(data).__name__}: pass its DataFrame, .to_pandas()")
    is_dataset = hasattr(data, "__getitem__") and not isinstance(data, (dict, np.ndarray, Tensor))
    if isinstance(data, list):
        is_dataset = all(isinstance(item, (tuple, dict)) for item in data[:1])
    if not is_dataset:
        raise SourceError(f"cannot audit a {type(data).__name__}: pass {KINDS}")
    from discrimloss.auditing.sources.torch_dataset import open_torch_dataset

    return open_torch_dataset(data, options)


def _name(column: Any) -> str | None:
    """Return the name of a column as text. In a DataFrame, it may be a number."""
    return None if column is None else str(column)


def in_python(sentence: str) -> str:
    """Replace command-line options in a sentence, such as ``--label X`` by ``label=``."""
    for option, argument in (
        (r"--no-regression", "regression=False"),
        (r"--(regression|resume|overwrite)", r"\1=True"),
        (r"--(label|text|image|id|encoder|query) '", r"\1='"),
        (r"--(label|text|image|id|encoder|columns|query|out)( [A-Z]+)?\b", r"\1="),
    ):
        sentence = re.sub(rf"(?<![\w-]){option}", argument, sentence)
    return sentence
