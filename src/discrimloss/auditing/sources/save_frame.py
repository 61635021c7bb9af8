"""Writes data frames to files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from discrimloss.auditing.sources.base import SourceError
from discrimloss.files.atomic_write import atomic_write

if TYPE_CHECKING:
    import pandas


def save_frame(frame: pandas.DataFrame, path: Path, keep_index: bool = False) -> None:
    """Write a frame in the format of the path's suffix, or raise a `SourceError`."""
    formats: dict[str, Callable[[Path], object]] = {
        ".csv": lambda file: frame.to_csv(file, index=keep_index),
        ".tsv": lambda file: frame.to_csv(file, index=keep_index, sep="\t"),
        ".parquet": lambda file: frame.to_parquet(file, index=keep_index or None),
        ".jsonl": lambda file: frame.to_json(file, orient="records", lines=True),
        ".json": lambda file: frame.to_json(file, orient="records", indent=1),
        ".feather": lambda file: frame.reset_index(drop=not keep_index).to_feather(file),
        ".xlsx": lambda file: _save_workbook(frame, file, keep_index),
    }
    save = formats.get(path.suffix.lower())
    if save is None:
        raise SourceError(f"cannot write {path}: its name must end in {', '.join(formats)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as unfinished:
        try:
            save(unfinished)
        except (TypeError, ValueError) as error:  # Parquet cannot store objects and mixed columns
            reason = str(error).partition("\n")[0]
            raise SourceError(
                f"cannot write {path} ({reason}): write a .csv file, or use the corrected data "
                "itself"
            ) from error


def _save_workbook(frame: pandas.DataFrame, path: Path, keep_index: bool) -> None:
    try:
        with path.open("wb") as file:
            frame.to_excel(file, index=keep_index, engine="openpyxl")
    except ImportError as error:
        raise SourceError("Excel files need openpyxl: pip install 'discrimloss[tables]'") from error
