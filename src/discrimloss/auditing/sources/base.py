"""What can be audited: labelled samples that can be trained on, looked at and written back.

A source is opened twice: for the audit, which trains on it, and later for the review and for the
corrections, which only look. So opening it reads labels and lists files, and no more; `task` does
the heavy work. Only images have to be decoded to know which of them can be read; a cache remembers
that from one opening to the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from discrimloss.data.base import TaskData
from discrimloss.errors import DiscrimLossError
from discrimloss.training.config import ComponentConfig

Label = str | float
"""The name of a class, or a number to regress on."""


class SourceError(DiscrimLossError):
    """A source that cannot be audited, reviewed or written: one sentence that says what to do."""


@dataclass(frozen=True)
class SourceOptions:
    """What a person said of the source. It is kept with the audit, to open the source again."""

    path: str
    """Absolute."""
    label: str | None = None
    """The column, or the array, with the labels."""
    text: str | None = None
    """The column with the texts."""
    image: str | None = None
    """The column with the paths of images, relative to the table."""
    id: str | None = None
    """The column with the names of the samples."""
    regression: bool | None = None
    """Whether labels are numbers to regress on; None: to be detected."""
    encoder: str | None = None
    """A pretrained encoder: a folder, ``package:NAME``, or a name on the hub."""

    def as_table(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    def refuse(self, names: Sequence[str], because: str) -> None:
        """Raise a `SourceError` if a person said something that this kind of source has not.

        Args:
            names: of the attributes.
            because: why there is no such thing, as a part of a sentence.
        """
        for name in names:
            if getattr(self, name) is not None:
                raise SourceError(f"--{name} does not fit {self.path}: {because}")


@dataclass(frozen=True)
class LeftOut:
    """A row or a file of the source that the audit cannot judge."""

    id: str
    reason: str
    """In a few words: ``"no label"``."""


@dataclass(frozen=True)
class SampleView:
    """How a person sees a sample. Texts are as they are: whoever shows them escapes them."""

    image: bytes | None = None
    """An encoded picture."""
    image_type: str = "image/png"
    text: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    """Names and values, as in a row of a table."""


@dataclass(frozen=True)
class Corrections:
    """What people decided, by the position of the sample in the source's `ids`."""

    labels: Mapping[int, Label] = field(default_factory=dict)
    """New labels. A sample that is not named keeps the label it has."""
    dropped: frozenset[int] = frozenset()


class AuditSource(ABC):
    """Labelled samples, in a fixed order.

    What cannot be judged (a missing label, an image that cannot be read) is in `left_out` and is
    not a sample: samples are counted without it. Corrected data keeps it as it was.
    """

    kind: ClassVar[str]
    """``"images"``, ``"table"``, ``"text"`` or ``"features"``: what the samples are."""

    options: SourceOptions
    target: Tensor
    """Shape (samples,): int64 positions in `class_names`, or float32 numbers."""
    class_names: tuple[str, ...]
    """Empty for a regression."""
    ids: tuple[str, ...]
    """One name per sample, all different."""
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    """What a person should know: how labels were understood, which columns were left aside."""

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""
        return not self.class_names

    def __len__(self) -> int:
        return len(self.target)

    @abstractmethod
    def task(self, cache: Path) -> TaskData:
        """Everything that training needs; there is no test part.

        Args:
            cache: a directory for what is dear to make, such as an encoder's features. It outlives
                an interrupted audit.
        """

    @abstractmethod
    def model(self) -> ComponentConfig:
        """The small model that fits these samples: a registered name and its options."""

    @abstractmethod
    def view(self, index: int) -> SampleView:
        """What a person is shown of a sample. Reads that sample only."""

    def close_view(self, index: int) -> SampleView:
        """What a person is shown who has to decide: as `view`, with a picture in its full size."""
        return self.view(index)

    def require_class(self, name: str) -> None:  # noqa: B027 (most formats take any name)
        """Raise a `SourceError` if the format of the source has no room for this new class."""

    @abstractmethod
    def write_corrected(self, corrections: Corrections, directory: Path) -> list[Path]:
        """Write the source once more, in its own format, with the corrections.

        Everything but corrected labels and dropped samples stays as it is: columns, their order and
        types, rows that were left out. The source itself is never touched.

        Args:
            corrections: what people decided.
            directory: an empty directory to write into.

        Returns:
            What was written: a file, or a folder of files.
        """

    def note_on_corrected(self) -> str | None:
        """What a person should know of corrected data, as a sentence."""
        return None

    def corrected_ids(self, corrections: Corrections) -> Mapping[int, str]:
        """New names of samples that `write_corrected` has to call otherwise."""
        return {}

    @abstractmethod
    def fingerprint(self) -> str:
        """A checksum of labels and names: equal as long as the source is what was audited."""
