"""Converts verdicts to and from data frames, and to cleanlab's layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discrimloss.judging.verdicts import (
    INCORRECT,
    LABELS,
    RULES,
    UNSEEN,
    Rule,
    Verdicts,
    import_pandas,
    log_odds,
    one_per_sample,
)

if TYPE_CHECKING:
    import pandas

COLUMNS = (
    "id",
    "given_label",
    "suggested_label",
    "verdict",
    "p_incorrect",
    "score",
    "average_loss",
    "weight",
)
"""The columns of every frame and file of verdicts."""


def verdicts_to_frame(verdicts: Verdicts) -> pandas.DataFrame:
    """See `Verdicts.to_pandas`."""
    pd = import_pandas()
    number = len(verdicts)
    columns = {
        "id": _object_column(verdicts.ids, number),
        "given_label": _label_column(verdicts.given_label, number),
        "suggested_label": _label_column(verdicts.suggested_label, number),
        "verdict": pd.Categorical.from_codes(verdicts.code, categories=list(LABELS)),
        "p_incorrect": verdicts.p_incorrect,
        "score": verdicts.score,
        "average_loss": _float_column(verdicts.average_loss, number),
        "weight": _float_column(verdicts.weight, number),
    }
    frame: pandas.DataFrame = pd.DataFrame(columns)
    interval = verdicts.noise_interval
    frame.attrs = {
        "rule": verdicts.rule,
        "noise_rate": verdicts.noise_rate,
        "noise_interval": None if interval is None else list(interval),
        "notes": list(verdicts.notes),
    }
    return frame


def verdicts_from_frame(frame: pandas.DataFrame, rule: Rule | None = None) -> Verdicts:
    """See `Verdicts.from_pandas`."""
    is_old = "verdict" not in frame and "label" in frame  # written by 0.1
    name = "label" if is_old else "verdict"
    missing = [column for column in (name, "p_incorrect") if column not in frame]
    if missing:
        raise ValueError(
            f"the data frame lacks the columns {', '.join(missing)}: verdicts need verdict and "
            "p_incorrect, as Verdicts.to_pandas() returns them"
        )
    rule = rule or frame.attrs.get("rule", "calibrated")
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, not {rule!r}")
    ids = None
    if frame.index.name == "id":  # frames of 0.1 have ids as index
        ids = frame.index.tolist()
    else:
        frame = frame.iloc[_order_of_samples(frame)]
        if "id" in frame and frame["id"].notna().any():
            ids = frame["id"].tolist()
    code = _codes(frame[name], name)
    unseen = code == UNSEEN
    p_incorrect = _floats(frame, "p_incorrect", unknown=unseen)
    known = p_incorrect[~unseen]
    if len(known) and not (known.min() >= 0.0 and known.max() <= 1.0):
        raise ValueError("p_incorrect must be a probability, between 0 and 1")
    # In files of 0.1, the score is that of a training method.
    has_score = "score" in frame and not is_old
    interval = frame.attrs.get("noise_interval")
    return Verdicts(
        code=code,
        p_incorrect=p_incorrect,
        score=_floats(frame, "score", unknown=unseen) if has_score else log_odds(p_incorrect),
        average_loss=_optional_floats(frame, "average_loss", unknown=unseen),
        weight=_optional_floats(frame, "weight", unknown=np.zeros(len(code), dtype=np.bool_)),
        given_label=_labels(frame, "given_label"),
        suggested_label=_labels(frame, "suggested_label"),
        ids=ids,
        rule=rule,
        noise_interval=None if interval is None else (float(interval[0]), float(interval[1])),
        notes=tuple(frame.attrs.get("notes", ())),
        can_tell_noise=bool(unseen.all()) or frame.attrs.get("noise_rate", 0.0) is not None,
    )


def verdicts_to_cleanlab(
    verdicts: Verdicts, given_label: Any | None = None, predicted_label: Any | None = None
) -> pandas.DataFrame:
    """See `Verdicts.to_cleanlab`."""
    pd = import_pandas()
    given_label = verdicts.given_label if given_label is None else given_label
    if given_label is None:
        raise ValueError("these verdicts hold no labels: pass given_label, one for each sample")
    predicted_label = verdicts.suggested_label if predicted_label is None else predicted_label
    score = 1.0 - verdicts.p_incorrect.astype(np.float64)
    columns: dict[str, Any] = {
        "is_label_issue": verdicts.code == INCORRECT,
        "label_score": np.where(verdicts.code == UNSEEN, 1.0, score),
        "given_label": one_per_sample(given_label, len(verdicts), "given_label"),
    }
    if predicted_label is not None:
        columns["predicted_label"] = one_per_sample(
            predicted_label, len(verdicts), "predicted_label"
        )
    for name, values in columns.items():
        if values.dtype.kind in "UO":  # class names are objects in cleanlab's frames
            columns[name] = pd.Series(values.astype(object), dtype=object)
    frame: pandas.DataFrame = pd.DataFrame(columns)
    return frame


def _object_column(values: Any | None, number: int) -> Any:
    pd = import_pandas()
    if values is None:
        return pd.Series([None] * number, dtype=object)
    column = list(values)
    is_text = any(isinstance(value, str) for value in column)
    return pd.Series(column, dtype=object if is_text or not column else None)


def _label_column(labels: npt.NDArray[Any] | None, number: int) -> Any:
    """Return names as objects, regression targets as floats, positions as nullable integers."""
    pd = import_pandas()
    if labels is None or labels.dtype.kind != "O":
        return _object_column(labels, number) if labels is None else labels
    is_position = all(label is None or isinstance(label, (int, np.integer)) for label in labels)
    some_known = any(label is not None for label in labels)
    return pd.Series(labels, dtype="Int64" if is_position and some_known else object)


def _float_column(values: npt.NDArray[np.float32] | None, number: int) -> npt.NDArray[np.float32]:
    return np.full(number, np.nan, dtype=np.float32) if values is None else values


def _order_of_samples(frame: pandas.DataFrame) -> npt.NDArray[np.intp]:
    """Return the row of each sample. Rows may be sorted, but must not be missing."""
    has_column = "index" in frame
    index = (frame["index"] if has_column else frame.index).to_numpy()
    order = np.argsort(index, kind="stable") if index.dtype.kind in "iu" else None
    if order is None or not np.array_equal(index[order], np.arange(len(index))):
        raise ValueError(
            f"the data frame's {'column' if has_column else 'index'}"
            f"{' index' if has_column else ''} must hold every sample index from 0 to "
            f"{len(index) - 1} once: pass all rows, or call reset_index(drop=True) if they "
            "are in the order of the samples"
        )
    return order


def _codes(verdicts: pandas.Series, name: str) -> npt.NDArray[np.int8]:
    """Return positions in `LABELS`, for a column of categories or strings."""
    code = np.full(len(verdicts), -1, dtype=np.int8)
    values = verdicts.to_numpy(dtype=object)
    for position, label in enumerate(LABELS):
        code[values == label] = position
    unknown = np.flatnonzero(code < 0)
    if len(unknown):
        raise ValueError(
            f"{name} must be one of {', '.join(LABELS)}, but is {values[unknown[0]]!r} "
            f"for sample {unknown[0]}"
        )
    return code


def _floats(
    frame: pandas.DataFrame, name: str, unknown: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """Return a column. Its values must be missing for unseen samples, and only for them."""
    try:
        values: npt.NDArray[np.float32] = frame[name].to_numpy(dtype=np.float32, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must contain numbers: {error}") from error
    wrong = np.flatnonzero(np.isnan(values) != unknown)
    if len(wrong):
        sample = int(wrong[0])
        raise ValueError(
            f"{name} of sample {sample} has a value, but the sample is unseen"
            if unknown[sample]
            else f"{name} of sample {sample} is missing (NaN): only unseen samples may lack it"
        )
    return values


def _optional_floats(
    frame: pandas.DataFrame, name: str, unknown: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32] | None:
    """Like `_floats`, but the whole column may be missing."""
    is_missing = name not in frame or (len(frame) > 0 and frame[name].isna().all())
    if is_missing and not (len(frame) > 0 and unknown.all()):
        return None
    return _floats(frame, name, unknown) if name in frame else None


def _labels(frame: pandas.DataFrame, name: str) -> npt.NDArray[Any] | None:
    if name not in frame or frame[name].isna().all():
        return None
    column = frame[name]
    if column.dtype.kind in "iufb" and not column.isna().any():
        return np.asarray(column.to_numpy(dtype=column.dtype.name.lower()))
    if column.dtype.kind == "f":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    values: npt.NDArray[Any] = column.to_numpy(dtype=object)
    values[column.isna().to_numpy()] = None
    return values
