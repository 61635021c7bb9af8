"""The search space: a range or a list of choices for each searched setting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discrimloss.hyperparameters import (
    THRESHOLDS,
    Hyperparameters,
    paper_defaults,
    resolve_hyperparameters,
)
from discrimloss.options import OptionError
from discrimloss.recipes.settings import look_up, merge, nested
from discrimloss.training.config import RunConfig, read_config

LOWEST_WEIGHT = "options.weight_range[0]"
"""The lower bound of the sample weights: the first of the two numbers of a setting."""
OWN_SPACE = ("discrimloss", "superloss_discrimloss")
"""Methods with the hyperparameters of the paper, which are searched by default."""

MOST_COMBINATIONS = 10_000
"""Larger spaces are not enumerated, because duplicate draws are rare in them."""

Value = float | int | str | bool


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, inclusive."""

    low: float
    high: float
    log: bool = False
    """Whether numbers are uniform on a log scale."""
    whole: bool = False
    zero_below: float = 0.0
    """A drawn number below this value stands for 0, which a log scale cannot reach."""

    def draw(self, trial: Any, key: str) -> Value:
        """Return the value that an Optuna trial suggests."""
        if self.whole:
            return int(trial.suggest_int(key, int(self.low), int(self.high), log=self.log))
        return self._meant(trial.suggest_float(key, self.low, self.high, log=self.log))

    def drawn_as(self, value: Any) -> Value | None:
        """Return the number to draw for a value of the setting, or None if it is out of range."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        if value == 0 and self.zero_below > 0.0:
            return self.low
        if not self.low <= value <= self.high or (self.whole and value != int(value)):
            return None
        return int(value) if self.whole else float(value)

    def _meant(self, drawn: float) -> float:
        # Rounded to four digits, so that the recipe shows exactly the value that the trial used.
        return 0.0 if drawn < self.zero_below else rounded(drawn)

    def __str__(self) -> str:
        zero = "0, or " if self.zero_below else ""
        lowest = self.zero_below or self.low
        return f"{zero}{lowest:g} to {self.high:g}{', log' * self.log}"


@dataclass(frozen=True)
class Choice:
    """A hyperparameter that takes one of several values."""

    values: tuple[Value, ...]

    def draw(self, trial: Any, key: str) -> Value:
        """Return the value that an Optuna trial suggests."""
        value: Value = trial.suggest_categorical(key, self.values)
        return value

    def drawn_as(self, value: Any) -> Value | None:
        """Return the value to draw for a value of the setting, or None if it is not a choice."""
        return next((own for own in self.values if own == value), None)

    def __str__(self) -> str:
        return ", ".join(map(str, self.values))


Searched = Range | Choice
SearchSpace = dict[str, Searched]


def rounded(value: float) -> float:
    """Round to four significant digits."""
    return float(f"{value:.4g}")


def method_space(config: RunConfig) -> SearchSpace:
    """Return ranges of the paper's hyperparameters, which depend on the number of epochs.

    The ranges include the rows of the paper's appendix, scaled to the number of epochs, and the
    values of the recipe.

    Raises:
        OptionError: the method has no such hyperparameters.
    """
    if config.method not in OWN_SPACE:
        raise OptionError(
            f"method {config.method!r} has no search space of its own: name its options, "
            "e.g. --search options.NAME=0.1:1, or give --search optimizer"
        )
    own, epochs = own_hyperparameters(config), config.epochs
    thresholds = dict.fromkeys((own.threshold, *THRESHOLDS))
    space: SearchSpace = {
        "options.threshold": Choice(tuple(thresholds)),
        "options.switch_gain": _around(0.05, 2.0, own.switch_gain),
        "options.switch_rate": _around(4.0 / epochs, 100.0 / epochs, own.switch_rate),
        "options.switch_epoch": _around(0.25 * epochs, 0.95 * epochs, own.switch_epoch, log=False),
        "options.suppressed_epochs": Range(
            0, max(1, epochs // 4, own.suppressed_epochs), whole=True
        ),
        "options.regularization": _with_zero(1e-4, 1.0, own.regularization),
    }
    if own.weight_lr is None:
        space["options.relative_weight_lr"] = _around(0.2, 20.0, own.relative_weight_lr)
    else:
        step = own.weight_lr or 1.0
        space["options.weight_lr"] = Range(rounded(step / 10), rounded(step * 10), log=True)
    space[LOWEST_WEIGHT] = _around(0.5, 2.0, own.weight_range[0])
    return space


def optimizer_space(config: RunConfig) -> SearchSpace:
    """Return ranges of learning rate, schedule and weight decay around the recipe's values."""
    rate = config.optimizer.learning_rate or 0.01
    kinds = dict.fromkeys((config.schedule.kind, "constant", "cosine"))
    return {
        "optimizer.learning_rate": Range(rounded(rate / 10), rounded(rate * 10), log=True),
        "schedule.kind": Choice(tuple(kinds)),
        "optimizer.weight_decay": _with_zero(1e-5, 1e-2, config.optimizer.weight_decay),
    }


def _around(low: float, high: float, own: float, *, log: bool = True) -> Range:
    """Return a range, extended to the recipe's value. A log range cannot include 0 or less."""
    if own > 0.0 or not log:
        low, high = min(low, own), max(high, own)
    return Range(rounded(low), rounded(high), log=log)


def _with_zero(smallest: float, high: float, own: float) -> Range:
    """Return a range on a log scale in which numbers below `smallest` stand for 0."""
    if own > 0.0:
        smallest, high = min(smallest, own), max(high, own)
    return Range(rounded(smallest / 10), rounded(high), log=True, zero_below=rounded(smallest))


def own_hyperparameters(config: RunConfig) -> Hyperparameters:
    """Return the hyperparameters that a run of DiscrimLoss has without a search."""
    variant = config.options.get("variant", "paper")
    names = Hyperparameters.__dataclass_fields__
    given = {name: value for name, value in config.options.items() if name in names}
    try:
        return resolve_hyperparameters(config.epochs, variant, given)
    except ValueError as error:
        raise OptionError(str(error)) from error


def combinations(space: SearchSpace) -> list[dict[str, Value]]:
    """Return all combinations of a space. Empty if it has a range or too many combinations."""
    choices = [searched.values for searched in space.values() if isinstance(searched, Choice)]
    if len(choices) < len(space) or math.prod(map(len, choices)) > MOST_COMBINATIONS:
        return []
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*choices)]


def own_values(config: RunConfig, space: SearchSpace) -> dict[str, Value]:
    """Return the values to draw for the unchanged recipe, except those outside of the space."""
    settings = config.as_dict()
    defaults = vars(own_hyperparameters(config)) if config.method in OWN_SPACE else {}
    found: dict[str, Value] = {}
    for key, searched in space.items():
        value = look_up(settings, key)
        if key == LOWEST_WEIGHT:
            value = defaults["weight_range"][0]
        elif value is None and key.startswith("options."):
            value = defaults.get(key.removeprefix("options."))
        drawn = searched.drawn_as(value)
        if drawn is not None:
            found[key] = drawn
    return found


def with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """Return the config with some settings changed.

    Raises:
        OptionError: an unknown key or a wrong value.
    """
    settings = config.as_dict()
    for key, value in values.items():
        if key == LOWEST_WEIGHT:
            bounds = config.options.get("weight_range") or paper_defaults(None)["weight_range"]
            key, value = "options.weight_range", [value, max(value, bounds[1])]
        merge(settings, nested(key.split("."), value))
    return read_config(settings, config.recipe)
