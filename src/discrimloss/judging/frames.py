"""Verdicts as data frames: ours, back again, and cleanlab's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discrimloss.judging.per_sample import one_per_sample
from discrimloss.judging.verdicts import (
    INCORRECT,
    LABELS,
    RULES,
    UNSEEN,
    Rule,
    Verdicts,
    import_pandas,
)

if TYPE_CHECKING:
    import pandas

COLUMNS = ("label", "p_incorrect", "weight", "average_loss")
RULE_ATTRIBUTE = "rule"
ID_INDEX = "id"  # what the index is called where samples have names


def verdicts_to_frame(verdicts: Verdicts) -> pandas.DataFrame:
    """See `Verdicts.to_pandas`."""
    pd = import_pandas()
    columns = {
        "label": pd.Categorical.from_codes(verdicts.code, categories=list(LABELS)),
        "p_incorrect": verdicts.p_incorrect,
        "weight": verdicts.weight,
        "average_loss": verdicts.average_loss,
    }
    index = pd.RangeIndex(len(verdicts), name="index")
    if verdicts.ids is not None:
        index = pd.Index(list(verdicts.ids), name=ID_INDEX)
    frame: pandas.DataFrame = pd.DataFrame(columns, index=index)
    frame.attrs[RULE_ATTRIBUTE] = verdicts.rule  # Parquet files keep it too
    return frame


def verdicts_from_frame(frame: pandas.DataFrame, rule: Rule | None = None) -> Verdicts:
    """See `Verdicts.from_pandas`."""
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise ValueError(
            f"the data frame lacks the columns {', '.join(missing)}: verdicts need "
            f"{', '.join(COLUMNS)}, as Verdicts.to_pandas() writes them"
        )
    rule = rule or frame.attrs.get(RULE_ATTRIBUTE, "calibrated")
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, not {rule!r}")
    ids = None
    if frame.index.name == ID_INDEX:  # any order will do: the names tell who is who
        ids = frame.index.tolist()
    else:
        frame = frame.iloc[_order_of_samples(frame)]
    code = _codes(frame["label"])
    verdicts = Verdicts(
        code=code,
        p_incorrect=_numbers(frame, "p_incorrect", unknown=code == UNSEEN),
        weight=_numbers(frame, "weight", unknown=np.zeros(len(code), dtype=bool)),
        average_loss=_numbers(frame, "average_loss", unknown=code == UNSEEN),
        rule=rule,
        ids=ids,
    )
    known = verdicts.p_incorrect[code != UNSEEN]
    if len(known) and not (known.min() >= 0.0 and known.max() <= 1.0):
        raise ValueError("p_incorrect must be a probability, between 0 and 1")
    return verdicts


def verdicts_to_cleanlab(
    verdicts: Verdicts, given_label: Any, predicted_label: Any | None = None
) -> pandas.DataFrame:
    """See `Verdicts.to_cleanlab`."""
    pd = import_pandas()
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
        if values.dtype.kind == "U":  # cleanlab's frames hold names of classes as objects
            columns[name] = pd.Series(values.astype(object), dtype=object)
    frame: pandas.DataFrame = pd.DataFrame(columns)
    return frame


def _order_of_samples(frame: pandas.DataFrame) -> npt.NDArray[np.intp]:
    """Where the row of each sample is: rows may have been sorted, but not lost."""
    index = frame.index.to_numpy()
    order = np.argsort(index, kind="stable") if index.dtype.kind in "iu" else None
    if order is None or not np.array_equal(index[order], np.arange(len(index))):
        raise ValueError(
            "the data frame's index must hold every sample index from 0 to "
            f"{len(index) - 1} once: pass all rows, or call reset_index(drop=True) if they "
            "are in the order of the samples"
        )
    return order


def _codes(labels: pandas.Series) -> npt.NDArray[np.int8]:
    """Positions in `LABELS`, whether the column holds categories or strings."""
    code = np.full(len(labels), -1, dtype=np.int8)
    values = labels.to_numpy(dtype=object)
    for position, label in enumerate(LABELS):
        code[values == label] = position
    unknown = np.flatnonzero(code < 0)
    if len(unknown):
        raise ValueError(
            f"label must be one of {', '.join(LABELS)}, but is {values[unknown[0]]!r} "
            f"for sample {unknown[0]}"
        )
    return code


def _numbers(
    frame: pandas.DataFrame, name: str, unknown: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """A column, which is empty just where a value cannot be known."""
    try:
        values: npt.NDArray[np.float32] = frame[name].to_numpy(dtype=np.float32, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from error
    wrong = np.flatnonzero(np.isnan(values) != unknown)
    if len(wrong):
        sample = int(wrong[0])
        raise ValueError(
            f"{name} of sample {sample} has a value, but the sample is unseen"
            if unknown[sample]
            else f"{name} of sample {sample} is missing (NaN): only unseen samples may lack it"
        )
    return values
