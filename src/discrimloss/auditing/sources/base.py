"""A source: labelled samples to train on, to show to a reviewer, and to write back.

An `AuditSource` has three parts:
- a `Store`: where the rows come from and how they are written back, for example a CSV file, a
  folder of images or a DataFrame;
- `Samples`: the rows that can be audited, with their ids and labels;
- `Contents` (in `contents`): what the samples are: texts, images, the columns of a table, or
  features.

A source is opened for the audit, for the review and for the corrections. Opening it reads the
labels and lists the files. `AuditSource.task` does the expensive work.
"""

from __future__ import annotations

import hashlib
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from discrimloss.auditing.sources.contents import Contents, SampleView
from discrimloss.data.base import Split, TaskData
from discrimloss.errors import DiscrimLossError

FINGERPRINT_VERSION = 2
"""Version of `AuditSource.fingerprint`. discrimloss 0.1 computed another one, without a version."""
MOST_ENTRIES = 2**30
"""Largest number of samples times classes: four gigabytes of predictions."""
Label = str | float
"""The name of a class, or a regression target."""


class SourceError(DiscrimLossError):
    """A source that cannot be audited, reviewed or written."""


@dataclass(frozen=True)
class SourceOptions:
    """How to read a source. An audit stores these options to open the source again."""

    path: str = ""
    """Absolute path. Empty for data in memory."""
    label: str | None = None
    """The column, the array or the file with the labels."""
    text: str | None = None
    """The column with the texts."""
    image: str | None = None
    """The column with images or with their paths, which are relative to the table."""
    id: str | None = None
    """The column with the ids of the samples."""
    regression: bool | None = None
    """Whether labels are regression targets. If None, this is detected."""
    encoder: str | None = None
    """A pretrained encoder: a folder, ``package:NAME``, or a name on the hub. None uses an encoder
    that is on this computer, ``"auto"`` may also download one, and ``"none"`` uses no encoder."""
    columns: tuple[str, ...] | None = None
    """The columns of a table to learn from. If None, they are chosen from all columns."""
    query: str | None = None
    """The table of a database, a query that begins with SELECT, or the sheet of a workbook."""
    detect: bool = True
    """Whether to detect columns of texts and ids. False for audits of earlier versions, which did
    not detect them."""

    def __post_init__(self) -> None:
        if self.columns is not None:  # a list in JSON
            object.__setattr__(self, "columns", tuple(map(str, self.columns)))

    @classmethod
    def saved(cls, content: Mapping[str, Any]) -> SourceOptions:
        """Return the options from the record of an audit."""
        return cls(**{"detect": False, **content})

    def refuse(self, names: Sequence[str], because: str) -> None:
        """Raise a `SourceError` if one of these options is given.

        Args:
            names: options that this source does not support.
            because: the reason, as the end of a sentence.
        """
        for name in names:
            if getattr(self, name) is not None:
                raise SourceError(f"--{name} does not fit {self.path or 'this data'}: {because}")


@dataclass(frozen=True)
class LeftOut:
    """A row or a file that cannot be audited."""

    id: str
    reason: str
    """The reason in a few words: ``"no label"``."""


@dataclass(frozen=True)
class Corrections:
    """Decisions about labels, by the position of the sample in the source's `ids`.

    A `Store` gets them by row instead.
    """

    labels: Mapping[int, Label] = field(default_factory=dict)
    """New labels. All other samples keep their labels."""
    dropped: frozenset[int] = frozenset()

    def by_row(self, rows: npt.NDArray[np.int64]) -> Corrections:
        """Return the same decisions by the row of each sample."""
        labels = {int(rows[index]): label for index, label in self.labels.items()}
        return Corrections(labels, frozenset(int(rows[index]) for index in self.dropped))


@dataclass(frozen=True)
class Samples:
    """The rows of a store that can be audited."""

    rows: npt.NDArray[np.int64]
    """Shape (samples,): the row of each sample."""
    ids: tuple[str, ...]
    """One per sample, all unique."""
    target: Tensor
    """Shape (samples,): int64 positions in `class_names`, or float32 regression targets."""
    class_names: tuple[str, ...]
    """Empty for a regression."""
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    """How labels were read."""


class Store(ABC):
    """Labelled rows, counted from 0, which can be written back."""

    name: str
    """Name in messages."""
    unit: ClassVar[str] = "row"
    """The word for a row in notes."""
    file_name: str = ""
    """Name of the file that `write` writes. Empty if it writes several."""
    notes: tuple[str, ...] = ()
    """Notes for the user about the rows."""
    note_on_corrected: str | None = None
    """A note on the corrected data."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def labels(self) -> Any:
        """Return one label per row: a list, an array or a pandas series."""

    def ids(self) -> list[str]:
        """Return one id per row, by default its number."""
        return [str(number) for number in range(len(self))]

    @abstractmethod
    def checksum(self) -> str:
        """Return a checksum that changes whenever a row changes."""

    def require_label(self, label: Label) -> None:  # noqa: B027 (most formats take any label)
        """Raise a `SourceError` if the format cannot store this label."""

    @abstractmethod
    def write(self, directory: Path, corrections: Corrections) -> list[Path]:
        """Write the rows with new labels and without dropped rows.

        Everything else is unchanged: columns, their order and types, and left-out rows.

        Args:
            directory: an empty directory to write into.
            corrections: the corrections, by row.

        Returns:
            The files or folders that were written.
        """

    def corrected(self, corrections: Corrections) -> Any:
        """Like `write`, but return the data, with its original type."""
        raise SourceError(f"{self.name} is not in memory: write the corrected data to a file")

    def save(self, path: Path, corrections: Corrections) -> Path:
        """Like `write`, but to a file or a folder with this name.

        By default, the format is that of the source, so the name must have the same suffix.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=path.parent) as unfinished:
            written = self.write(Path(unfinished), corrections)
            if len(written) > 1:
                what = f"{len(written)} files: pass a directory"
            elif written[0].suffix.lower() != path.suffix.lower():
                what = f"a {written[0].suffix} file" if written[0].suffix else "a folder"
            elif path.is_dir():
                what = "a folder, and a folder of this name exists"
            else:
                written[0].replace(path)
                return path
        raise SourceError(f"cannot write {path}: the corrected data of {self.name} is {what}")

    @property
    def has_numbered_ids(self) -> bool:
        """Return whether ids are row numbers, which change if a row is dropped."""
        return True

    def new_ids(self, corrections: Corrections) -> Mapping[int, str]:
        """Return the new ids of rows whose id changes when they are written, by row."""
        if not self.has_numbered_ids:
            return {}
        kept = (row for row in range(len(self)) if row not in corrections.dropped)
        return {row: str(number) for number, row in enumerate(kept)}


