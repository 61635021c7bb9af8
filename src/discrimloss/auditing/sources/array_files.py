"""Features or images in NumPy files: an ``.npz``, or a ``.npy`` and a file with labels."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from discrimloss.auditing.sources.base import (
    AuditSource,
    Corrections,
    SourceError,
    SourceOptions,
    Store,
)
from discrimloss.auditing.sources.features import (
    Array,
    array_checksum,
    not_finite,
    require_numbers,
)
from discrimloss.auditing.sources.images import array_source
from discrimloss.auditing.sources.label_file import LABEL_SUFFIXES, LabelFile
from discrimloss.auditing.sources.labels import one_per_sample
from discrimloss.auditing.sources.npy import load_array, npy, why_unreadable
from discrimloss.auditing.sources.values import kept_rows, relabelled_array
from discrimloss.files.atomic_write import atomic_write
from discrimloss.options import did_you_mean

FEATURES = (
    *("features", "feature", "x", "embeddings", "embedding", "vectors", "data", "images"),
    *("inputs", "x_train", "train_x"),
)
LABELS = (
    *("labels", "label", "y", "targets", "target", "classes", "class", "y_train", "train_y"),
    "train_labels",
)
IDS = ("ids", "id", "names", "filenames", "paths", "keys", "index")
"""Common names of arrays, most common first. Case is ignored."""


def open_array_file(options: SourceOptions) -> AuditSource:
    """Open an ``.npz`` or ``.npy`` file of features, or of images (see `as_images`)."""
    options.refuse(("text", "image"), because="a file of arrays has no columns")
    is_archive = Path(options.path).suffix.lower() == ".npz"
    store: ArrayFile = Archive(options) if is_archive else SeparateFiles(options)
    return array_source(store.options, store, store.features, not_finite(store.features))


class ArrayFile(Store):
    """A file with features, labels and optionally ids.

    Args:
        path: the file with the features.
    """

    options: SourceOptions
    """The given options, with the detected file or array of the labels."""
    features: Array
    """Numbers, shape (rows, ...). May be a memory map of the file."""
    given_labels: Array
    """Shape (rows,)."""
    given_ids: Array | None = None
    """Shape (rows,), if the file contains ids."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.name = self.path.name

    def __len__(self) -> int:
        return len(self.features)

    def labels(self) -> Array:
        """Return the array of labels."""
        return self.given_labels

    def ids(self) -> list[str]:
        """Return the array of ids, or the row numbers."""
        ids = self.given_ids
        if ids is None:
            return super().ids()
        if ids.shape != (len(self),):
            raise SourceError(
                f"there must be one id per sample, but --id has the shape {ids.shape} "
                f"for {len(self):,} samples"
            )
        names = [n.decode(errors="replace") if isinstance(n, bytes) else str(n) for n in ids]
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise SourceError(f"two samples have the id {name!r} (--id): ids must be unique")
            seen.add(name)
        return names

    @property
    def has_numbered_ids(self) -> bool:
        """Return whether there is no array of ids."""
        return self.given_ids is None

    def checksum(self) -> str:
        """Return a checksum of labels, ids and some of the features."""
        digest = hashlib.sha256(array_checksum(self.features).encode())
        for array in (self.given_labels, self.given_ids):
            digest.update(repr(None if array is None else array.tolist()).encode())
        return digest.hexdigest()


