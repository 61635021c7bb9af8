"""A source: labelled samples that can be trained on, shown to a reviewer, and written back.

An `AuditSource` is put together from three things:

- a `Store`, where the rows come from and how they are written back: a CSV file, a folder of images,
  a DataFrame;
- `Samples`, which rows can be audited, with their ids and labels;
- `Contents` (in `contents`), what the samples are: texts, images, the columns of a table, or
  features.

A source is opened for the audit, and again for the review and for the corrections. Opening it reads
the labels and lists the files; `AuditSource.task` does the expensive work.
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
"""Version of `AuditSource.fingerprint`. Audits of 0.1 computed another one and kept no version."""
MOST_ENTRIES = 2**30
"""Samples times classes: four gigabytes of predictions."""
Label = str | float
"""The name of a class, or a regression target."""


class SourceError(DiscrimLossError):
    """A source that cannot be audited, reviewed or written."""


@dataclass(frozen=True)
class SourceOptions:
    """How to read a source. An audit keeps them to open the source again."""

    path: str = ""
    """Absolute; empty for data in memory."""
    label: str | None = None
    """The column, the array or the file with the labels."""
    text: str | None = None
    """The column with the texts."""
    image: str | None = None
    """The column with images or with their paths, which are relative to the table."""
    id: str | None = None
    """The column with the ids of the samples."""
    regression: bool | None = None
    """Whether labels are regression targets; None: detect it."""
    encoder: str | None = None
    """A pretrained encoder: a folder, ``package:NAME``, or a name on the hub. None takes one that
    is on this computer, ``"auto"`` one of the hub, too, and ``"none"`` uses none."""
    columns: tuple[str, ...] | None = None
    """The columns of a table to learn from; None chooses among all."""
    query: str | None = None
    """The table of a database, or a query that begins with SELECT; or the sheet of a workbook."""
    detect: bool = True
    """Whether to find columns of texts and of ids; audits of earlier versions did not."""

    def __post_init__(self) -> None:
        if self.columns is not None:  # a list, as JSON has it
            object.__setattr__(self, "columns", tuple(map(str, self.columns)))

    @classmethod
    def saved(cls, content: Mapping[str, Any]) -> SourceOptions:
        """The options that the record of an audit has."""
        return cls(**{"detect": False, **content})

    def refuse(self, names: Sequence[str], because: str) -> None:
        """Raise a `SourceError` if one of these options is given.

        Args:
            names: attributes that make no sense for this source.
            because: why, as the end of a sentence.
        """
        for name in names:
            if getattr(self, name) is not None:
                raise SourceError(f"--{name} does not fit {self.path or 'this data'}: {because}")


@dataclass(frozen=True)
class LeftOut:
    """A row or a file that cannot be audited."""

    id: str
    reason: str
    """In a few words: ``"no label"``."""


@dataclass(frozen=True)
class Corrections:
    """Decisions about labels, by the position of the sample in the source's `ids`.

    A `Store` gets them by row.
    """

    labels: Mapping[int, Label] = field(default_factory=dict)
    """New labels. All other samples keep theirs."""
    dropped: frozenset[int] = frozenset()

    def by_row(self, rows: npt.NDArray[np.int64]) -> Corrections:
        """The same decisions, by the row of each sample."""
        labels = {int(rows[index]): label for index, label in self.labels.items()}
        return Corrections(labels, frozenset(int(rows[index]) for index in self.dropped))


@dataclass(frozen=True)
class Samples:
    """The rows of a store that can be audited."""

    rows: npt.NDArray[np.int64]
    """Shape (samples,): the row of each sample."""
    ids: tuple[str, ...]
    """One per sample, all different."""
    target: Tensor
    """Shape (samples,): int64 positions in `class_names`, or float32 regression targets."""
    class_names: tuple[str, ...]
    """Empty for a regression."""
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    """How labels were read."""


class Store(ABC):
    """Labelled rows, counted from 0, and how they are written back."""

    name: str
    """For messages."""
    unit: ClassVar[str] = "row"
    """What to call a row in notes."""
    file_name: str = ""
    """Name of the file that `write` writes; empty if it writes several."""
    notes: tuple[str, ...] = ()
    """Notes for the user about the rows."""
    note_on_corrected: str | None = None
    """What a user should know of the corrected data."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def labels(self) -> Any:
        """One label per row: a list, an array or a pandas series."""

    def ids(self) -> list[str]:
        """One id per row; by default its number."""
        return [str(number) for number in range(len(self))]

    @abstractmethod
    def checksum(self) -> str:
        """Changes whenever a row changes."""

    def require_label(self, label: Label) -> None:  # noqa: B027 (most formats take any label)
        """Raise a `SourceError` if the format has no room for this label."""

    @abstractmethod
    def write(self, directory: Path, corrections: Corrections) -> list[Path]:
        """Write the rows again, with new labels and without dropped rows.

        Everything else stays as it is: columns, their order and types, rows that were left out.

        Args:
            directory: an empty directory to write into.
            corrections: by row.

        Returns:
            The files or folders that were written.
        """

    def corrected(self, corrections: Corrections) -> Any:
        """Like `write`, but returns the data, of the type that it was given in."""
        raise SourceError(f"{self.name} is not in memory: write the corrected data to a file")

    def save(self, path: Path, corrections: Corrections) -> Path:
        """Like `write`, to a file or a folder with this name.

        By default the format is that of the source, so the name must end as the source's does.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=path.parent) as unfinished:
            written = self.write(Path(unfinished), corrections)
            if len(written) > 1:
                what = f"{len(written)} files: name a directory"
            elif written[0].suffix.lower() != path.suffix.lower():
                what = f"a {written[0].suffix} file" if written[0].suffix else "a folder"
            elif path.is_dir():
                what = "a folder, and one of this name exists"
            else:
                written[0].replace(path)
                return path
        raise SourceError(f"cannot write {path}: the corrected data of {self.name} is {what}")

    @property
    def has_numbered_ids(self) -> bool:
        """Whether ids are the numbers of the rows, which change where a row is dropped."""
        return True

    def new_ids(self, corrections: Corrections) -> Mapping[int, str]:
        """New ids, by row, of rows that get another id when they are written."""
        if not self.has_numbered_ids:
            return {}
        kept = (row for row in range(len(self)) if row not in corrections.dropped)
        return {row: str(number) for number, row in enumerate(kept)}


class AuditSource:
    """Labelled samples, in a fixed order.

    Rows that cannot be audited (without a label, an image that cannot be read) are in `left_out`
    and are not samples. Corrected data keeps them as they are.

    Args:
        options: how the source was read.
        store: where the rows come from.
        samples: which of them can be audited.
        contents: what they are.
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
        """What to call the source in messages."""
        return self.store.name

    @property
    def left_out_why(self) -> dict[str, int]:
        """How many rows were left out for each reason."""
        return dict(Counter(entry.reason for entry in self.left_out))

    @property
    def is_regression(self) -> bool:
        """Whether labels are regression targets."""
        return not self.class_names

    def __len__(self) -> int:
        return len(self.target)

    def task(self, cache: Path | None = None) -> TaskData:
        """Everything that training needs; there is no test split.

        Args:
            cache: a directory for what is expensive to compute, such as the features of an encoder.
                It outlives an interrupted audit. None keeps everything in memory.
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
        """What a reviewer sees of a sample. Reads that sample only."""
        return self.contents.view(index)

    def close_view(self, index: int) -> SampleView:
        """Like `view`, with an image in its full size."""
        return self.contents.view(index, close=True)

    def require_class(self, name: str) -> None:
        """Raise a `SourceError` if the format of the source has no room for this new class."""
        self.store.require_label(name)

    def write_corrected(self, corrections: Corrections, directory: Path) -> list[Path]:
        """Write the source again, in its own format, with the corrections.

        Everything but corrected labels and dropped samples stays as it is: columns, their order and
        types, rows that were left out. The source itself does not change.

        Args:
            corrections: what to change.
            directory: an empty directory to write into.

        Returns:
            The files or folders that were written.
        """
        return self.store.write(directory, corrections.by_row(self.rows))

    def save_corrected(self, corrections: Corrections, path: Path) -> Path:
        """Like `write_corrected`, to a file or a folder with this name."""
        return self.store.save(path, corrections.by_row(self.rows))

    def corrected(self, corrections: Corrections) -> Any:
        """Data in memory with the corrections, of the type that it was given in."""
        return self.store.corrected(corrections.by_row(self.rows))

    def note_on_corrected(self) -> str | None:
        """What a user should know of corrected data, as a sentence."""
        return self.store.note_on_corrected

    def corrected_ids(self, corrections: Corrections) -> Mapping[int, str]:
        """Ids of samples in the corrected data, where they may differ from those in the source."""
        new_ids = self.store.new_ids(corrections.by_row(self.rows))
        rows = enumerate(self.rows.tolist())
        return {index: new_ids[row] for index, row in rows if row in new_ids}

    def fingerprint(self) -> str:
        """A checksum of data, labels and options: equal as long as the source is unchanged."""
        options = self.options
        read_as: tuple[object, ...] = (options.label, options.id, options.text, options.image)
        read_as += (options.regression, *([] if options.query is None else [options.query]))
        content = repr((self.store.checksum(), self.contents.checksum(), read_as))
        return hashlib.sha256(content.encode()).hexdigest()[:32]


def require_room(samples: int, outputs: int) -> None:
    """Raise a `SourceError` if the predictions for all samples would not fit into memory."""
    if samples * outputs > MOST_ENTRIES:
        raise SourceError(
            f"{samples:,} samples of {outputs:,} classes need predictions of "
            f"{samples * outputs * 4 / 2**30:.0f} GB: audit it in parts of at most "
            f"{MOST_ENTRIES // outputs:,} samples"
        )
