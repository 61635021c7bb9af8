"""Help, the version and usage errors do not wait for torch or any other heavy library."""

from __future__ import annotations

import json
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
START_EACH = """
import contextlib, io, json, sys
from discrimloss.cli import main
ended = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
        code = main(arguments)
    libraries = {name.partition(".")[0] for name in sys.modules}
    ended.append((code, printed.getvalue(), sorted(libraries)))
print(json.dumps(ended))
"""


def command_words(group: Any, *words: str) -> Iterator[tuple[str, ...]]:
    """The words that name each command, those of groups first."""
    yield words
    for name, command in getattr(group, "commands", {}).items():
        yield from command_words(command, *words, name)


COMMANDS = list(command_words(typer.main.get_command(app)))
USAGE = [
    (("--version",), 0, "discrimloss "),
    (("bogus",), 2, "no such command 'bogus'"),
    (("train", "--bogus"), 2, "no such option: --bogus"),
    (("train",), 2, "missing argument 'recipe'"),
    (("audit", "data.csv"), 2, "missing option '--out'"),
    (("tune", "digits", "--trials", "0"), 2, "--trials must be 1 or more"),
]
Ended = tuple[int, str, set[str]]


@pytest.fixture(scope="module")
def started() -> dict[tuple[str, ...], Ended]:
    """Exit code, words and libraries of each command, one after the other in a process of its own.

    A library that one of them imports is there for all that come later.
    """
    each = [*((*words, "--help") for words in COMMANDS), *(arguments for arguments, _, _ in USAGE)]
    process = run_process(START_EACH, json.dumps(each))
    assert process.returncode == 0, process.stderr
    ended = [(code, says, set(imported)) for code, says, imported in json.loads(process.stdout)]
    return dict(zip(each, ended, strict=True))


def test_every_command_is_looked_at() -> None:
    assert {(), ("audit",), ("train",), ("data",), ("data", "fetch")} <= set(COMMANDS)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_imports_no_heavy_library(
    words: tuple[str, ...], started: dict[tuple[str, ...], Ended]
) -> None:
    code, says, imported = started[(*words, "--help")]
    assert (code, HEAVY & imported) == (0, set())
    assert "Usage: discrimloss" in says


@pytest.mark.parametrize(("arguments", "expected", "part"), USAGE)
def test_usage_errors_import_no_heavy_library(
    arguments: tuple[str, ...],
    expected: int,
    part: str,
    started: dict[tuple[str, ...], Ended],
) -> None:
    code, says, imported = started[arguments]
    assert (code, HEAVY & imported) == (expected, set())
    assert part in says


def test_launchers_can_start_the_module() -> None:
    ended = run_process(
        "import runpy; runpy.run_module('discrimloss.cli', run_name='__main__')", "ls"
    )
    assert ended.returncode == 0, ended.stderr
    assert "cifar10" in ended.stdout
