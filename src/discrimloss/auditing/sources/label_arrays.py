"""Arrays and files of labels: how they are read, and written with new labels."""

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
from discrimloss.files.atomic_write import atomic_write

_npy: Any = np.lib.format  # without types

LABEL_SUFFIXES = (".npy", ".txt", ".csv")


def one_per_sample(labels: Array, num_samples: int, name: str) -> Array:
    """Return labels of shape (samples,), also from (samples, 1), or raise a `SourceError`.

    Args:
        labels: of any shape.
        num_samples: how many there must be.
        name: of the array or the file, for the message.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise SourceError(
            f"there must be one label per sample, but {name} has the shape {labels.shape}"
        )
    if len(labels) != num_samples:
        raise SourceError(
            f"there are {num_samples:,} samples, but {len(labels):,} labels in {name}: "
            "give one label per sample, in the same order"
        )
    if labels.dtype.kind not in "biufUS":
        raise SourceError(
            f"{name} holds {labels.dtype}, which are no labels: give texts or numbers"
        )
    return labels


def with_new_labels(labels: Array, new_labels: Mapping[int, Label]) -> Array:
    """Copy an array with new labels. Its type stays if it can hold them.

    Args:
        labels: shape (samples,) or (samples, 1).
        new_labels: by row.
    """
    if not new_labels:
        return labels
    rows = np.fromiter(new_labels, dtype=np.int64)
    values = _of_the_same_type(labels.dtype, list(new_labels.values()))
    if values is None:  # a class with a name, among numbers
        labels = np.array([_name(label) for label in labels.ravel()]).reshape(labels.shape)
        values = np.array([str(label) for label in new_labels.values()])
    changed: Array = labels.astype(np.promote_types(labels.dtype, values.dtype))
    changed[rows] = values.reshape(-1, *[1] * (labels.ndim - 1))
    return changed


@dataclass(frozen=True)
class LabelFile:
    """A file of labels: ``.npy``; ``.txt`` with one per line; ``.csv`` of one column.

    Args:
        path: the file.
        num_samples: how many labels there must be. A ``.csv`` may have one row more, its header.
    """

    path: Path
    num_samples: int

    def read(self) -> Array:
        """Read the labels: numbers if all are, else texts. An empty line is a missing label."""
        if self.path.suffix.lower() == ".npy":
            return one_per_sample(self._array(), self.num_samples, str(self.path))
        lines = self._lines()
        start = self._header(lines)
        cells = [self._cell(line, number) for number, line in enumerate(lines, start=1)]
        texts = np.array(cells[start:], dtype=np.str_)
        return one_per_sample(_numbers_if_all(texts), self.num_samples, str(self.path))

    def write(self, path: Path, new_labels: Mapping[int, Label], keep: npt.NDArray[Any]) -> None:
        """Write the file once more.

        Args:
            path: what to write.
            new_labels: by row.
            keep: the rows to keep.
        """
        with atomic_write(path) as unfinished:
            if self.path.suffix.lower() == ".npy":
                with unfinished.open("wb") as file:
                    np.save(file, with_new_labels(self._array(), new_labels)[keep])
                return
            lines = self._lines()
            start = self._header(lines)
            ending = "\r" if lines[-1].endswith("\r") else ""
            for row, label in new_labels.items():
                lines[start + row] = self._line(_name(label)) + ending
            kept = [*lines[:start], *(lines[start + row] for row in keep)]
            unfinished.write_bytes("".join(line + "\n" for line in kept).encode())

    def _array(self) -> Array:
        return load_array(self.path)

    def _lines(self) -> list[str]:
        try:
            text = self.path.read_bytes().decode("utf-8-sig")
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot read labels from {self.path}: {error}") from error
        lines = text.split("\n")
        return lines[:-1] if lines[-1] == "" else lines  # after the last line break

    def _cell(self, line: str, number: int) -> str:
        line = line.strip()
        if self.path.suffix.lower() != ".csv":
            return line
        cells = next(csv.reader([line]), [])
        if len(cells) > 1:
            raise SourceError(
                f"{self.path} must have one column, but line {number} has {len(cells)}: audit a "
                "table with features and labels, or keep the labels only"
            )
        return cells[0] if cells else ""

    def _header(self, lines: list[str]) -> int:
        is_csv = self.path.suffix.lower() == ".csv"
        return int(is_csv and len(lines) == self.num_samples + 1)

    def _line(self, name: str) -> str:
        if self.path.suffix.lower() != ".csv":
            return name
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="").writerow([name])
        return buffer.getvalue()


def load_array(path: Path, *, mapped: bool = False) -> Array:
    """Read a ``.npy`` file, or raise a `SourceError`. Nothing is ever unpickled."""
    try:
        if mapped:
            array: Array = _npy.open_memmap(path, mode="r")
        else:
            # Opened here, because np.load leaves a broken file open.
            with path.open("rb") as file:
                array = _npy.read_array(file, allow_pickle=False)
    except FileNotFoundError as error:
        raise SourceError(f"there is no file {path}: check the path") from error
    except (OSError, ValueError, EOFError) as error:
        raise SourceError(f"cannot read {path}: {reason_of(error)}") from error
    return array


def reason_of(error: Exception) -> str:
    """Why an array cannot be read, in a few words."""
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        return "it holds Python objects, which are never unpickled; save texts or numbers"
    return str(error).partition("\n")[0] or type(error).__name__


def _of_the_same_type(kind: np.dtype[Any], new: list[Label]) -> Array | None:
    if kind.kind == "U":
        return np.array([str(label) for label in new])
    if kind.kind == "S":
        return np.array([str(label).encode() for label in new])
    if kind.kind == "b":
        known = {"True": True, "False": False}
        return np.array([known[str(v)] for v in new]) if all(str(v) in known for v in new) else None
    try:
        numbers = [float(label) for label in new]
    except ValueError:
        return None
    if kind.kind == "f":
        return np.array(numbers, dtype=kind)
    if not all(number.is_integer() for number in numbers):
        return np.array(numbers)
    whole = [int(label) for label in numbers]
    return np.array(whole, dtype=np.result_type(*(np.min_scalar_type(number) for number in whole)))


def _numbers_if_all(texts: Array) -> Array:
    try:
        return texts.astype(np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        return np.where(texts == "", "nan", texts).astype(np.float64)
    except ValueError:
        return texts


def _name(label: Any) -> str:
    """A label as a text, empty if missing."""
    if isinstance(label, (float, np.floating)):
        if np.isnan(label):
            return ""
        return str(int(label)) if float(label).is_integer() else str(label)
    return label.decode() if isinstance(label, bytes) else str(label)