class AuditSource:
    """Labelled samples, in a fixed order.

    Rows that cannot be audited, such as rows without a label or unreadable images, are in
    `left_out` and are not samples. They are unchanged in corrected data.

    Args:
        options: how the source was read.
        store: the rows.
        samples: the rows that can be audited.
        contents: what the samples are.
    """

    def __init__(
        self, options: SourceOptions, store: Store, samples: Samples, contents: Contents
    ) -> None:
        self.options = options
        self.store = store
        self.rows = samples.rows
        self.contents = contents
        self.kind = contents.kind
        self.ids = samples.ids
        self.target = samples.target
        self.class_names = samples.class_names
        self.left_out = samples.left_out
        self.notes = (*store.notes, *samples.notes, *contents.notes)
        self.warnings = contents.warnings

    @property
    def name(self) -> str:
        """Name of the source in messages."""
        return self.store.name

    @property
    def left_out_why(self) -> dict[str, int]:
        """Number of rows that were left out for each reason."""
        return dict(Counter(entry.reason for entry in self.left_out))

    @property
    def is_regression(self) -> bool:
        """Whether labels are regression targets."""
        return not self.class_names

    def __len__(self) -> int:
        return len(self.target)

    def task(self, cache: Path | None = None) -> TaskData:
        """Return everything that training needs. There is no test split.

        Args:
            cache: a directory for expensive results, such as the features of an encoder. It is
                kept after an interrupted audit. None keeps everything in memory.
        """
        made = self.contents.model_inputs(cache, self.fingerprint())
        return TaskData(
            train=Split(made.inputs, self.target),
            test=None,
            num_classes=len(self.class_names) or None,
            prepare=made.prepare,
            input_shape=made.input_shape,
            class_names=self.class_names,
            notes=self.notes,
            train_labels_are_clean=False,
        )

    def view(self, index: int) -> SampleView:
        """Return what a reviewer sees of a sample. Reads only that sample."""
        return self.contents.view(index)

    def close_view(self, index: int) -> SampleView:
        """Like `view`, but with images in full size."""
        return self.contents.view(index, close=True)

    def require_class(self, name: str) -> None:
        """Raise a `SourceError` if the format of the source cannot store this new class."""
        self.store.require_label(name)

    def write_corrected(self, corrections: Corrections, directory: Path) -> list[Path]:
        """Write the source with the corrections, in its own format.

        Except for corrected labels and dropped samples, nothing changes: columns, their order and
        types, and left-out rows are as in the source. The source itself does not change.

        Args:
            corrections: the changes.
            directory: an empty directory to write into.

        Returns:
            The files or folders that were written.
        """
        return self.store.write(directory, corrections.by_row(self.rows))

    def save_corrected(self, corrections: Corrections, path: Path) -> Path:
        """Like `write_corrected`, but to a file or a folder with this name."""
        return self.store.save(path, corrections.by_row(self.rows))

    def corrected(self, corrections: Corrections) -> Any:
        """Return data in memory with the corrections, with its original type."""
        return self.store.corrected(corrections.by_row(self.rows))

    def note_on_corrected(self) -> str | None:
        """Return a note on the corrected data, as a sentence."""
        return self.store.note_on_corrected

    def corrected_ids(self, corrections: Corrections) -> Mapping[int, str]:
        """Return the ids of samples in the corrected data, if they may differ from the source's."""
        new_ids = self.store.new_ids(corrections.by_row(self.rows))
        rows = enumerate(self.rows.tolist())
        return {index: new_ids[row] for index, row in rows if row in new_ids}

    def fingerprint(self) -> str:
        """Return a checksum of data, labels and options. It changes if the source changes."""
        options = self.options
        read_as: tuple[object, ...] = (options.label, options.id, options.text, options.image)
        read_as += (options.regression, *([] if options.query is None else [options.query]))
        content = repr((self.store.checksum(), self.contents.checksum(), read_as))
        return hashlib.sha256(content.encode()).hexdigest()[:32]


def require_room(samples: int, outputs: int) -> None:
    """Raise a `SourceError` if the predictions for all samples do not fit into memory."""
    if samples * outputs > MOST_ENTRIES:
        raise SourceError(
            f"{samples:,} samples of {outputs:,} classes need predictions of "
            f"{samples * outputs * 4 / 2**30:.0f} GB: audit it in parts of at most "
            f"{MOST_ENTRIES // outputs:,} samples"
        )
