"""All checks of the health of the data, on the inputs of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discrimloss.auditing.health.broken import (
    Broken,
    broken_features,
    broken_pictures,
    broken_rows,
    broken_texts,
)
from discrimloss.auditing.health.data_health import (
    ACROSS_SPLITS,
    BROKEN,
    CONFLICTING,
    EXACT,
    NEAR,
    NO_INDEX,
    ORDER,
    OUTLIERS,
    RARE,
    DataHealth,
    HealthEntry,
)
from discrimloss.auditing.health.duplicates import (
    Confirm,
    Duplicates,
    exact_duplicates,
    near_duplicates,
    plain_text,
    rows_confirm,
    texts_confirm,
)
from discrimloss.auditing.health.features import comparable_points
from discrimloss.auditing.health.neighbours import Neighbours, find_neighbours
from discrimloss.auditing.health.order import find_row_order
from discrimloss.auditing.health.outliers import find_outliers
from discrimloss.auditing.sources.base import AuditSource
from discrimloss.auditing.sources.columns import Columns
from discrimloss.auditing.sources.features import Features
from discrimloss.auditing.sources.image_folder import ImageFolder
from discrimloss.auditing.sources.splits import find_split_column
from discrimloss.auditing.sources.tables import LabelColumn
from discrimloss.auditing.sources.text import Texts

RARE_BELOW = 0.1
"""A class is rare if it has less than this fraction of the mean number of samples per class."""
RARE_NUMBER = 10
NAMED = 5
TARGETS_AGREE = 0.01
"""Regression targets of copies differ if their distance is larger than about this fraction of the
range between the 5 % and 95 % quantiles."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of samples, the basis of all checks."""

    neighbours: Neighbours
    keys: npt.NDArray[Any]
    """Shape (samples,): equal for identical samples."""
    unexplained: npt.NDArray[np.float32] | None = None
    """Shape (samples,): see `ComparedPoints`."""


def compare_samples(source: AuditSource, inputs: Any, by_angle: bool = False) -> Comparison:
    """Compare the samples of a source with each other.

    Args:
        source: the audited source.
        inputs: inputs of the models.
        by_angle: see `comparable_points`.
    """
    points = comparable_points(inputs, by_angle)
    keys = content_keys(source, inputs)
    return Comparison(find_neighbours(points.values), keys, points.unexplained)


def check_health(source: AuditSource, compared: Comparison, inputs: Any) -> DataHealth:
    """Look for duplicates, outliers, rare classes, broken samples, and a non-random order.

    Args:
        source: the audited source.
        compared: the comparison of its samples.
        inputs: inputs of the models, see `comparable_points`.
    """
    target = source.target.numpy()
    neighbours = compared.neighbours
    exact = exact_duplicates(compared.keys)
    confirm, by_texts = _confirm(source, inputs)
    near = near_duplicates(neighbours, exact, confirm, by_texts)
    both = Duplicates(np.where(near.group >= 0, near.group + exact.number, exact.group))
    labels = _rounded(target) if source.is_regression else target
    checks = (
        _conflicting(source, both, labels),
        _across_splits(source, both),
        _grouped(source, EXACT, exact, "are exact copies of others"),
        _grouped(source, NEAR, near, "are nearly the same as others"),
        _outlying(source, compared),
        _rare(source, target),
        _broken(source, inputs),
        _ordered(source, neighbours, both),
    )
    return DataHealth([entry for entry in checks if entry is not None], neighbours.notes)


def _confirm(source: AuditSource, inputs: Any) -> tuple[Confirm | None, bool]:
    """Return the second check of possible near duplicates, and whether it compares texts."""
    if isinstance(source.contents, Texts):
        return texts_confirm(source.contents.texts), True
    if not isinstance(source.contents, Columns):
        return None, False
    texts = source.contents.texts()
    if texts is None:
        return rows_confirm(np.asarray(inputs)), False
    same_texts = texts_confirm(texts)
    if not source.contents.has_table:
        return same_texts, True
    same_rows = rows_confirm(source.contents.ordinal_and_features()[1])
    return lambda first, second: same_texts(first, second) and same_rows(first, second), True


def content_keys(source: AuditSource, inputs: Any) -> npt.NDArray[Any]:
    """Return hashes that are equal for equal samples: shape (samples,).

    Args:
        source: the audited source.
        inputs: inputs of the models; only used for images and features.
    """
    import pandas

    contents = source.contents
    if isinstance(contents, Texts):
        plain = np.array([plain_text(text) for text in contents.texts], dtype=object)
        return np.asarray(pandas.util.hash_array(plain, categorize=False))
    if isinstance(contents, Columns):
        frame = contents.raw_inputs()
        for name in contents.text_columns:
            frame[name] = [plain_text(text) for text in frame[name].fillna("").astype(str)]
        lists = [name for name in frame if frame[name].map(lambda v: isinstance(v, list)).any()]
        return np.asarray(
            pandas.util.hash_pandas_object(
                frame.astype(dict.fromkeys(lists, str)), index=False
            ).to_numpy()
        )
    rows = np.ascontiguousarray(np.asarray(inputs).reshape(len(source), -1))
    return np.array([hash(row.tobytes()) for row in rows])


def split_of_rows(source: AuditSource) -> npt.NDArray[Any] | None:
    """Return the split of each sample, or None if the table has no column of splits.

    A sample with an empty split has None.
    """
    store = source.store
    if not isinstance(store, LabelColumn):
        return None
    column = find_split_column(store.rows, store.column)
    if column is None:
        return None
    return np.array(store.rows.texts(column), dtype=object)[source.rows]


