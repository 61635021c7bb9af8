"""The command line from outside: what it says, what it refuses, what it leaves behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import discrimloss
from discrimloss.cli import main

RUN_MAIN = "import sys; from discrimloss.cli import main; sys.exit(main())"


def environment(**changes: str) -> dict[str, str]:
    """Of a process that has this package, and no data directory unless told."""
    source = str(Path(discrimloss.__file__).parents[1])
    kept = {name: value for name, value in os.environ.items() if name != "DISCRIMLOSS_DATA"}
    return kept | {"PYTHONPATH": source, "PYTHONIOENCODING": "utf-8"} | changes


def run_process(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python program in a process of its own, with arguments."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """The one sentence on stderr of a command that must fail."""
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"discrimloss: [^\n]+\n", captured.err)
    return captured.err.removeprefix("discrimloss: ").rstrip("\n")


def snapshot(directory: Path) -> dict[str, bytes | None]:
    """Every file below a directory, with its contents."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }
