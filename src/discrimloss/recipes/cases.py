"""Settings that depend on others: cases, and the rows of the paper's appendix.

A recipe's ``[[paper]]`` rows each may have ``when`` (keys that must match, e.g. ``noise.rate``),
``options`` (of the method that ``when.method`` names, DiscrimLoss if it names none), the released
code's step size and bound for the sample weights, and any other key of a recipe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from discrimloss.options import OptionError
from discrimloss.released import RELEASED_MOMENTUM

HIGHEST_WEIGHT = 20.0
DEFAULT_METHOD = "discrimloss"


def apply_cases(table: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The recipe with every case on top whose ``when`` fits."""
    merged: dict[str, Any] = {}
    merge(merged, table)
    for case in cases:
        if _conditions_hold(case["when"], merged):
            merge(merged, {key: value for key, value in case.items() if key != "when"})
    return merged


def stretched(
    rows: Sequence[Mapping[str, Any]], epochs: int, full_epochs: int
) -> list[dict[str, Any]]:
    """The rows of a longer run, with the switch at the same part of a shorter one."""
    result: list[dict[str, Any]] = []
    for row in rows:
        copy: dict[str, Any] = {}
        merge(copy, row)
        options = copy.get("options", {})
        if "switch_epoch" in options:
            options["switch_epoch"] = round(options["switch_epoch"] * epochs / full_epochs, 6)
        if "switch_rate" in options:
            options["switch_rate"] = round(options["switch_rate"] * full_epochs / epochs, 6)
        result.append(copy)
    return result


def apply_paper_rows(
    table: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    changes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The recipe with every row on top whose ``when`` fits; `changes` outrank those without one.

    Raises:
        OptionError: the paper has rows for this method, but none for this noise rate or loss.
    """
    if not rows:
        raise OptionError("this recipe has no values from the paper: hyperparameters=default")
    merged: dict[str, Any] = {}
    merge(merged, table)
    for row in rows:
        if "when" not in row:
            merge(merged, row)
    merge(merged, changes or {})
    method = table.get("method")
    own = [row for row in rows if "when" in row and _method_of(row) == method]
    fitting = [row for row in own if _conditions_hold(_without_method(row), merged)]
    if own and not fitting:
        known = "; ".join(_describe(row) for row in own)
        raise OptionError(f"the paper has no hyperparameters for this setting, only for {known}")
    for row in fitting:
        settings = {key: value for key, value in row.items() if key not in ("when", "released")}
        merge(merged, settings)
        if "released" in row:
            steps = weight_steps(row["released"], merged)
            merge(merged, {"options": steps})
    return merged


def weight_steps(released: Mapping[str, float], table: Mapping[str, Any]) -> dict[str, Any]:
    """How the sample weights move, from the released code's learning rate and clamp.

    The released code steps along the gradient of the batch mean with momentum. A sample's own step,
    which is what the paper's form takes, is therefore larger by the momentum's sum and smaller by
    the batch size.
    """
    steps: dict[str, Any] = {}
    rate = released.get("weight_lr")
    if rate is not None:
        is_released = table.get("options", {}).get("variant") == "released"
        own_step = rate / (1.0 - RELEASED_MOMENTUM) / table["batch_size"]
        steps["weight_lr"] = rate if is_released else float(f"{own_step:.6g}")
    clamp = released.get("lowest_log_weight")
    if clamp is not None:
        steps["weight_range"] = [float(f"{math.exp(clamp):.6g}"), HIGHEST_WEIGHT]
    return steps


def merge(table: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Put `changes` into `table`, tables within tables key by key."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), dict):
            merge(table[key], value)
        elif isinstance(value, Mapping):
            table[key] = {}
            merge(table[key], value)
        else:
            table[key] = value


def _method_of(row: Mapping[str, Any]) -> str:
    return str(row["when"].get("method", DEFAULT_METHOD))


def _conditions_hold(conditions: Mapping[str, Any], table: Mapping[str, Any]) -> bool:
    return all(_same(look_up(table, key), value) for key, value in conditions.items())


def look_up(table: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted key; None if there is none."""
    value: Any = table
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _same(value: Any, wanted: Any) -> bool:
    numbers = isinstance(value, (int, float)) and isinstance(wanted, (int, float))
    return math.isclose(value, wanted) if numbers else bool(value == wanted)


def _without_method(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row["when"].items() if key != "method"}


def _describe(row: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in _without_method(row).items())
