"""A file of labels next to a file of features."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.base import Label, SourceError
from discrimloss.auditing.sources.features import Array
from discrimloss.auditing.sources.labels import one_per_sample
from discrimloss.auditing.sources.npy import load_array
from discrimloss.auditing.sources.values import class_name, relabelled_array
from discrimloss.files.atomic_write import atomic_write

LABEL_SUFFIXES = (".npy", ".txt", ".csv")


@dataclass(frozen=True)
class LabelFile:
    """A file of labels: ``.npy``; ``.txt`` with one per line; ``.csv`` of one column.

    Args:
        path: the file.
        num_samples: required number of labels. A ``.csv`` may have a header in addition.
    """

    path: Path
    num_samples: int

    def read(self) -> Array:
        """Read labels as numbers if possible, else as texts. Empty lines are missing labels."""
        if self._has_suffix(".npy"):
            labels = load_array(self.path)
        else:
            lines = self._lines()
            cells = [self._cell(line.strip(), number) for number, line in enumerate(lines, start=1)]
            labels = _numbers_if_all(np.array(cells[self._num_headers(lines) :], dtype=np.str_))
        return one_per_sample(labels, self.num_samples, str(self.path))

    def write(self, path: Path, new_labels: Mapping[int, Label], keep: npt.NDArray[Any]) -> None:
        """Write the file with new labels.

        Args:
            path: the file to write.
            new_labels: new labels, by row.
            keep: the rows to keep.
        """
        with atomic_write(path) as unfinished:
            if self._has_suffix(".npy"):
                with unfinished.open("wb") as file:
                    np.save(file, relabelled_array(load_array(self.path), new_labels)[keep])
                return
            lines = self._lines()
            start = self._num_headers(lines)
            ending = "\r\n" if lines[-1].endswith("\r") else "\n"
            for row, label in new_labels.items():
                text = io.StringIO()
                name = class_name(label)
                if self._has_suffix(".csv"):
                    csv.writer(text, lineterminator="").writerow([name])
                lines[start + row] = (text.getvalue() or name) + ending[:-1]
            kept = [*lines[:start], *(lines[start + row] for row in keep)]
            unfinished.write_bytes("".join(line + "\n" for line in kept).encode())

    def _has_suffix(self, suffix: str) -> bool:
        return self.path.suffix.lower() == suffix

    def _lines(self) -> list[str]:
        try:
            text = self.path.read_bytes().decode("utf-8-sig")
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot read labels from {self.path}: {error}") from error
        return text.removesuffix("\n").split("\n") if text else []

    def _num_headers(self, lines: list[str]) -> int:
        return int(self._has_suffix(".csv") and len(lines) == self.num_samples + 1)

    def _cell(self, line: str, number: int) -> str:
        cells = next(csv.reader([line]), [""]) if self._has_suffix(".csv") else [line]
        if len(cells) > 1:
            raise SourceError(
                f"{self.path} must have one column, but line {number} has {len(cells)}: audit a "
                "table with features and labels, or keep only the labels"
            )
        return cells[0] if cells else ""


def _numbers_if_all(texts: Array) -> Array:
    try:
        return texts.astype(np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        return np.where(texts == "", "nan", texts).astype(np.float64)
    except ValueError:
        return texts
