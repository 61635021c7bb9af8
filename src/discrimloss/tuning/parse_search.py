"""Parses `--search`: `method`, `optimizer`, `all`, or a range `KEY=LOW:HIGH:log`."""

from __future__ import annotations

import typing
from collections.abc import Collection, Sequence
from typing import Any

from discrimloss.models.base import models
from discrimloss.options import OptionError, checked_value, did_you_mean
from discrimloss.recipes.settings import look_up, parse_setting
from discrimloss.training.config import OptimizerConfig, RunConfig, ScheduleConfig
from discrimloss.training.methods.base import methods
from discrimloss.training.run_directory import flat
from discrimloss.tuning.search_space import (
    LOWEST_WEIGHT,
    OWN_SPACE,
    Choice,
    Range,
    Searched,
    SearchSpace,
    method_space,
    optimizer_space,
    with_values,
)

NAMED = ("method", "optimizer", "all")


def parse_search(
    config: RunConfig, wanted: Sequence[str], settings: Sequence[str] = ()
) -> SearchSpace:
    """Return the search space of ``--search`` options.

    Args:
        config: the recipe with its settings.
        wanted: names of spaces, and ranges or choices for single keys, which override those of
            the spaces. The default is the hyperparameters of DiscrimLoss if that is the method, and
            else those of the optimizer.
        settings: ``key=value`` settings of the user, which are not searched.

    Raises:
        OptionError: something cannot be searched.
    """
    names = [word for word in wanted if "=" not in word]
    for name in names:
        if name not in NAMED:
            raise OptionError(
                f"--search {name!r} is neither a range, KEY=LOW:HIGH, nor a name: "
                f"{did_you_mean(name, NAMED)}"
            )
    has_own = config.method in OWN_SPACE
    if not wanted:
        names = ["method" if has_own else "optimizer"]
    space: SearchSpace = {}
    if "method" in names or ("all" in names and has_own):
        space |= method_space(config)
    if "optimizer" in names or "all" in names:
        space |= optimizer_space(config)
    fixed = {key for text in settings for key, _ in flat(parse_setting(text))}
    space = {key: searched for key, searched in space.items() if not _is_fixed(key, fixed)}
    for word in wanted:
        if "=" in word:
            key, _, text = word.partition("=")
            key = key.strip()
            if _is_fixed(key, fixed):
                raise OptionError(f"{key} is both set and searched: leave one of them out")
            space[key] = _parse_one(config, key, text.strip())
    if not space:
        raise OptionError("nothing is left to search: all of it is set")
    return space


def _is_fixed(key: str, fixed: Collection[str]) -> bool:
    return key in fixed or (key == LOWEST_WEIGHT and "options.weight_range" in fixed)


def _parse_one(config: RunConfig, key: str, text: str) -> Searched:
    _require_searchable(key)
    searched = _parse_range(config, key, text) if ":" in text else _parse_choice(key, text)
    ends = searched.values if isinstance(searched, Choice) else (searched.low, searched.high)
    for value in ends:
        is_whole = isinstance(searched, Range) and searched.whole
        with_values(config, {key: int(value) if is_whole else value})
    return searched


def _require_searchable(key: str) -> None:
    """Refuse keys that would make trials incomparable, such as those of the data."""
    section, _, name = key.partition(".")
    is_in_section = bool(name) and section in ("optimizer", "schedule", "options", "model")
    if key == "batch_size" or (is_in_section and key != "model.name"):
        return
    raise OptionError(
        f"{key!r} cannot be searched: valid are optimizer.…, schedule.…, options.… (of the "
        "method), model.… and batch_size"
    )


def _parse_range(config: RunConfig, key: str, text: str) -> Range:
    low_text, _, rest = text.partition(":")
    high_text, colon, scale = rest.partition(":")
    low, high = (_value_of(key, end) for end in (low_text, high_text))
    is_number = all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in (low, high))
    if not is_number or (colon and scale != "log"):
        raise OptionError(f"--search {key}={text}: write {key}=LOW:HIGH or {key}=LOW:HIGH:log")
    if not float("-inf") < low < high < float("inf"):
        raise OptionError(f"--search {key}={text}: the range must begin below its end")
    if colon and low <= 0:
        raise OptionError(f"--search {key}={text}: a range with :log must begin above 0")
    whole = _is_whole(config, key, low)
    if whole and not (isinstance(low, int) and isinstance(high, int)):
        raise OptionError(f"--search {key}={text}: {key} takes whole numbers")
    return Range(low, high, log=bool(colon), whole=whole)


def _parse_choice(key: str, text: str) -> Choice:
    values = tuple(_value_of(key, word) for word in text.split(","))
    if len(set(values)) < 2:
        raise OptionError(
            f"--search {key}={text}: give at least two values, {key}=A,B, or a range, "
            f"{key}=LOW:HIGH"
        )
    return Choice(values)


def _value_of(key: str, text: str) -> Any:
    value = look_up(parse_setting(f"{key}={text}"), key)
    if isinstance(value, (bool, int, float, str)) and value != "":
        return value
    raise OptionError(f"--search {key}: {text!r} is not a number or a word")


def _is_whole(config: RunConfig, key: str, example: float) -> bool:
    """Return whether a setting takes only whole numbers. Refuse a setting that takes no numbers."""
    section, _, name = key.partition(".")
    types: dict[str, Any] = {}
    if section in ("optimizer", "schedule"):
        types = typing.get_type_hints(OptimizerConfig if section == "optimizer" else ScheduleConfig)
    elif section == "options":
        types = {k: option.type for k, option in methods.options(config.method).items()}
    elif section == "model":
        types = {k: option.type for k, option in models.options(config.model.name).items()}
    if key == "batch_size":
        return True
    if name not in types:
        with_values(config, {key: example})  # the error lists the keys
    try:
        checked_value(0.5, types[name], key)
    except OptionError:
        checked_value(int(example), types[name], key)
        return True
    return False
