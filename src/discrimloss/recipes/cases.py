"""Settings that depend on other settings: cases, and the rows of the paper's appendix.

Each ``[[paper]]`` row of a recipe may have ``when`` (keys that must match, e.g. ``noise.rate``),
``options`` (options of the method ``when.method``, by default DiscrimLoss), ``released`` (values
from the authors' released code for the sample weights: their step size and lower bound), and any
other key of a recipe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from discrimloss.options import OptionError
from discrimloss.recipes.settings import look_up, merge, merged
from discrimloss.released import RELEASED_MOMENTUM
from discrimloss.training.config import Settings

HIGHEST_WEIGHT = 20.0
DEFAULT_METHOD = "discrimloss"


def apply_cases(settings: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> Settings:
    """Return the recipe merged with all cases whose ``when`` matches."""
    result = merged(settings)
    for case in cases:
        if _conditions_hold(case["when"], result):
            merge(result, {key: value for key, value in case.items() if key != "when"})
    return result


def stretched(
    rows: Sequence[Mapping[str, Any]], epochs: int, full_epochs: int
) -> list[dict[str, Any]]:
    """Return the rows for a run of another length, with the switch at the same fraction of it."""
    result: list[dict[str, Any]] = []
    for row in rows:
        copy = merged(row)
        options = copy.get("options", {})
        if "switch_epoch" in options:
            options["switch_epoch"] = round(options["switch_epoch"] * epochs / full_epochs, 6)
        if "switch_rate" in options:
            options["switch_rate"] = round(options["switch_rate"] * full_epochs / epochs, 6)
        result.append(copy)
    return result


def apply_paper_rows(
    settings: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    changes: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the recipe merged with all matching rows.

    Args:
        settings: the recipe.
        rows: rows of the paper's appendix.
        changes: the user's settings, which take precedence over rows without ``when``.

    Raises:
        OptionError: the paper has rows for this method, but none for this noise rate or loss.
    """
    if not rows:
        raise OptionError("this recipe has no values from the paper: use hyperparameters=default")
    unconditional = [row for row in rows if "when" not in row]
    result = merged(settings, *unconditional, changes or {})
    method = settings.get("method")
    own = [row for row in rows if "when" in row and _method_of(row) == method]
    fitting = [row for row in own if _conditions_hold(_without_method(row), result)]
    if own and not fitting:
        known = "; ".join(_describe(row) for row in own)
        raise OptionError(f"the paper has no hyperparameters for this setting, only for {known}")
    for row in fitting:
        merge(result, {key: value for key, value in row.items() if key not in ("when", "released")})
        if "released" in row:
            merge(result, {"options": weight_steps(row["released"], result)})
    return result


def weight_steps(released: Mapping[str, float], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the step size and the range of the sample weights, from values of the released code.

    The released code uses the gradient of the batch mean, with momentum. The paper uses the
    gradient of each sample, which is larger by a factor of the batch size. The step size for the
    paper's form is therefore that of the released code, divided by the batch size and multiplied by
    the effective factor of the momentum.
    """
    steps: dict[str, Any] = {}
    rate = released.get("weight_lr")
    if rate is not None:
        is_released = settings.get("options", {}).get("variant") == "released"
        own_step = rate / (1.0 - RELEASED_MOMENTUM) / settings["batch_size"]
        steps["weight_lr"] = rate if is_released else float(f"{own_step:.6g}")
    clamp = released.get("lowest_log_weight")
    if clamp is not None:
        steps["weight_range"] = [float(f"{math.exp(clamp):.6g}"), HIGHEST_WEIGHT]
    return steps


def _method_of(row: Mapping[str, Any]) -> str:
    return str(row["when"].get("method", DEFAULT_METHOD))


def _conditions_hold(conditions: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    return all(_same(look_up(settings, key), value) for key, value in conditions.items())


def _same(value: Any, wanted: Any) -> bool:
    numbers = isinstance(value, (int, float)) and isinstance(wanted, (int, float))
    return math.isclose(value, wanted) if numbers else bool(value == wanted)


def _without_method(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row["when"].items() if key != "method"}


def _describe(row: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in _without_method(row).items())
