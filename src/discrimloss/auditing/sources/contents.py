"""The contents of samples: inputs for a model, and what a reviewer sees."""

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
    """How it is read, in a few words: ``"numbers, '1.969,39' is 1969.39"``."""


@dataclass(frozen=True)
class SampleView:
    """What a reviewer sees of a sample. Texts are not escaped for HTML."""

    image: bytes | None = None
    """An encoded image."""
    image_type: str = "image/png"
    text: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    """Names and values, as in a row of a table."""


@dataclass(frozen=True)
class ModelInputs:
    """The inputs of a model."""

    inputs: Inputs
    input_shape: tuple[int, ...]
    """Shape of one prepared sample, see `TaskData.input_shape`."""
    prepare: Prepare = unprepared


class Contents(ABC):
    """The contents of the samples of a source, by their position."""

    kind: ClassVar[str]
    """``"images"``, ``"table"``, ``"text"`` or ``"features"``."""
    notes: tuple[str, ...] = ()
    """Notes for the user, for example on columns that are not used."""
    warnings: tuple[str, ...] = ()
    """Problems that make the audit worthless unless the user solves them."""
    learned_from: tuple[LearnedColumn, ...] = ()
    """The columns of a table that models learn from."""

    encoder: str | None = None
    """The pretrained encoder whose features models learn from, or None."""

    def find_encoder(self, is_regression: bool = False) -> tuple[str, ...]:
        """Choose an available encoder, if the user did not choose one.

        Args:
            is_regression: whether labels are regression targets.

        Returns:
            Notes on the choice.
        """
        return ()

    @abstractmethod
    def model_inputs(self, cache: Path | None, fingerprint: str) -> ModelInputs:
        """Return the inputs for training.

        Args:
            cache: a directory for expensive results, or None to keep them in memory.
            fingerprint: fingerprint of the source.
        """

    @abstractmethod
    def view(self, index: int, close: bool = False) -> SampleView:
        """Return what a reviewer sees of a sample. If `close`, images are in full size."""

    def raw_inputs(self) -> Any:
        """Return one row per sample for the user's own estimator, or None if there are none."""
        return None

    def checksum(self) -> str:
        """Return a checksum of data outside of the store, such as image files."""
        return ""
