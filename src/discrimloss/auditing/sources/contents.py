"""What the samples of a source are: inputs for a model, and what a reviewer sees of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from discrimloss.data.base import Inputs, Prepare, unprepared


@dataclass(frozen=True)
class LearnedColumn:
    """A column that a model learns from, and how it is read."""

    name: str
    read_as: str
    """In a few words: ``"numbers, '1.969,39' is 1969.39"``."""


@dataclass(frozen=True)
class SampleView:
    """What a reviewer sees of a sample. Texts are not escaped."""

    image: bytes | None = None
    """An encoded image."""
    image_type: str = "image/png"
    text: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    """Names and values, as in a row of a table."""


@dataclass(frozen=True)
class ModelInputs:
    """What a model learns from."""

    inputs: Inputs
    input_shape: tuple[int, ...]
    """Shape of one prepared sample, see `TaskData.input_shape`."""
    prepare: Prepare = unprepared


class Contents(ABC):
    """What the samples of a source are, by their position."""

    kind: ClassVar[str]
    """``"images"``, ``"table"``, ``"text"`` or ``"features"``."""
    notes: tuple[str, ...] = ()
    """What a user should know: columns that are not used, and why."""
    warnings: tuple[str, ...] = ()
    """Problems that make the audit worthless unless the user solves them."""
    learned_from: tuple[LearnedColumn, ...] = ()
    """The columns of a table that a model learns from."""

    encoder: str | None = None
    """The pretrained encoder whose features are learned from; None without one."""

    def find_encoder(self, is_regression: bool = False) -> tuple[str, ...]:
        """Take an encoder that can be had, if the user left the choice open.

        Args:
            is_regression: whether labels are regression targets.

        Returns:
            What the user should know of the choice.
        """
        return ()

    @abstractmethod
    def model_inputs(self, cache: Path | None, fingerprint: str) -> ModelInputs:
        """Inputs for training.

        Args:
            cache: a directory for what is expensive to compute, or None to keep it in memory.
            fingerprint: of the source.
        """

    @abstractmethod
    def view(self, index: int, close: bool = False) -> SampleView:
        """What a reviewer sees of a sample, an image in full size if `close`."""

    def raw_inputs(self) -> Any:
        """One row per sample for an estimator of the user; None where there are none."""
        return None

    def checksum(self) -> str:
        """Covers what the store does not hold itself, such as the files of images."""
        return ""
