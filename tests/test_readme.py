"""Every Python block of the README runs as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import discrimloss

README = Path(__file__).parents[1] / "README.md"


def python_blocks() -> list[str]:
    text = README.read_text(encoding="utf-8") if README.exists() else ""
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_readme_shows_some_python() -> None:
    assert python_blocks(), f"{README} has no ```python block"


@pytest.mark.parametrize("block", python_blocks(), ids=lambda block: block.splitlines()[0])
def test_a_block_runs_as_printed(block: str, tmp_path: Path) -> None:
    source = Path(discrimloss.__file__).parents[1]
    finished = subprocess.run(
        [sys.executable, "-c", block],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
