"""What a stored result must have for the pages to be made of it: a damaged file is told by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from discrimloss.errors import DiscrimLossError


class DamagedError(DiscrimLossError, ValueError):
    """A part of a result that is missing or is not what it must be."""


Check = Callable[[Any, str], None]
"""Raises a `DamagedError` unless a part of a result, of this name, is what it must be."""


def require_shape(content: Any) -> None:
    """Raise a `DamagedError` that names the first part of a result that is missing or damaged."""
    _RESULT(content, "the file")


def _of(kinds: type | tuple[type, ...], what: str) -> Check:
    def check(part: Any, name: str) -> None:
        if not isinstance(part, kinds) or isinstance(part, bool):
            raise DamagedError(f"{name} is not {what}")

    return check


_text = _of(str, "a text")
_number = _of((int, float), "a number")
_table = _of(dict, "a table")
_list = _of(list, "a list")


def _or_none(check: Check) -> Check:
    def check_unless_none(part: Any, name: str) -> None:
        if part is not None:
            check(part, name)

    return check_unless_none


def _each(check: Check) -> Check:
    """A list of such parts."""

    def check_each(part: Any, name: str) -> None:
        _list(part, name)
        for entry in part:
            check(entry, f"an entry of {name}")

    return check_each


def _every(check: Check) -> Check:
    """A table, under whatever keys, of such parts."""

    def check_every(part: Any, name: str) -> None:
        _table(part, name)
        for key, entry in part.items():
            check(entry, f"{name}.{key}")

    return check_every


def _with(needed: dict[str, Check], optional: dict[str, Check] | None = None) -> Check:
    """A table that has the needed parts, perhaps the optional ones, and any others."""

    def check_table(part: Any, name: str) -> None:
        _table(part, name)
        prefix = "" if name == "the file" else f"{name}."
        for key, check in needed.items():
            if key not in part:
                raise DamagedError(f"{prefix}{key} is missing")
            check(part[key], prefix + key)
        for key, check in (optional or {}).items():
            if key in part:
                check(part[key], prefix + key)

    return check_table


def _history(part: Any, name: str) -> None:
    _every(_each(_or_none(_number)))(part, name)
    lengths = {len(column) for column in part.values()}
    if len(lengths) > 1 or (part and "epoch" not in part):
        raise DamagedError(
            f"{name} is not a list of equal length for each figure, and their epochs"
        )


_FIGURES = ("noise_true", "noise_estimated", "auroc", "score_auroc", "precision", "recall")
_SUMMARY = _with(
    {"metric": _text},
    {
        "test": _with({"last": _number, "best": _number}, {"best_epoch": _number}),
        "validation": _with({"last": _number}),
        "seconds": _number,
        **dict.fromkeys((*_FIGURES, "train_accuracy_noisy", "train_mae_noisy"), _or_none(_number)),
    },
)
_GROUPS = {"clean": _each(_number), "wrong": _each(_number)}
_HISTOGRAM = {
    "epoch": _number,
    "counts": _with(_GROUPS),
    "medians": _with(dict.fromkeys(("clean", "wrong"), _or_none(_number))),
    "overlap": _or_none(_number),
}
_BOX = dict.fromkeys(("low", "first_quartile", "median", "third_quartile", "high"), _number)
_FLUCTUATION = {
    "mean": _number,
    "turns": _number,
    "box": _with(_BOX),
    "traced": _with({"importance": _each(_number)}),
}
_SAMPLES = _with(
    {}, {"histograms": _each(_with(_HISTOGRAM)), "fluctuation": _every(_with(_FLUCTUATION))}
)
_RESULT = _with(
    {
        "config": _with({"recipe": _text}),
        "method_defaults": _table,
        "command": _text,
        "versions": _table,
        "machine": _table,
        "summary": _SUMMARY,
        "history": _history,
    },
    {"samples": _or_none(_SAMPLES)},
)