def _rounded(target: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Round regression targets, so that small differences do not matter."""
    low, high = np.quantile(target, (0.05, 0.95))
    step = TARGETS_AGREE * float(high - low)
    return np.round(target / step) if step > 0.0 else target


def _entry(
    source: AuditSource,
    problem: str,
    detail: str,
    index: Sequence[int],
    group: Sequence[int] = (),
    remarks: Sequence[str] = (),
) -> HealthEntry:
    ids = tuple(source.ids[place] for place in index)
    return HealthEntry(problem, detail, ids, tuple(index), tuple(group), tuple(remarks))


def _grouped(
    source: AuditSource, problem: str, found: Duplicates, what: str, remarks: Sequence[str] = ()
) -> HealthEntry | None:
    if not found.number:
        return None
    rows = found.samples
    detail = f"{len(rows):,} samples in {_counted(found.number, 'group')} {what}."
    group = found.group[rows].tolist()
    return _entry(source, problem, detail, rows.tolist(), group, remarks)


def _conflicting(
    source: AuditSource, both: Duplicates, labels: npt.NDArray[Any]
) -> HealthEntry | None:
    found = both.only(labels.astype(object))
    unit = "target" if source.is_regression else "label"
    what = f"are the same, or nearly, and have different {unit}s"
    return _grouped(source, CONFLICTING, found, what)


def _across_splits(source: AuditSource, both: Duplicates) -> HealthEntry | None:
    splits = split_of_rows(source)
    if splits is None:
        return None
    found = both.only(splits)
    remarks = [f"split {splits[row]}" for row in found.samples.tolist()]
    what = "are the same, or nearly, and lie in different splits"
    return _grouped(source, ACROSS_SPLITS, found, what, remarks)


def _outlying(source: AuditSource, compared: Comparison) -> HealthEntry | None:
    texts = source.contents.texts if isinstance(source.contents, Texts) else None
    found = find_outliers(compared.neighbours, compared.unexplained, texts)
    if not found:
        return None
    detail = f"{_counted(len(found), 'sample')} unlike all others."
    return _entry(source, OUTLIERS, detail, list(found), remarks=list(found.values()))


def _rare(source: AuditSource, target: npt.NDArray[Any]) -> HealthEntry | None:
    if source.is_regression:
        return None
    counts = np.bincount(target, minlength=len(source.class_names))
    usual = len(target) / max(int((counts > 0).sum()), 1)
    is_rare = (counts > 0) & (counts < max(RARE_BELOW * usual, min(RARE_NUMBER, 0.5 * usual)))
    if not is_rare.any():
        return None
    rare = np.flatnonzero(is_rare)
    rare = rare[np.argsort(counts[rare], kind="stable")]
    named = [
        f"{source.class_names[place]!r} ({counts[place]:,})" for place in rare[:NAMED].tolist()
    ]
    more = f" and {len(rare) - NAMED} more" if len(rare) > NAMED else ""
    detail = f"{', '.join(named)}{more} against {int(counts.max()):,} samples of the largest class."
    rows = np.flatnonzero(is_rare[target])
    rows = rows[np.argsort(counts[target[rows]], kind="stable")]
    remarks = [f"class {source.class_names[target[row]]}" for row in rows.tolist()]
    return _entry(source, RARE, detail, rows.tolist(), remarks=remarks)


def _broken(source: AuditSource, inputs: Any) -> HealthEntry | None:
    found = _broken_of(source, inputs)
    rows = sorted(found)
    left_out = [(entry.id, entry.reason) for entry in source.left_out]
    if not rows and not left_out:
        return None
    sentences = []
    if rows:
        sentences.append(
            f"{_counted(len(rows), 'sample')} to look at: {_most(list(found.values()))}."
        )
    if left_out:
        counted = _counted(len(left_out), source.store.unit)
        sentences.append(f"{counted} left out of the audit.")  # a note says why
    return HealthEntry(
        BROKEN,
        " ".join(sentences),
        (*(source.ids[row] for row in rows), *(name for name, _ in left_out)),
        (*rows, *[NO_INDEX] * len(left_out)),
        remarks=(*(found[row] for row in rows), *(f"left out: {why}" for _, why in left_out)),
    )


def _broken_of(source: AuditSource, inputs: Any) -> Broken:
    contents = source.contents
    if isinstance(contents, Texts):
        return broken_texts(contents.texts)
    if isinstance(contents, Columns):
        texts = contents.texts()
        broken = {} if texts is None else broken_texts(texts)
        return {**broken, **broken_rows(contents.raw_inputs())}
    if isinstance(contents, Features):
        return broken_features(contents.raw_inputs())
    pictures = np.asarray(inputs)
    return broken_pictures(pictures) if pictures.ndim == 4 else {}


def _most(reasons: list[str]) -> str:
    """Return the most frequent reasons as text."""
    names, counts = np.unique(np.array(reasons), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shown = [f"{names[place]} ({counts[place]:,})" for place in order[:NAMED].tolist()]
    return ", ".join(shown) + (", …" if len(order) > NAMED else "")


def _ordered(source: AuditSource, neighbours: Neighbours, both: Duplicates) -> HealthEntry | None:
    if isinstance(source.store, ImageFolder):  # listed class by class: the files have no order
        return None
    group = both.group
    is_copy = (group[:, None] >= 0) & (group[:, None] == group[neighbours.index])
    found = find_row_order(neighbours, is_copy)
    if found is None:
        return None
    detail = (
        f"{100 * found.close_neighbours:.0f} % of similar samples stand close to each other, "
        f"{100 * found.by_chance:.0f} % if the rows were shuffled."
    )
    return _entry(source, ORDER, detail, found.samples.tolist())


def _counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
