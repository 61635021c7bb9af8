"""Help, the version and usage errors do not wait for torch or any other heavy library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from command_line import run_process

from discrimloss.cli.app import app

HEAVY = {
    "accelerate",
    "matplotlib",
    "numpy",
    "optuna",
    "pandas",
    "PIL",
    "plotly",
    "pyarrow",
    "sklearn",
    "torch",
    "transformers",
}
IMPORTED_LIBRARIES = """
import sys
from discrimloss.cli import main
code = main()
print("imported", *{name.partition(".")[0] for name in sys.modules})
sys.exit(code)
"""


def command_words(group: Any, *words: str) -> Iterator[tuple[str, ...]]:
    """The words that name each command, those of groups first."""
    yield words
    for name, command in getattr(group, "commands", {}).items():
        yield from command_words(command, *words, name)


COMMANDS = list(command_words(typer.main.get_command(app)))


def test_every_command_is_looked_at() -> None:
    assert {(), ("audit",), ("train",), ("data",), ("data", "fetch")} <= set(COMMANDS)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_imports_no_heavy_library(words: tuple[str, ...]) -> None:
    assert_light((*words, "--help"), code=0, says="Usage: discrimloss")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--version",), 0, "discrimloss "),
        (("bogus",), 2, "no such command 'bogus'"),
        (("train", "--bogus"), 2, "no such option: --bogus"),
        (("train",), 2, "missing argument 'recipe'"),
        (("audit", "data.csv"), 2, "missing option '--out'"),
        (("tune", "digits", "--trials", "0"), 2, "--trials must be 1 or more"),
    ],
)
def test_usage_errors_import_no_heavy_library(
    arguments: tuple[str, ...], code: int, says: str
) -> None:
    assert_light(arguments, code, says)


def assert_light(arguments: tuple[str, ...], code: int, says: str) -> None:
    ended = run_process(IMPORTED_LIBRARIES, *arguments)
    assert ended.returncode == code, ended.stderr
    assert says in ended.stdout + ended.stderr
    imported = ended.stdout.splitlines()[-1].split()
    assert imported[0] == "imported"
    assert HEAVY & set(imported) == set()


def test_launchers_can_start_the_module() -> None:
    ended = run_process(
        "import runpy; runpy.run_module('discrimloss.cli', run_name='__main__')", "ls"
    )
    assert ended.returncode == 0, ended.stderr
    assert "cifar10" in ended.stdout
