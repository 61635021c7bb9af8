"""Settings as a person types them: `key=value`."""

from __future__ import annotations

import difflib
from typing import Any

import tomlkit
import tomlkit.exceptions

from discrimloss.options import OptionError
from discrimloss.training.config import Table, valid_keys


def parse_setting(text: str) -> Table:
    """The table that a setting stands for.

    >>> parse_setting("noise.rate=0.4")
    {'noise': {'rate': 0.4}}
    """
    key, equals, value = text.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        likely = difflib.get_close_matches(text, valid_keys(), n=1)
        example = f"{likely[0]}=…" if likely else "noise.rate=0.4"
        raise OptionError(f"{text!r} is not a setting: write key=value, e.g. {example}")
    table: Any = _parse_value(value.strip())
    for part in reversed(parts):
        table = {part: table}
    return table  # type: ignore[no-any-return]


def _parse_value(text: str) -> Any:
    """A TOML value; anything else is a text: ``method=plain`` needs no quotes."""
    try:
        return tomlkit.parse(f"value = {text}").unwrap()["value"]
    except tomlkit.exceptions.TOMLKitError:
        return text
