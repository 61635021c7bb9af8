"""The evidence for and against one label, and for all suspicious labels of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrimloss.files.atomic_write import atomic_write

COLUMNS = ("index", "sentences", "similar", "is_copy", "speaks_for", "speaks_against")
"""Columns of ``evidence.parquet``, which has one row per explained sample."""


@dataclass(frozen=True)
class Similar:
    """A sample that is similar to the explained one."""

    index: int
    id: str
    label: Any
    is_copy: bool
    """Whether the two samples are identical."""


@dataclass(frozen=True)
class Why:
    """Why a sample was flagged. `str` joins the sentences."""

    id: str
    sentences: tuple[str, ...]
    """The evidence, and the probabilities that the label is wrong and the suggestion is right."""
    similar: tuple[Similar, ...] = ()
    """The most similar samples, nearest first."""
    speaks_for: tuple[str, ...] = ()
    """Words or columns that suggest the suggested label."""
    speaks_against: tuple[str, ...] = ()
    """Words or columns that suggest the given label."""

    def __str__(self) -> str:
        return " ".join(self.sentences)


@dataclass(frozen=True)
class Explained:
    """The evidence on one sample. Similar samples are given by their positions."""

    sentences: tuple[str, ...]
    similar: tuple[int, ...] = ()
    is_copy: tuple[bool, ...] = ()
    speaks_for: tuple[str, ...] = ()
    speaks_against: tuple[str, ...] = ()


class Evidence(Mapping[int, Explained]):
    """The evidence on suspicious samples, by the position of the sample.

    Args:
        explained: the evidence, by position.
    """

    def __init__(self, explained: Mapping[int, Explained] | None = None) -> None:
        self._explained = dict(explained or {})

    def __getitem__(self, index: int) -> Explained:
        return self._explained[index]

    def __iter__(self) -> Any:
        return iter(self._explained)

    def __len__(self) -> int:
        return len(self._explained)

    def sentences(self, samples: int) -> list[str | None]:
        """Return the column ``why``: one text per sample, or None without evidence."""
        found: list[str | None] = [None] * samples
        for index, explained in self._explained.items():
            found[index] = " ".join(explained.sentences)
        return found

    def why(self, index: int, ids: Sequence[Any], labels: Any) -> Why | None:
        """Return the evidence on one sample, or None if the sample is not explained.

        The evidence contains the ids and labels of similar samples.

        Args:
            index: position of the sample.
            ids: ids of all samples.
            labels: given labels of all samples.
        """
        if index not in self._explained:
            return None
        one = self._explained[index]
        similar = tuple(
            Similar(other, str(ids[other]), labels[other], is_copy)
            for other, is_copy in zip(one.similar, one.is_copy, strict=True)
        )
        return Why(str(ids[index]), one.sentences, similar, one.speaks_for, one.speaks_against)

    def to_parquet(self, path: Path) -> None:
        """Write a Parquet file. The write is atomic."""
        import pandas

        rows = [
            (
                index,
                *(list(getattr(one, name)) for name in COLUMNS[1:]),
            )
            for index, one in self._explained.items()
        ]
        with atomic_write(path) as unfinished:
            pandas.DataFrame(rows, columns=list(COLUMNS)).to_parquet(unfinished)

    @classmethod
    def from_parquet(cls, path: Path) -> Evidence:
        """Read a file that `to_parquet` wrote."""
        import pandas

        frame = pandas.read_parquet(path)
        columns = [frame[name].tolist() for name in COLUMNS]
        return cls(
            {
                int(index): Explained(
                    tuple(sentences),
                    tuple(int(other) for other in similar),
                    tuple(bool(flag) for flag in is_copy),
                    tuple(speaks_for),
                    tuple(speaks_against),
                )
                for index, sentences, similar, is_copy, speaks_for, speaks_against in zip(
                    *columns, strict=True
                )
            }
        )
