"""Checks what a person set against what can be set: names, types, and sentences about both."""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

from discrimloss.errors import DiscrimLossError

NOTHING = "none"
"""How a person writes that something is not set, where it may be: TOML has no word for it."""


class OptionError(DiscrimLossError, ValueError):
    """An option that does not exist, or a value of the wrong type: one sentence."""


@dataclass(frozen=True)
class Option:
    """Something that can be set: its type, and its default if it has one."""

    type: Any
    default: Any = inspect.Parameter.empty

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is inspect.Parameter.empty


def did_you_mean(name: str, valid: Iterable[str], prefix: str = "") -> str:
    """What is valid, the likeliest first: ``"did you mean 'a'? Valid are a, b"``.

    A name without its table finds the key: ``learning_rate`` means ``optimizer.learning_rate``.

    Args:
        name: what was written.
        valid: what could have been.
        prefix: what stands before each of them; all share it, so it says nothing about likeness.
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
    """The given values, each with the type of its option.

    Args:
        options: what can be set.
        given: what was set.
        where: the table it was set in, for messages; empty for the top.
        owner: what has these options, for messages.
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
    """`value` as an `expected`, or an `OptionError`. Whole numbers pass as numbers."""
    converted = _convert(value, expected)
    if converted is _WRONG:
        raise OptionError(f"{key} must be {describe_type(expected)}, not {value!r}")
    return converted


_WRONG = object()
_PLAIN = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): repr(NOTHING),
}


def _convert(value: Any, expected: Any) -> Any:
    if expected is Any:
        return value
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin in (Union, types.UnionType):
        if value == NOTHING and type(None) in arguments:
            return None
        alternatives = (_convert(value, argument) for argument in _exact_first(arguments))
        return next((found for found in alternatives if found is not _WRONG), _WRONG)
    if origin is Literal:
        same = [choice for choice in arguments if choice == value and type(choice) is type(value)]
        return value if same else _WRONG
    if origin in (tuple, list):
        return _convert_sequence(value, origin, arguments)
    if origin is dict or expected is dict:
        return value if isinstance(value, dict) else _WRONG
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, bool) and expected is not bool:
        return _WRONG
    return value if isinstance(value, expected) else _WRONG


def _exact_first(arguments: tuple[Any, ...]) -> list[Any]:
    # 3 for `float | int` stays the whole number that was written.
    return sorted(arguments, key=lambda argument: argument is float)


def _convert_sequence(value: Any, origin: type, arguments: tuple[Any, ...]) -> Any:
    if not isinstance(value, (list, tuple)):
        return _WRONG
    if origin is list or arguments[-1:] == (Ellipsis,):
        element_types = [arguments[0]] * len(value)
    elif len(arguments) == len(value):
        element_types = list(arguments)
    else:
        return _WRONG
    elements = [_convert(element, kind) for element, kind in zip(value, element_types, strict=True)]
    return _WRONG if any(element is _WRONG for element in elements) else origin(elements)


def describe_type(expected: Any) -> str:
    """A type in words: ``"one of 'a', 'b'"``, ``"a whole number"``."""
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
    return _PLAIN.get(expected, getattr(expected, "__name__", str(expected)))
