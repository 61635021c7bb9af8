"""Files of NumPy with one array: features in one file, labels in another."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.array_files import LABELS, ArrayFile, reason_of
from discrimloss.auditing.sources.base import Label, SourceError, SourceOptions
from discrimloss.auditing.sources.features import Array, require_numbers
from discrimloss.auditing.sources.labels import class_name, one_per_sample, with_new_labels
from discrimloss.auditing.sources.rows import kept_rows
from discrimloss.files.atomic_write import atomic_write

LABEL_SUFFIXES = (".npy", ".txt", ".csv")
_npy: Any = np.lib.format  # without types


class SeparateFiles(ArrayFile):
    """A ``.npy`` of features, and a file of labels: ``--label FILE``, or one beside it."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options.path)
        options.refuse(("id",), because="an .npy file has no names; save an .npz with them")
        features = load_array(self.path, mapped=True)
        self.features = require_numbers(features, str(self.path))
        label_path = self._label_path(options.label)
        # Absolute: the audit is opened again, perhaps from another directory.
        self.options = replace(options, label=str(label_path))
        self.label_file = LabelFile(label_path, len(self.features))
        self.given_labels = self.label_file.read()

    def write(
        self, directory: Path, new_labels: Mapping[int, Label], dropped: Collection[int]
    ) -> list[Path]:
        """Write both files, under their names."""
        directory.mkdir(parents=True, exist_ok=True)
        keep = kept_rows(len(self), dropped)
        features, labels = directory / self.path.name, directory / self.label_file.path.name
        if labels == features:  # of two folders
            labels = directory / f"labels-{labels.name}"
        self.label_file.write(labels, new_labels, keep)
        with atomic_write(features) as unfinished, unfinished.open("wb") as file:
            np.save(file, self.features[keep] if dropped else self.features)
        return [features, labels]

    def _label_path(self, given: str | None) -> Path:
        folder = self.path.parent
        if given is not None:
            path = next((p for p in (folder / given, Path(given)) if p.is_file()), None)
            if path is None:
                raise SourceError(f"there is no file of labels {given} (--label): check the path")
            if path.suffix.lower() not in LABEL_SUFFIXES:
                raise SourceError(
                    f"cannot read labels from {path}: its name must end in one of "
                    f"{', '.join(LABEL_SUFFIXES)}"
                )
            return path.absolute()
        names = [f"{name}{suffix}" for name in LABELS for suffix in LABEL_SUFFIXES]
        names += [f"{self.path.stem}{n}{s}" for n in ("_labels", "-labels") for s in LABEL_SUFFIXES]
        found = [folder / name for name in names if (folder / name).is_file()]
        if len(found) != 1:
            candidates = f": there are {', '.join(p.name for p in found)}" if found else ""
            raise SourceError(
                f"say which file holds the labels of {self.path} (--label FILE){candidates}"
            )
        self.notes = (f"the labels are in {found[0].name}",)
        return found[0].absolute()


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
            return one_per_sample(load_array(self.path), self.num_samples, str(self.path))
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
                    np.save(file, with_new_labels(load_array(self.path), new_labels)[keep])
                return
            lines = self._lines()
            start = self._header(lines)
            ending = "\r" if lines[-1].endswith("\r") else ""
            for row, label in new_labels.items():
                lines[start + row] = self._line(class_name(label)) + ending
            kept = [*lines[:start], *(lines[start + row] for row in keep)]
            unfinished.write_bytes("".join(line + "\n" for line in kept).encode())

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


def _numbers_if_all(texts: Array) -> Array:
    try:
        return texts.astype(np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        return np.where(texts == "", "nan", texts).astype(np.float64)
    except ValueError:
        return texts
