"""Settings as mappings: parses `key=value`, merges mappings, and looks up dotted keys."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import tomlkit
import tomlkit.exceptions

from discrimloss.options import OptionError
from discrimloss.training.config import Settings, valid_keys


def parse_setting(text: str) -> Settings:
    """Return the nested mapping for a `key=value` setting.

    >>> parse_setting("noise.rate=0.4")
    {'noise': {'rate': 0.4}}
    """
    key, equals, value = text.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        likely = difflib.get_close_matches(text, valid_keys(), n=1)
        example = f"{likely[0]}=…" if likely else "noise.rate=0.4"
        raise OptionError(f"{text!r} is not a setting: write key=value, e.g. {example}")
    return nested(names, _parse_value(value.strip()))


def _parse_value(text: str) -> Any:
    """Parse a TOML value. Return any other text as a string: ``method=plain`` needs no quotes."""
    try:
        return tomlkit.parse(f"value = {text}").unwrap()["value"]
    except tomlkit.exceptions.TOMLKitError:
        return text


def nested(names: list[str], value: Any) -> Settings:
    """Return a value nested under some names.

    >>> nested(["noise", "rate"], 0.4)
    {'noise': {'rate': 0.4}}
    """
    for name in reversed(names):
        value = {name: value}
    settings: Settings = value
    return settings


def merge(settings: Settings, changes: Mapping[str, Any]) -> None:
    """Merge `changes` into `settings` in place. Merge sections key by key."""
    for key, value in changes.items():
        if isinstance(value, Mapping):
            if not isinstance(settings.get(key), dict):
                settings[key] = {}
            merge(settings[key], value)
        else:
            settings[key] = value


def merged(*layers: Mapping[str, Any]) -> Settings:
    """Return a copy of the first mapping, merged with the others."""
    settings: Settings = {}
    for layer in layers:
        merge(settings, layer)
    return settings


def look_up(settings: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key, or None."""
    value: Any = settings
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
