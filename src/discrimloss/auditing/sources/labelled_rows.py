"""Sources that are tables: which rows are samples, what they are called, and their labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.sources.base import (
    AuditSource,
    Corrections,
    LeftOut,
    SourceError,
    SourceOptions,
)
from discrimloss.auditing.sources.labels import read_labels
from discrimloss.auditing.sources.rows import Rows

NO_LABEL = "no label"


class LabelledRows(AuditSource):
    """A source whose samples are rows of a table.

    Args:
        rows: of a file, or of anything else that has rows.
        options: what a person said; `label` must be there.
        unusable: numbers of rows that are no samples, whatever their label is, and why.
    """

    def __init__(
        self,
        rows: Rows,
        options: SourceOptions,
        unusable: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self.rows = rows
        self.options = options
        self.label_column = label_column(rows, options)
        usable = np.ones(len(rows), bool)
        usable[list(unusable)] = False
        if not usable.any():
            reasons = " or ".join(f"{reason!r}" for reason in sorted(set(unusable.values())))
            raise SourceError(f"no row of {rows.name} can be audited: {reasons} in all of them")
        labels = read_labels(rows.raw_labels(self.label_column)[usable], options.regression)
        self.target = labels.target
        self.class_names = labels.class_names
        self.notes = labels.notes
        self.row_numbers: npt.NDArray[np.int64] = np.flatnonzero(usable)[~labels.is_missing]
        """Shape (samples,): which row a sample is."""
        names = row_names(rows, options.id)
        self.ids = tuple(names[number] for number in self.row_numbers)
        reasons_by_row = dict(unusable)
        for number in np.flatnonzero(usable)[labels.is_missing]:
            reasons_by_row[int(number)] = NO_LABEL
        self.left_out = tuple(
            LeftOut(names[number], reason) for number, reason in sorted(reasons_by_row.items())
        )

    def require_class(self, name: str) -> None:
        """Raise a `SourceError` if the column of the labels cannot hold it."""
        self.rows.require_label(name, self.label_column)

    def write_corrected(self, corrections: Corrections, directory: Path) -> list[Path]:
        """The same table under the same name, with corrected labels and without dropped rows."""
        path = directory / self.rows.name
        new_labels = {
            int(self.row_numbers[sample]): label for sample, label in corrections.labels.items()
        }
        dropped = {int(self.row_numbers[sample]) for sample in corrections.dropped}
        self.rows.write(path, new_labels, self.label_column, dropped)
        return [path]

    def fingerprint(self) -> str:
        """A checksum of the whole table, and of what its columns were taken for."""
        options = self.options
        said = (self.label_column, options.id, options.text, options.image, options.regression)
        content = repr((self.rows.checksum(), said))
        return hashlib.sha256(content.encode()).hexdigest()[:32]


def label_column(rows: Rows, options: SourceOptions) -> str:
    """The column with the labels, or a `SourceError` that says which columns there are."""
    if options.label is None:
        raise SourceError(
            f"say which column of {rows.name} holds the labels, --label COLUMN: "
            f"it has {', '.join(rows.columns)}"
        )
    column = rows.require(options.label, "--label")
    others = {"--id": options.id, "--text": options.text, "--image": options.image}
    for option, other in others.items():
        if other == column:
            raise SourceError(f"--label and {option} name the same column, {column!r}: name two")
    return column


def row_names(rows: Rows, id_column: str | None) -> list[str]:
    """One name per row: its number from 0, or what stands in a column."""
    if id_column is None:
        return [str(number) for number in range(len(rows))]
    texts = rows.texts(rows.require(id_column, "--id"))
    first_row: dict[str, int] = {}
    names: list[str] = []
    for number, text in enumerate(texts):
        if text is None:
            raise SourceError(
                f"row {number} of {rows.name} (from 0) has nothing in the column {id_column!r}: "
                "every row needs a name, or leave --id away"
            )
        if text in first_row:
            raise SourceError(
                f"rows {first_row[text]} and {number} of {rows.name} (from 0) have the same name "
                f"{text!r} in the column {id_column!r}: names must differ, or leave --id away"
            )
        first_row[text] = number
        names.append(text)
    return names