class Archive(ArrayFile):
    """An ``.npz`` with an array of features and one of labels, found by name or by shape."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options.path)
        self.options = options
        arrays, self._unreadable = _read_archive(self.path)
        features_name = _find_features(self.path, arrays)
        self.features = require_numbers(arrays[features_name], f"{features_name!r} in {self.path}")
        self.labels_name = self._find_labels(arrays, features_name)
        name = f"{self.labels_name!r} in {self.path}"
        self.given_labels = one_per_sample(arrays[self.labels_name], len(self.features), name)
        self.given_ids = self._find_ids(arrays)

    def write(self, directory: Path, corrections: Corrections) -> list[Path]:
        """Write the same archive with new labels.

        Dropped rows are removed from every array that has one row per sample.
        """
        directory.mkdir(parents=True, exist_ok=True)
        written, keep = directory / self.path.name, kept_rows(len(self), corrections.dropped)
        with (
            atomic_write(written) as unfinished,
            zipfile.ZipFile(self.path) as old,
            zipfile.ZipFile(unfinished, "w", allowZip64=True) as new,
        ):
            for member in old.infolist():
                name = member.filename.removesuffix(".npy")
                if name != self.labels_name and (
                    not corrections.dropped or not self._has_rows(name)
                ):
                    new.writestr(member, old.read(member), member.compress_type)
                    continue
                with old.open(member) as file:
                    array: Array = npy.read_array(file, allow_pickle=False)
                if name == self.labels_name:
                    array = relabelled_array(array, corrections.labels)
                # The entry gets a new description, because its length may change.
                described = zipfile.ZipInfo(member.filename, member.date_time)
                described.compress_type = member.compress_type
                with new.open(described, "w", force_zip64=True) as target:
                    npy.write_array(target, array[keep], allow_pickle=False)
        return [written]

    def _has_rows(self, name: str) -> bool:
        if name in self._unreadable:
            raise SourceError(
                f"samples cannot be dropped from {self.path}, because {name!r} in it "
                f"cannot be read ({self._unreadable[name]}): remove that array"
            )
        shape = self._shapes.get(name, ())
        return len(shape) > 0 and shape[0] == len(self.features)

    def _find_labels(self, arrays: Mapping[str, Array], features_name: str) -> str:
        self._shapes = {name: array.shape for name, array in arrays.items()}
        wanted = self.options.label
        if wanted is not None:
            self._require(wanted, "--label", arrays)
            return wanted
        others = {name: array for name, array in arrays.items() if name != features_name}
        if (name := _by_name(LABELS, others)) is not None:
            return name
        size = len(arrays[features_name])
        fitting = [
            name
            for name, array in others.items()
            if array.shape == (size,) and name.lower() not in IDS and name != self.options.id
        ]
        if len(fitting) == 1:
            self.notes = (*self.notes, f"the labels are the array {fitting[0]!r}")
            return fitting[0]
        for name, reason in self._unreadable.items():
            if name.lower() in LABELS:
                raise SourceError(f"cannot read the labels, {name!r} in {self.path}: {reason}")
        raise SourceError(
            f"pass the array of {self.path} with the labels (--label): it has {', '.join(arrays)}"
        )

    def _find_ids(self, arrays: Mapping[str, Array]) -> Array | None:
        wanted = self.options.id
        if wanted is not None:
            self._require(wanted, "--id", arrays)
            return arrays[wanted]
        name = _by_name(IDS, arrays)
        if name is None or name == self.labels_name:
            return None
        ids = arrays[name]
        if ids.shape != (len(self.features),) or len(np.unique(ids)) < len(ids):
            return None
        self.notes = (*self.notes, f"sample ids are the array {name!r}")
        return ids

    def _require(self, name: str, option: str, arrays: Mapping[str, Array]) -> None:
        if name in self._unreadable:
            reason = self._unreadable[name]
            raise SourceError(f"cannot read {name!r} in {self.path} ({option}): {reason}")
        if name not in arrays:
            known = did_you_mean(name, list(arrays))
            raise SourceError(f"{self.path} has no array {name!r} ({option}): {known}")


def _read_archive(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays by name, and the reasons why others cannot be read."""
    arrays, unreadable = {}, {}
    try:
        # Opened here, because np.load does not close the file of a broken archive.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            for name in archive.files:
                try:
                    array = archive[name]
                except ValueError as error:
                    unreadable[name] = why_unreadable(error)
                else:
                    if isinstance(array, np.ndarray):
                        arrays[name] = array
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise SourceError(f"cannot read {path}: {why_unreadable(error)}") from error
    return arrays, unreadable


def _find_features(path: Path, arrays: Mapping[str, Array]) -> str:
    if (name := _by_name(FEATURES, arrays)) is not None:
        return name
    several = [n for n, array in arrays.items() if array.ndim > 1 and array.dtype.kind in "biuf"]
    if len(several) == 1:
        return several[0]
    raise SourceError(
        f"cannot tell which array of {path} has the features (it has "
        f"{', '.join(arrays) or 'no readable array'}): name it 'features'"
    )


def _by_name(usual: Sequence[str], arrays: Mapping[str, Array]) -> str | None:
    names = {name.lower(): name for name in arrays}
    return next((names[name] for name in usual if name in names), None)


class SeparateFiles(ArrayFile):
    """A ``.npy`` file of features, and a file of labels: ``--label FILE``, or a file next to it."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options.path)
        options.refuse(("id",), because="an .npy file has only one array; save an .npz with ids")
        features = load_array(self.path, mapped=True)
        self.features = require_numbers(features, str(self.path))
        label_path = self._label_path(options.label)
        # Absolute, because the audit may be opened again from another directory.
        self.options = replace(options, label=str(label_path))
        self.label_file = LabelFile(label_path, len(self.features))
        self.given_labels = self.label_file.read()

    def write(self, directory: Path, corrections: Corrections) -> list[Path]:
        """Write the corrected features and labels under the file names of the source."""
        directory.mkdir(parents=True, exist_ok=True)
        keep = kept_rows(len(self), corrections.dropped)
        features, labels = directory / self.path.name, directory / self.label_file.path.name
        if labels == features:  # the source has two files of this name, in different folders
            labels = directory / f"labels-{labels.name}"
        self.label_file.write(labels, corrections.labels, keep)
        with atomic_write(features) as unfinished, unfinished.open("wb") as file:
            np.save(file, self.features[keep] if corrections.dropped else self.features)
        return [features, labels]

    def _label_path(self, given: str | None) -> Path:
        folder = self.path.parent
        if given is not None:
            path = next((p for p in (folder / given, Path(given)) if p.is_file()), None)
            if path is None:
                raise SourceError(f"there is no file {given} (--label): check the path")
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
                f"{self.path} needs a file with its labels: pass --label FILE{candidates}"
            )
        self.notes = (f"the labels are in {found[0].name}",)
        return found[0].absolute()
