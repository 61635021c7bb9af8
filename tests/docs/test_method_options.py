"""The settings that docs/methods.md names for the authors' behaviour exist, and can be trained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from discrimloss.recipes import load_recipe

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
ROW = re.compile(r"^\| `(?P<method>\w+)`[^|]*\| (?P<settings>[^|]*options\.[^|]*) \|", re.MULTILINE)


def commands() -> list[tuple[str, list[str]]]:
    """Return each method and its settings, once for each code span of the table."""
    section = PAGE.read_text("utf-8").partition("## Differences from the authors' code")[2]
    found = []
    for row in ROW.finditer(section.partition("\n## ")[0]):
        for span in re.findall(r"`([^`]*options\.[^`]*)`", row["settings"]):
            settings = [setting for setting in span.split() if "=" in setting]
            found.append((row["method"], settings))
    return found


def test_the_table_is_read() -> None:
    named = {method for method, _ in commands()}
    assert {"co_teaching", "co_teaching_plus", "baby_steps", "sln", "discrimloss"} <= named


@pytest.mark.parametrize(("method", "settings"), commands())
def test_the_settings_are_valid(method: str, settings: list[str]) -> None:
    config = load_recipe("clothing1m", [f"method={method}", *settings])
    names = {setting.partition("=")[0].removeprefix("options.") for setting in settings}
    assert names - {"optimizer.kind", "noisy_validation"} == set(config.options)
