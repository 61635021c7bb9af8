"""Checks the names and types of settings, with error messages."""

from __future__ import annotations

import difflib
import inspect
import json
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

from discrimloss.errors import DiscrimLossError, needs_extra

NOT_SET = "none"
"""The word for an option without a value, because TOML has no null."""


class OptionError(DiscrimLossError, ValueError):
    """An option that does not exist, or a value that it cannot have."""


@dataclass(frozen=True)
class Option:
    """An option: its type, and its default if it has one."""

    type: Any
    default: Any = inspect.Parameter.empty

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is inspect.Parameter.empty


def did_you_mean(name: str, valid: Iterable[str], prefix: str = "") -> str:
    """Return a hint with the valid names: ``"did you mean 'a'? Valid are a, b"``.

    A name without its section is found too: ``learning_rate`` for ``optimizer.learning_rate``.

    Args:
        name: the user's name.
        valid: the valid names.
        prefix: shown before each name, but not compared.
    """
    names = list(valid)
    likely = difflib.get_close_matches(name, names, n=1)
    likely = [known for known in names if known.rpartition(".")[2] == name] or likely
    listed = ", ".join(f"{prefix}{known}" for known in names) or "none"
    if not likely:
        return f"valid are {listed}"
    return f"did you mean '{prefix}{likely[0]}'? Valid are {listed}"


def check_options(
    options: Mapping[str, Option], given: Mapping[str, Any], where: str, owner: str
) -> dict[str, Any]:
    """Return the given values, each converted to the type of its option.

    Args:
        options: the valid options.
        given: the given values.
        where: the section of the values, for messages. Empty for the top level.
        owner: owner of the options, for messages.

    Raises:
        OptionError: an unknown name, a wrong type, or a missing value.
    """
    prefix = f"{where}." if where else ""
    checked = {}
    for name, value in given.items():
        if name not in options:
            raise OptionError(
                f"unknown key {prefix}{name} for {owner}: {did_you_mean(name, options, prefix)}"
            )
        checked[name] = checked_value(value, options[name].type, f"{prefix}{name}")
    for name, option in options.items():
        if option.is_required and name not in checked:
            raise OptionError(f"{owner} needs {prefix}{name}, {describe_type(option.type)}")
    return checked


def checked_value(value: Any, expected: Any, key: str) -> Any:
    """Convert `value` to the type `expected`. Whole numbers may be floats, lists may be tuples.

    Raises:
        OptionError: the value has another type.
    """
    with needs_extra("train", "reading settings"):
        from pydantic import TypeAdapter, ValidationError

    if expected is Any:
        return value
    if value == NOT_SET and type(None) in typing.get_args(expected):
        return None
    try:
        # Strict validation distinguishes Python's lists and tuples. JSON has only lists.
        return TypeAdapter(expected).validate_json(json.dumps(value), strict=True)
    except (ValidationError, TypeError) as error:
        raise OptionError(f"{key} must be {describe_type(expected)}, not {value!r}") from error


_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): repr(NOT_SET),
}


def describe_type(expected: Any) -> str:
    """Return a type in words: ``"one of 'a', 'b'"``, ``"a whole number"``."""
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(argument) for argument in arguments)
    if origin is Literal:
        return f"one of {', '.join(repr(choice) for choice in arguments)}"
    if origin in (tuple, list):
        if origin is list or arguments[-1:] == (Ellipsis,):
            return f"a list, each {describe_type(arguments[0])}"
        return f"a list of {len(arguments)}"
    if origin is dict or expected is dict:
        return "a table"
    return _WORDS.get(expected, getattr(expected, "__name__", str(expected)))
