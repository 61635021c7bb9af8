"""Files of NumPy: features from any model, or images as arrays, with labels."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from discrimloss.auditing.sources.array_files import ArrayFile, open_arrays
from discrimloss.auditing.sources.base import (
    AuditSource,
    Corrections,
    LeftOut,
    SampleView,
    SourceError,
    SourceOptions,
)
from discrimloss.auditing.sources.features import finite_rows, standardised
from discrimloss.auditing.sources.image_source import ImageSource
from discrimloss.auditing.sources.label_arrays import Array
from discrimloss.auditing.sources.labels import read_labels
from discrimloss.auditing.sources.picture_check import in_threads
from discrimloss.auditing.sources.pictures import (
    Colours,
    PictureFacts,
    Pixels,
    encode_pixels,
    scaled,
)
from discrimloss.data.base import Split, TaskData, TensorInputs
from discrimloss.training.config import ComponentConfig

FEATURES_SHOWN = 8
SMALLEST_IMAGE = 8
FEATURES_IN_CHECKSUM = 1_000


def open_feature_file(options: SourceOptions) -> AuditSource:
    """An ``.npz`` or ``.npy`` file: of images, if its array looks like that, or of features.

    Images are bytes (uint8) of the shape (samples, height, width), perhaps with 1 or 3 channels at
    the end or behind the samples, and at least 8 pixels wide and high.
    """
    options.refuse(("text", "image"), because="a file of arrays has no columns")
    samples = _Samples(options)
    pixels = as_images(samples.arrays.features)
    return FeatureFile(samples) if pixels is None else ImageArray(samples, pixels)


class _Samples:
    """The samples of a file of arrays: what both kinds of source have in common."""

    def __init__(self, options: SourceOptions) -> None:
        self.arrays: ArrayFile = open_arrays(options)
        self.options = self.arrays.options
        features, given = self.arrays.features, self.arrays.labels
        is_finite = finite_rows(features)
        labels = read_labels(given[is_finite], options.regression)
        self.target, self.class_names = labels.target, labels.class_names
        finite = np.flatnonzero(is_finite)
        self.rows = finite[~labels.is_missing]
        """Of the arrays: one per sample."""
        names = _names(self.arrays)
        self.ids = tuple(names[row] for row in self.rows)
        reasons = dict.fromkeys(np.flatnonzero(~is_finite), "a feature is NaN or infinite")
        reasons |= dict.fromkeys(finite[labels.is_missing], "no label")
        self.left_out = tuple(LeftOut(names[row], reasons[row]) for row in sorted(reasons))
        self.notes = (*self.arrays.notes, *labels.notes)

    def write(self, corrections: Corrections, directory: Path) -> list[Path]:
        """Write the files once more."""
        new = {int(self.rows[index]): label for index, label in corrections.labels.items()}
        dropped = {int(self.rows[index]) for index in corrections.dropped}
        try:
            return self.arrays.write(directory, new, dropped)
        except OSError as error:
            raise SourceError(f"cannot write to {directory}: {error.strerror or error}") from error

    def describe(self, source: AuditSource) -> None:
        """Give a source what every source has."""
        source.options, source.target, source.class_names = (
            self.options,
            self.target,
            self.class_names,
        )
        source.ids, source.left_out, source.notes = self.ids, self.left_out, self.notes


class FeatureFile(AuditSource):
    """Features with labels, e.g. embeddings from any model."""

    kind = "features"

    def __init__(self, samples: _Samples) -> None:
        samples.options.refuse(("encoder",), because="its features are encoded already")
        self._samples = samples
        samples.describe(self)

    def task(self, cache: Path) -> TaskData:
        """The features, each with a mean of 0 and a spread of 1."""
        features = standardised(_rows_of(self._samples))
        return TaskData(
            train=Split(TensorInputs(features), self.target),
            test=None,
            num_classes=len(self.class_names) or None,
            input_shape=tuple(features.shape[1:]),
            class_names=self.class_names,
        )

    def model(self) -> ComponentConfig:
        """A network with one hidden layer."""
        return ComponentConfig("mlp", {})

    def view(self, index: int) -> SampleView:
        """The first few features."""
        values = self._samples.arrays.features[self._samples.rows[index]].ravel()
        shown = ", ".join(f"{value:.4g}" for value in values[:FEATURES_SHOWN].tolist())
        more = f" … ({len(values):,} in all)" if len(values) > FEATURES_SHOWN else ""
        return SampleView(fields=(("features", shown + more),))

    def write_corrected(self, corrections: Corrections, directory: Path) -> list[Path]:
        """The same file or files, with the corrected labels."""
        return self._samples.write(corrections, directory)

    def fingerprint(self) -> str:
        """A checksum of names, labels and some of the features."""
        return _fingerprint(self._samples)


class ImageArray(ImageSource):
    """Images that lie in one array."""

    def __init__(self, samples: _Samples, pixels: Pixels) -> None:
        self._samples, self._pixels_of = samples, pixels
        samples.describe(self)
        height, width = pixels.shape[1:3]
        self.facts = [PictureFacts(width, height, pixels.ndim == 3, num_bytes=0)] * len(self)

    def read(self, index: int) -> bytes:
        """A sample as a file would have it."""
        return encode_pixels(self._pixels_of[self._samples.rows[index]])

    def squares(self, first: int, last: int, side: int, colours: Colours) -> Pixels:
        """The samples from `first` to before `last`: shape (samples, channels, side, side)."""
        rows = self._samples.rows[first:last].tolist()
        return np.stack(in_threads(lambda row: scaled(self._pixels_of[row], side, colours), rows))

    def view_fields(self, index: int) -> tuple[tuple[str, str], ...]:
        """The name of a sample."""
        return (("sample", self.ids[index]),)

    def write_corrected(self, corrections: Corrections, directory: Path) -> list[Path]:
        """The same file or files, with the corrected labels."""
        return self._samples.write(corrections, directory)

    def fingerprint(self) -> str:
        """A checksum of names, labels and some of the images."""
        return _fingerprint(self._samples)


def as_images(features: Array) -> Pixels | None:
    """An array as grey or RGB images with the channels last, or None if it holds none."""
    shape = features.shape
    if features.dtype != np.uint8:
        return None
    if features.ndim == 4 and shape[3] in (1, 3):
        images = features
    elif features.ndim == 4 and shape[1] in (1, 3):
        images = features.transpose(0, 2, 3, 1)
    elif features.ndim == 3:
        images = features[..., None]
    else:
        return None
    if min(images.shape[1:3]) < SMALLEST_IMAGE:
        return None
    return images[..., 0] if images.shape[3] == 1 else images


def _names(arrays: ArrayFile) -> list[str]:
    if arrays.ids is None:
        return [str(row) for row in range(len(arrays.features))]
    ids = arrays.ids
    if ids.shape != (len(arrays.features),):
        raise SourceError(
            f"there must be one name per sample, but --id has the shape {ids.shape} "
            f"for {len(arrays.features):,} samples"
        )
    names = [n.decode(errors="replace") if isinstance(n, bytes) else str(n) for n in ids.tolist()]
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SourceError(f"two samples are called {name!r} (--id): give each its own name")
        seen.add(name)
    return names


def _rows_of(samples: _Samples) -> Array:
    features = samples.arrays.features
    return features if len(samples.rows) == len(features) else features[samples.rows]


def _fingerprint(samples: _Samples) -> str:
    features = samples.arrays.features
    digest = hashlib.sha256()
    digest.update(repr((features.shape, samples.class_names)).encode())
    digest.update(samples.target.numpy().tobytes())
    for name in samples.ids:
        digest.update(name.encode() + b"\0")
    # Some of the features: all of them may be more than fits into memory.
    step = max(1, len(features) // FEATURES_IN_CHECKSUM)
    digest.update(np.ascontiguousarray(features[::step]).tobytes())
    return digest.hexdigest()[:32]
