"""The shape of a stored result, checked so that an error names the damaged part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from discrimloss.errors import DiscrimLossError


class DamagedError(DiscrimLossError, ValueError):
    """A part of a result is missing, or of the wrong type."""


Check = Callable[[Any, str], None]
"""Raises a `DamagedError` unless a part of a result, of this name, has the right type."""


def require_shape(content: Any) -> None:
    """Raise a `DamagedError` that names the first part of a result that is missing or damaged."""
    _RESULT(content, "the line")


def _of(kinds: type | tuple[type, ...], what: str) -> Check:
    def check(part: Any, name: str) -> None:
        if not isinstance(part, kinds) or isinstance(part, bool):
            raise DamagedError(f"{name} is not {what}")

    return check


_text = _of(str, "a text")
_number = _of((int, float), "a number")
_mapping = _of(dict, "a mapping")
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
    """A mapping from any keys to such parts."""

    def check_every(part: Any, name: str) -> None:
        _mapping(part, name)
        for key, entry in part.items():
            check(entry, f"{name}.{key}")

    return check_every


def _with(needed: dict[str, Check], optional: dict[str, Check] | None = None) -> Check:
    """A mapping with the needed parts, perhaps the optional ones, and any others."""

    def check_table(part: Any, name: str) -> None:
        _mapping(part, name)
        prefix = "" if name == "the line" else f"{name}."
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
            f"{name} is not a list of equal length for each metric, and their epochs"
        )


_METRICS = ("noise_true", "noise_estimated", "auroc", "score_auroc", "precision", "recall")
_SUMMARY = _with(
    {"metric": _text},
    {
        "test": _with({"last": _number, "best": _number}, {"best_epoch": _number}),
        "validation": _with({"last": _number}),
        "seconds": _number,
        **dict.fromkeys((*_METRICS, "train_accuracy_noisy", "train_mae_noisy"), _or_none(_number)),
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
        "method_defaults": _mapping,
        "command": _text,
        "versions": _mapping,
        "machine": _mapping,
        "summary": _SUMMARY,
        "history": _history,
    },
    {"samples": _or_none(_SAMPLES)},
)
